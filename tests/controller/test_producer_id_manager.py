"""Producer ids that a broker is given in blocks."""

import asyncio
from typing import Any, cast

import pytest

from headrace.base.errors import ApiError
from headrace.controller.drivers.controller import Controller
from headrace.controller.drivers.producer_id_manager import ProducerIdManager
from headrace.metadata.image import MetadataImage


class Silent(Controller):
    """A controller that never answers."""

    def __init__(self) -> None:
        self.asked: list[asyncio.Future[Any]] = []

    def ask(self, request: Any, *, api_version: int | None = None) -> "asyncio.Future[Any]":
        self.asked.append(asyncio.get_running_loop().create_future())
        return self.asked[-1]


class Known:
    """An image that knows the broker."""

    class Broker:
        epoch = 5

    brokers = {1: Broker}  # noqa: RUF012


def test_who_waits_when_the_node_stops_is_told() -> None:
    async def script() -> None:
        controller = Silent()
        loop = asyncio.get_running_loop()
        uncaught: list[Any] = []
        loop.set_exception_handler(lambda _, context: uncaught.append(context))
        blocks = ProducerIdManager(controller, cast(MetadataImage, Known), node_id=1, loop=loop)
        waiting = blocks.take()
        assert isinstance(waiting, asyncio.Future)
        controller.asked[0].cancel()
        with pytest.raises(ApiError, match="stops"):
            await waiting
        assert not uncaught

    asyncio.run(script())
