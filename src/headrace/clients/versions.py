"""Which version of each request a client and a broker both speak."""

from collections.abc import Iterable

from headrace.clients.errors import UnsupportedError
from headrace.wire.apis import API
from headrace.wire.schemas.api_versions import ApiVersion


class VersionTable:
    """What one broker said it speaks."""

    def __init__(self, broker: str, versions: Iterable[ApiVersion]) -> None:
        self._broker = broker
        self._ranges = {each.api_key: (each.min_version, each.max_version) for each in versions}

    def supports(self, api_key: int) -> bool:
        return api_key in self._ranges

    def choose(self, api_key: int, *, at_most: int | None = None) -> int:
        """The highest version that both sides speak; `at_most` where the request needs an older form."""
        api = API[api_key]
        if api_key not in self._ranges:
            raise UnsupportedError(f"the broker at {self._broker} does not know {api.name} requests")
        least, most = self._ranges[api_key]
        version = min(most, api.advertised_max if at_most is None else at_most)
        if version < max(least, api.min_version):
            ours = f"this client speaks {api.min_version} to {api.max_version}"
            theirs = f"the broker at {self._broker} speaks {api.name} in versions {least} to {most}"
            raise UnsupportedError(f"{theirs}, and {ours}")
        return version
