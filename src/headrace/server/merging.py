"""One reply from two places: results that this node has at once, and those that the controller decides."""

from asyncio import AbstractEventLoop, Future
from typing import Any, Protocol, TypeVar


class Reply(Protocol):
    """A response with a result for each thing that was asked for, in that order."""

    responses: list[Any]


AnyReply = TypeVar("AnyReply", bound=Reply)


def merge_results(
    decided: "Future[AnyReply]", here: dict[int, Any], *, loop: AbstractEventLoop
) -> "Future[AnyReply]":
    """The decided reply with the results of `here` put in at their places."""
    if not here:
        return decided
    answer: Future[AnyReply] = loop.create_future()

    def when_decided(done: "Future[AnyReply]") -> None:
        if answer.done():
            return
        if done.cancelled():
            answer.cancel()
            return
        error = done.exception()
        if error is not None:
            answer.set_exception(error)
            return
        reply = done.result()
        for place in sorted(here):
            reply.responses.insert(place, here[place])
        answer.set_result(reply)

    decided.add_done_callback(when_decided)
    return answer
