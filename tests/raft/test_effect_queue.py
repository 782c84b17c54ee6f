"""What must be remembered is on the disk before anything that rests on it is done."""

import asyncio
import errno
from collections.abc import Callable, Coroutine
from typing import Any

from headrace.raft.drivers.effect_queue import FULL_DISK_RETRY_S, EffectQueue
from headrace.raft.messages import Effects, ElectionState
from headrace.testing.machine import Surroundings
from headrace.testing.world import World

VOTED = Effects(persist=ElectionState(epoch=3))
LATER = Effects(persist=ElectionState(epoch=4))
SAID = Effects()


class Vote:
    """A file that takes a vote unless `refusal` says why not."""

    def __init__(self, around: Surroundings) -> None:
        self.refusal: OSError | None = None
        self.tries = 0
        self.written: list[int] = []
        self.done: list[Effects] = []
        self.failures: list[Exception] = []
        self.promises = EffectQueue(
            around.loop, persist=self.persist, carry_out=self.done.append, on_failure=self.failures.append
        )

    def persist(self, state: ElectionState) -> None:
        self.tries += 1
        if self.refusal is not None:
            raise self.refusal
        self.written.append(state.epoch)


def play(script: Callable[[Vote], Coroutine[Any, Any, None]]) -> None:
    world = World("promises")
    machine = world.machine("member")

    async def member(around: Surroundings) -> None:
        await script(Vote(around))

    async def run() -> None:
        await world.result(machine, machine.boot(member))

    world.run(run())
    world.close()


def test_a_full_disk_is_waited_for_and_what_promises_nothing_is_lost_meanwhile() -> None:
    async def script(vote: Vote) -> None:
        vote.refusal = OSError(errno.ENOSPC, "no room")
        told: list[str] = []
        vote.promises.add(VOTED, lambda: told.append("voted"))
        await asyncio.sleep(10 * FULL_DISK_RETRY_S)
        vote.promises.add(SAID, lambda: told.append("said"))
        vote.promises.add(LATER, lambda: told.append("later"))
        await asyncio.sleep(10 * FULL_DISK_RETRY_S)
        assert vote.tries >= 18
        assert (vote.done, told, vote.failures) == ([], [], [])
        vote.refusal = None
        await asyncio.sleep(2 * FULL_DISK_RETRY_S)
        assert (vote.written, told) == ([3, 4], ["voted", "later"])
        vote.promises.add(SAID, lambda: told.append("said"))
        assert told == ["voted", "later", "said"]

    play(script)


def test_a_disk_that_fails_is_not_tried_again() -> None:
    async def script(vote: Vote) -> None:
        vote.refusal = OSError(errno.EIO, "broken")
        vote.promises.add(VOTED)
        await asyncio.sleep(1)
        vote.promises.add(LATER)
        await asyncio.sleep(1)
        assert (vote.tries, vote.done, vote.failures) == (1, [], [vote.refusal])

    play(script)


def test_who_stops_waits_for_no_room() -> None:
    async def script(vote: Vote) -> None:
        vote.refusal = OSError(errno.ENOSPC, "no room")
        vote.promises.add(VOTED)
        await asyncio.sleep(1)
        vote.promises.wait_no_longer()
        tries = vote.tries
        await asyncio.sleep(60)
        assert vote.tries == tries

    play(script)
