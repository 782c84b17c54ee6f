"""What a broker forwards takes effect once, however often it arrives.

A broker that gets no answer forwards a request again, by another connection. The first one may still be on
its way, and arrive when what it asked for has been undone: a topic that was made and deleted would be there
again. So brokers of this kind number what they forward (`controller.active`), and the controller that has
carried a number out, or is about to, gives the same answer again.
"""

from asyncio import Future
from collections import OrderedDict
from typing import Any, Final

from headrace.controller.active import FORWARDER
from headrace.wire.framing import RequestHeader

REMEMBERED_MAX: Final = 1000
"""As many as can be under way, and more than can be late."""


class ForwardedOnce:
    """Outcomes of numbered requests, the oldest first."""

    def __init__(self) -> None:
        self._outcomes: OrderedDict[tuple[str, int], Future[Any]] = OrderedDict()

    def find(self, header: RequestHeader) -> "Future[Any] | None":
        """What becomes of the request if it was met before."""
        return self._outcomes.get(_number(header))

    def remember(self, header: RequestHeader, outcome: "Future[Any]") -> None:
        if header.client_id is not None and header.client_id.startswith(FORWARDER):
            self._outcomes[_number(header)] = outcome
            if len(self._outcomes) > REMEMBERED_MAX:
                self._outcomes.popitem(last=False)

    def forget(self, header: RequestHeader) -> None:
        """It was not carried out: it may be asked for again."""
        self._outcomes.pop(_number(header), None)


def _number(header: RequestHeader) -> tuple[str, int]:
    return header.client_id or "", header.correlation_id
