"""Requests that this node does not decide: they are passed on as they are, and the reply with them.

A row of `server/api_table.py` names one of these functions in place of a handler. What such a request means
and what is checked is said with its schema (`wire/schemas/`).
"""

from __future__ import annotations

from asyncio import Future
from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.controller.controller_result import no_quota
from headrace.controller.drivers.active_controller import FORWARDER
from headrace.raft.drivers.request_handler import RaftRequestHandler
from headrace.server.context import RequestContext
from headrace.wire.apis import ApiKey
from headrace.wire.framing import RequestHeader

if TYPE_CHECKING:
    from asyncio import Future

    from headrace.controller.drivers.quorum_controller import QuorumController

Handler: TypeAlias = Callable[[RequestContext, Any], Any]
"""`handle(context, request)` gives the response, a Future of it, a generator that ends with one of those, or
NO_REPLY."""

_QUORUM_APIS: Final[dict[int, Callable[..., Any]]] = {
    int(ApiKey.FETCH): RaftRequestHandler.fetch,
    int(ApiKey.VOTE): RaftRequestHandler.vote,
    int(ApiKey.BEGIN_QUORUM_EPOCH): RaftRequestHandler.begin_quorum_epoch,
    int(ApiKey.END_QUORUM_EPOCH): RaftRequestHandler.end_quorum_epoch,
    int(ApiKey.FETCH_SNAPSHOT): RaftRequestHandler.fetch_snapshot,
}


def own_controller(context: RequestContext) -> QuorumController:
    """The controller of this very node, for requests that must not be passed on: their senders look for the
    active one by themselves. NOT_CONTROLLER where this node has none; one that is not active says so itself.
    """
    controller = context.parts.own_controller
    if controller is None:
        raise ApiError(ErrorCode.NOT_CONTROLLER, "this node is no controller")
    return controller


def to_controller(context: RequestContext, request: Any) -> Future[Any]:
    """Ask the active controller, wherever it is, in an Envelope with the client's principal (KIP-590)."""
    return context.controller.ask(request, api_version=context.api_version)


def change_partitions(context: RequestContext, request: Any) -> Future[Any]:
    """Ask the active controller to make or remove partitions, which clients may have quotas of (KIP-599)."""
    quotas = context.parts.quotas
    quota = quotas.mutation_quota(context)
    answer = context.controller.ask(request, api_version=context.api_version, quota=quota or no_quota)
    return quotas.throttled_changes(context, quota, answer)


def to_own_controller(context: RequestContext, request: Any) -> Future[Any]:
    """Ask this node's controller: nodes ask the active one themselves."""
    return own_controller(context).ask(request, api_version=context.api_version)


def to_quorum(context: RequestContext, request: Any) -> Any:
    """Ask this node's member of the metadata quorum."""
    serve = _QUORUM_APIS[context.api_key]
    return serve(context.parts.quorum.request_handler, request, api_version=context.api_version)


REMEMBERED_MAX: Final = 1000
"""As many as can be under way, and more than can be late."""


class ForwardedOnce:
    """Outcomes of numbered requests, the oldest first: what a broker forwards takes effect once, however
    often it arrives.

    A broker that gets no answer forwards a request again, by another connection. The first one may still be
    on its way, and arrive when what it asked for has been undone: a topic that was made and deleted would be
    there again. So brokers of this kind number what they forward (ActiveController), and the controller that
    has carried a number out, or is about to, gives the same answer again.
    """

    def __init__(self) -> None:
        self._outcomes: OrderedDict[tuple[str, int], Future[Any]] = OrderedDict()

    def find(self, header: RequestHeader) -> Future[Any] | None:
        """What becomes of the request if it was met before."""
        return self._outcomes.get(_number(header))

    def remember(self, header: RequestHeader, outcome: Future[Any]) -> None:
        if header.client_id is not None and header.client_id.startswith(FORWARDER):
            self._outcomes[_number(header)] = outcome
            if len(self._outcomes) > REMEMBERED_MAX:
                self._outcomes.popitem(last=False)

    def forget(self, header: RequestHeader) -> None:
        """It was not carried out: it may be asked for again."""
        self._outcomes.pop(_number(header), None)


def _number(header: RequestHeader) -> tuple[str, int]:
    return header.client_id or "", header.correlation_id
