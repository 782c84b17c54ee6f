"""A chain of futures ends, however its first one ends."""

import asyncio
from asyncio import Future
from collections.abc import Iterator

import pytest

from headrace.base.futures import chain, completer, ignore, then


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


def turn(loop: asyncio.AbstractEventLoop) -> None:
    for _ in range(3):
        loop.call_soon(loop.stop)
        loop.run_forever()


def test_a_result_goes_through_the_function(loop: asyncio.AbstractEventLoop) -> None:
    first: Future[int] = loop.create_future()
    answer = then(first, lambda number: str(number + 1), loop=loop)
    turn(loop)
    assert not answer.done()
    first.set_result(1)
    turn(loop)
    assert answer.result() == "2"


@pytest.mark.parametrize("is_done", [False, True])
def test_a_function_may_give_a_future(loop: asyncio.AbstractEventLoop, is_done: bool) -> None:
    first: Future[int] = loop.create_future()
    second: Future[str] = loop.create_future()
    answer = then(first, lambda _: second, loop=loop)
    first.set_result(1)
    if is_done:
        second.set_result("x")
    turn(loop)
    if not is_done:
        assert not answer.done()
        second.set_result("x")
        turn(loop)
    assert answer.result() == "x"


def test_an_error_of_either_goes_on(loop: asyncio.AbstractEventLoop) -> None:
    for where in ("first", "function", "second"):
        first: Future[int] = loop.create_future()
        second: Future[int] = loop.create_future()

        def function(_: int, where: str = where, second: "Future[int]" = second) -> "Future[int]":
            if where == "function":
                raise ValueError(where)
            return second

        answer = then(first, function, loop=loop)
        if where == "first":
            first.set_exception(ValueError(where))
        else:
            first.set_result(1)
            second.set_exception(ValueError(where))
        turn(loop)
        error = answer.exception()
        assert isinstance(error, ValueError)
        assert error.args == (where,)
        ignore(second) if second.done() else second.cancel()


def test_an_error_may_have_an_answer(loop: asyncio.AbstractEventLoop) -> None:
    first: Future[int] = loop.create_future()
    answer = then(first, lambda number: str(number), loop=loop, on_error=lambda error: f"no: {error}")
    first.set_exception(ValueError("x"))
    turn(loop)
    assert answer.result() == "no: x"


def test_cancellation_goes_both_ways(loop: asyncio.AbstractEventLoop) -> None:
    first: Future[int] = loop.create_future()
    answer = then(first, str, loop=loop)
    first.cancel()
    turn(loop)
    assert answer.cancelled()
    first = loop.create_future()
    answer = then(first, str, loop=loop)
    answer.cancel()
    turn(loop)
    assert first.cancelled()


def test_what_others_wait_for_too_is_not_cancelled(loop: asyncio.AbstractEventLoop) -> None:
    first: Future[int] = loop.create_future()
    answer = then(first, str, loop=loop, shared=True)
    answer.cancel()
    turn(loop)
    assert not first.done()
    first.set_exception(ValueError("nobody waits"))
    turn(loop)
    assert answer.cancelled()


def test_an_answer_that_was_given_before_stays(loop: asyncio.AbstractEventLoop) -> None:
    first: Future[int] = loop.create_future()
    answer: Future[int] = loop.create_future()
    chain(first, answer)
    answer.set_result(1)
    first.set_exception(ValueError("late"))
    turn(loop)
    assert answer.result() == 1
    completer(answer)(2)
    assert answer.result() == 1
