"""Settings of a broker are asked of that broker itself: it alone has its file, and its process.

Changes are asked of it too, and it passes them to the controller, which takes them for any broker.
"""

import re
from typing import Final

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.server.context import RequestContext

_WHOLE_NUMBER: Final = re.compile(r"[+-]?[0-9]+")


def check_changeable(context: RequestContext, name: str) -> None:
    """INVALID_REQUEST unless settings of the broker of this name can be changed through this listener."""
    if context.connection.listener in context.parts.config.list("controller.listener.names"):
        _check_number(name)
    else:
        check_own_id(context, name)


def check_own_id(context: RequestContext, name: str) -> None:
    """INVALID_REQUEST unless `name` is this broker's number."""
    _check_number(name)
    if int(name) != context.parts.node_id:
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            f"this is broker {context.parts.node_id}: ask broker {int(name)} about its own settings",
        )


def _check_number(name: str) -> None:
    if not _WHOLE_NUMBER.fullmatch(name):
        raise ApiError(
            ErrorCode.INVALID_REQUEST, f"broker '{name}': a broker is named by its id, a whole number"
        )
