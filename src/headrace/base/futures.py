"""Chaining futures: what is done when one is done, without a task for each.

A future that waits for another must end however that one ends: with a result, an error or a cancellation. One
that does not keeps its reply, and every later reply of the connection, waiting for ever.
"""

from __future__ import annotations

from asyncio import AbstractEventLoop, Future, isfuture
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")
U = TypeVar("U")


def then(
    future: Future[T],
    function: Callable[[T], U | Future[U]],
    *,
    loop: AbstractEventLoop,
    on_error: Callable[[BaseException], U | Future[U]] | None = None,
    shared: bool = False,
) -> Future[U]:
    """A future of `function(result)`, which may give a future in turn.

    Errors go to `on_error` if there is one, else to the answer, as does what a function raises. Who cancels
    the answer cancels `future`, unless it is `shared`: others wait for it too.
    """
    answer: Future[U] = loop.create_future()

    def when_done(done: Future[T]) -> None:
        if answer.done():
            ignore(done)
            return
        if done.cancelled():
            answer.cancel()
            return
        error = done.exception()
        if error is None:
            complete_with(answer, lambda: function(done.result()))
        elif on_error is None:
            answer.set_exception(error)
        else:
            complete_with(answer, lambda: on_error(error))

    future.add_done_callback(when_done)
    if not shared:
        answer.add_done_callback(lambda _: future.cancel() if answer.cancelled() else None)
    return answer


def complete_with(answer: Future[T], give: Callable[[], T | Future[T]]) -> None:
    """Give now what the answer is to be: a result, a future of it, or what is raised."""
    try:
        outcome = give()
    except Exception as error:
        if not answer.done():
            answer.set_exception(error)
        return
    if isfuture(outcome):
        chain(outcome, answer)
    elif not answer.done():
        answer.set_result(outcome)


def chain(future: Future[T], answer: Future[T]) -> None:
    """End `answer` as `future` ends, unless it has ended before."""
    if future.done():
        _pass_on(future, answer)
    else:
        future.add_done_callback(lambda done: _pass_on(done, answer))


def completer(future: Future[T]) -> Callable[[T], None]:
    """A callback that completes the future; it does nothing once that is done, or was cancelled because its
    connection is gone.
    """

    def complete(result: T) -> None:
        if not future.done():
            future.set_result(result)

    return complete


def ignore(done: Future[Any]) -> None:
    """A callback for a future that nobody waits for any more: its error is not reported as forgotten."""
    if not done.cancelled():
        done.exception()


def _pass_on(done: Future[T], answer: Future[T]) -> None:
    if answer.done():
        ignore(done)
    elif done.cancelled():
        answer.cancel()
    else:
        error = done.exception()
        if error is None:
            answer.set_result(done.result())
        else:
            answer.set_exception(error)
