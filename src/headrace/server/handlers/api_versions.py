"""ApiVersions (18), v0-v5: what this listener serves, in which versions, and the cluster's features.

Lists exactly the rows of the listener's API table. A client's name and version (v3, KIP-511) must look like
names: INVALID_REQUEST otherwise. Features (KIP-584) are the ranges this release can run and the levels that
the cluster has agreed on; a range that starts at 0 is left out below v4, whose clients take 0 for an error. A
client that means another cluster or node (v5, KIP-1242) hears REBOOTSTRAP_REQUIRED. A version from the future
gets error 35 in the form of v0, with the range of this one request kind (KIP-511).
"""

from __future__ import annotations

import re
from typing import Final

from headrace.base.chunks import Chunk
from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.metadata.features import SUPPORTED
from headrace.server.api_table import ApiTable
from headrace.server.context import RequestContext
from headrace.wire.apis import API, ApiKey
from headrace.wire.codec import encode_chunks
from headrace.wire.framing import response_frame
from headrace.wire.schemas.api_versions import (
    CLIENT_SOFTWARE_SINCE,
    DESTINATION_SINCE,
    ZERO_LEVELS_SINCE,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

NO_NODE: Final = -1

# No repeat within a repeat: linear in its input.
_SOFTWARE_NAME: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def handle(context: RequestContext, request: ApiVersionsRequest) -> ApiVersionsResponse:
    """Tell what is served."""
    peer = context.peer
    if context.api_version >= CLIENT_SOFTWARE_SINCE:
        for text in (request.client_software_name, request.client_software_version):
            if not _SOFTWARE_NAME.fullmatch(text):
                raise ApiError(ErrorCode.INVALID_REQUEST, f"{text!r} is no name or version of a client")
        peer.software_name = request.client_software_name
        peer.software_version = request.client_software_version
    if context.api_version >= DESTINATION_SINCE:
        _check_destination(context, request)
    image = context.parts.image
    return ApiVersionsResponse(
        api_keys=peer.table.advertised,
        supported_features=[
            SupportedFeatureKey(name, levels.min, levels.max)
            for name, levels in SUPPORTED.items()
            if levels.min > 0 or context.api_version >= ZERO_LEVELS_SINCE
        ],
        finalized_features_epoch=image.offset,
        finalized_features=[
            FinalizedFeatureKey(name, level, level)
            for name, level in image.finalized_features().items()
            if level
        ],
    )


def _check_destination(context: RequestContext, request: ApiVersionsRequest) -> None:
    """Addresses move from one machine to another: a client that finds somebody else begins anew."""
    if request.cluster_id is None:
        return
    parts = context.parts
    own = parts.cluster_id, parts.config.node_id
    asked = request.cluster_id, request.node_id
    if asked not in (own, (own[0], NO_NODE)):
        raise ApiError(
            ErrorCode.REBOOTSTRAP_REQUIRED,
            f"node {asked[1]} of cluster {asked[0]} is not here: this is node {own[1]} of cluster {own[0]}",
        )


def unsupported_version_reply(table: ApiTable, correlation_id: int) -> list[Chunk]:
    """The whole reply to a version that this table does not serve."""
    own = [version for version in table.advertised if version.api_key == ApiKey.API_VERSIONS]
    response = ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=own)
    return response_frame(API[ApiKey.API_VERSIONS], 0, correlation_id, encode_chunks(response, 0))
