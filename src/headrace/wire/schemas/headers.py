"""Headers in front of every request and response.

Request: v1, and v2 with tagged fields where the request is flexible. Response: v0, and v1 likewise, except
that ApiVersions is always answered with v0. `framing` reads and writes them by hand; these are their
written form.
"""

from __future__ import annotations

from typing import Annotated

from headrace.wire.notation import NEVER_COMPACT, int16, int32, message


@message(versions=range(1, 3), flexible_from=2)
class RequestHeader:
    request_api_key: int16 = 0
    request_api_version: int16 = 0
    correlation_id: int32 = 0
    # keeps its old form in flexible versions, so that any broker can read it
    client_id: Annotated[str | None, NEVER_COMPACT] = ""


@message(versions=range(2), flexible_from=1)
class ResponseHeader:
    correlation_id: int32 = 0
