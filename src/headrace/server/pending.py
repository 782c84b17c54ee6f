"""Answers that come later: a coordinator calls back when a rebalance or a write is through."""

from asyncio import Future
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def settle(future: "Future[T]") -> Callable[[T], None]:
    """A callback that completes the future; once its connection is gone (cancelled) it does nothing."""

    def complete(result: T) -> None:
        if not future.done():
            future.set_result(result)

    return complete
