"""What is remembered of forwarded requests."""

import asyncio
from asyncio import Future
from collections.abc import Iterator
from typing import Any

import pytest

from headrace.controller.drivers.active_controller import FORWARDER
from headrace.server.forwarding import REMEMBERED_MAX, ForwardedOnce
from headrace.wire.framing import RequestHeader


def header(number: int, client_id: str | None = FORWARDER + "1") -> RequestHeader:
    return RequestHeader(19, 7, number, client_id, 0)


@pytest.fixture
def done() -> "Iterator[Future[Any]]":
    loop = asyncio.new_event_loop()
    yield loop.create_future()
    loop.close()


def test_only_numbered_requests_are_remembered(done: "Future[Any]") -> None:
    once = ForwardedOnce()
    for client_id in (None, "", "someone"):
        once.remember(header(1, client_id), done)
        assert once.find(header(1, client_id)) is None
    once.remember(header(1), done)
    assert once.find(header(1)) is done
    assert once.find(header(2)) is None
    assert once.find(header(1, FORWARDER + "2")) is None
    once.forget(header(1))
    assert once.find(header(1)) is None


def test_the_oldest_are_forgotten(done: "Future[Any]") -> None:
    once = ForwardedOnce()
    for number in range(REMEMBERED_MAX + 1):
        once.remember(header(number), done)
    assert once.find(header(0)) is None
    assert once.find(header(1)) is done
