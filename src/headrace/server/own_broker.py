"""Settings of a broker are asked of that broker itself: it alone has its file, and its process."""

import re
from typing import Final

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.server.context import RequestContext

_WHOLE_NUMBER: Final = re.compile(r"[+-]?[0-9]+")


def check_own_id(context: RequestContext, name: str) -> None:
    """INVALID_REQUEST unless `name` is this broker's number."""
    if not _WHOLE_NUMBER.fullmatch(name):
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Broker id must be an integer, but it is: {name}")
    if int(name) != context.parts.node_id:
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            f"Unexpected broker id, expected {context.parts.node_id}, but received {int(name)}",
        )
