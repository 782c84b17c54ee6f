"""Which version of each request two sides both speak: the first exchange on every connection.

The asking side sends ApiVersions in the highest version it knows. One too old for that answers in its oldest
form with what it knows, and is asked again.
"""

from collections.abc import Iterable
from typing import Final

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.transport.client_connection import ClientConnection
from headrace.wire.apis import API, ApiKey
from headrace.wire.framing import read_response
from headrace.wire.schemas.api_versions import (
    DESTINATION_SINCE,
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
)

SOFTWARE: Final = ("headrace", "0.1")
VERSION_ASKED: Final = DESTINATION_SINCE - 1
"""Of ApiVersions: a later one says whom it means, which is not known here, and Kafka 4.3 refuses it first."""


class VersionTable:
    """What one broker said it speaks, and the features that its cluster has agreed on."""

    def __init__(
        self, broker: str, versions: Iterable[ApiVersion], features: Iterable[FinalizedFeatureKey] = ()
    ) -> None:
        self._broker = broker
        self.features = {each.name: each.max_version_level for each in features}
        self._ranges = {each.api_key: (each.min_version, each.max_version) for each in versions}

    def supports(self, api_key: int) -> bool:
        return api_key in self._ranges

    def choose(self, api_key: int, *, at_most: int | None = None) -> int:
        """The highest version that both sides speak; `at_most` where the request needs an older form.

        UNSUPPORTED_VERSION where there is none.
        """
        api = API[api_key]
        if api_key not in self._ranges:
            raise ApiError(
                ErrorCode.UNSUPPORTED_VERSION,
                f"the broker at {self._broker} does not know {api.name} requests",
            )
        least, most = self._ranges[api_key]
        version = min(most, api.advertised_max if at_most is None else at_most)
        if version < max(least, api.min_version):
            ours = f"this client speaks {api.min_version} to {api.max_version}"
            theirs = f"the broker at {self._broker} speaks {api.name} in versions {least} to {most}"
            raise ApiError(ErrorCode.UNSUPPORTED_VERSION, f"{theirs}, and {ours}")
        return version


async def ask_versions(connection: ClientConnection, *, timeout_ms: int) -> ApiVersionsResponse:
    """What the other side speaks. ConnectionError and InvalidBytesError as from any request."""
    version = VERSION_ASKED
    response = await _ask(connection, version, timeout_ms)
    if response.error_code == ErrorCode.UNSUPPORTED_VERSION:
        theirs = {each.api_key: each.max_version for each in response.api_keys}
        response = await _ask(connection, min(version, theirs.get(ApiKey.API_VERSIONS, 0)), timeout_ms)
    return response


async def _ask(connection: ClientConnection, version: int, timeout_ms: int) -> ApiVersionsResponse:
    request = ApiVersionsRequest(client_software_name=SOFTWARE[0], client_software_version=SOFTWARE[1])
    return await connection.ask(
        request,
        version,
        ApiVersionsResponse,
        timeout_ms=timeout_ms,
        read=lambda frame: _read(bytes(frame), version),
    )


def _read(frame: bytes, version: int) -> ApiVersionsResponse:
    is_older = int.from_bytes(frame[4:6], "big", signed=True) == ErrorCode.UNSUPPORTED_VERSION
    return read_response(ApiVersionsResponse, 0 if is_older else version, frame)
