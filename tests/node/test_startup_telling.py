"""A start that takes long says why, once in a while; one that does not says nothing."""

import asyncio

import pytest

from headrace.node import startup
from headrace.node.startup import telling


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(startup, "ODD_AFTER_S", 0.0)
    monkeypatch.setattr(startup, "AGAIN_AFTER_S", 0.0)


def test_the_reason_is_told_while_it_lasts() -> None:
    said: list[str] = []

    async def scenario() -> None:
        found: asyncio.Future[int] = asyncio.get_running_loop().create_future()

        async def work() -> int:
            return await found

        def say(text: str) -> None:
            said.append(text)
            if len(said) == 2 and not found.done():
                found.set_result(7)

        assert await telling(work(), say, lambda: "nobody answers") == 7

    asyncio.run(scenario())
    assert said[:2] == ["nobody answers"] * 2


def test_who_stops_waiting_stops_the_work() -> None:
    async def scenario() -> None:
        begun, ended = asyncio.Event(), asyncio.Event()

        async def work() -> None:
            begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()

        waiting = asyncio.ensure_future(telling(work(), lambda text: None, lambda: ""))
        await begun.wait()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await asyncio.wait_for(ended.wait(), 10)

    asyncio.run(scenario())


def test_nobody_is_told_where_nobody_listens() -> None:
    async def work() -> int:
        return 3

    assert asyncio.run(telling(work(), None, lambda: "")) == 3
