"""The controller of this very node, for requests that must not be passed on: whoever sent them looks for the
active one by itself.
"""

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.controller.driver import Controller
from headrace.server.context import RequestContext


def own_controller(context: RequestContext) -> Controller:
    """NOT_CONTROLLER where this node has none; one that is not active says so itself."""
    controller = context.parts.own_controller
    if controller is None:
        raise ApiError(ErrorCode.NOT_CONTROLLER, "this node is no controller")
    return controller
