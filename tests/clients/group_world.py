"""Our own consumers in one group on virtual time: they join, leave, crash and freeze; the node is killed too.

The schedule and the checks are those of `tests.compat.mixed_groups`, which does the same in real time with
all clients there are. Here every member is a process of a simulated machine, so that hundreds of seeds take
minutes, and a seed that fails can be run again exactly:

    python -m tests.clients.group_world --seeds 200 [--first N] [--seconds 60]
"""

import argparse
import asyncio
import random
from collections.abc import Iterator
from typing import Any, Final

from headrace.base.ids import TopicPartition
from headrace.base.internal_topics import OFFSETS_TOPIC
from headrace.clients import AsyncConsumer, RebalanceListener
from headrace.clients.errors import ClientError
from headrace.clients.internals.environment import ClientEnvironment
from headrace.records.batch import batches, read_records
from headrace.testing.disk import Crash
from headrace.testing.machine import SimulatedMachine, Surroundings
from tests.clients.worlds import ClientWorld
from tests.compat.mixed_groups import schedule
from tests.compat.mixed_groups.checker import check_group, stories_of
from tests.compat.mixed_groups.coordinator_log import Written, read_history
from tests.compat.mixed_groups.lines import Event
from tests.compat.mixed_groups.roster import BROKER_SETTINGS, POLL_INTERVAL_MS, SESSION_MS, Seat
from tests.server.node_world import PORT

TOPIC: Final = "t"
GROUP: Final = "g"
PARTITIONS: Final = 6
SETTLE_SECONDS: Final = 120.0

_COOPERATIVE: Final = {"partition.assignment.strategy": "cooperative-sticky"}
_RANGE: Final = {"partition.assignment.strategy": "range"}
_CONSUMER: Final = {"group.protocol": "consumer"}
_STATIC: Final = {"group.instance.id": "a name of the seat's own"}
WAYS: Final[dict[str, list[dict[str, str]]]] = {
    "range": [_RANGE],
    "cooperative": [_COOPERATIVE],
    "assigned": [_CONSUMER],
    "converted": [_CONSUMER, _RANGE],
    "converted cooperatively": [_COOPERATIVE, _CONSUMER],
    "static": [_RANGE, _STATIC | _RANGE],
    "static cooperative": [_STATIC | _COOPERATIVE],
}
_COMMITS: Final = ("sync", "async", "auto")


class Member(RebalanceListener):
    """One life of a seat: reads, tells and commits until it is asked to leave."""

    def __init__(self, world: "GroupWorld", seat: Seat, life: int) -> None:
        self.client = f"{seat.name}#{life}"
        self.is_asked_to_leave = False
        self._world = world
        self._seat = seat
        self._consumer: AsyncConsumer
        self._uncommitted: dict[TopicPartition, int] = {}

    async def run(self, own: Surroundings) -> None:
        world = ClientEnvironment(own.loop, own.network, own.clock, own.rng)
        settings: dict[str, Any] = {
            "bootstrap.servers": f"node:{PORT}",
            "group.id": GROUP,
            "client.id": self.client,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": self._seat.commit == "auto",
            "auto.commit.interval.ms": 300,
            "session.timeout.ms": SESSION_MS,
            "heartbeat.interval.ms": 1_000,
            "max.poll.interval.ms": POLL_INTERVAL_MS,
            "request.timeout.ms": 5_000,
            "default.api.timeout.ms": 5_000,
            "max.poll.records": own.rng.choice([3, 500]),
        }
        own_name = {name: self._seat.name for name in _STATIC if name in self._seat.more}
        self._consumer = AsyncConsumer(settings | self._seat.more | own_name, environment=world)
        self._consumer.subscribe([TOPIC], listener=self)
        while not self.is_asked_to_leave:
            rows = await self._consumer.poll(0.1)
            if rows:
                spans = tuple((row.partition, row.offset, row.offset + 1) for row in rows)
                self._tell("records", spans=spans)
                self._uncommitted |= {TopicPartition(TOPIC, row.partition): row.offset + 1 for row in rows}
            if own.rng.random() < 0.1:
                await asyncio.sleep(own.rng.uniform(0.0, 2.0))  # a user that takes its time
            await self._commit()
        await self._consumer.close()
        self._tell("closed")

    async def _commit(self) -> None:
        offsets, began = dict(self._uncommitted), self._world.wall_ms()
        if not offsets or self._seat.commit == "auto":
            return
        if self._seat.commit == "async":
            self._consumer.commit_async(offsets, lambda _, error: self._noted(began, offsets, error))
            return
        try:
            await self._consumer.commit(offsets)
            self._noted(began, offsets, None)
        except ClientError as error:
            self._noted(began, offsets, error)

    def _noted(self, began: int, offsets: dict[TopicPartition, int], error: ClientError | None) -> None:
        if error is not None:
            self._tell("refused", why=str(error))
            return
        self._tell("committed", began=began, offsets=tuple((at.partition, to) for at, to in offsets.items()))
        for at, to in offsets.items():
            if self._uncommitted.get(at) == to:
                del self._uncommitted[at]

    def _tell(self, kind: str, **more: Any) -> None:
        self._world.events.append(Event(self._world.wall_ms(), self.client, kind, **more))

    def on_assigned(self, partitions: list[TopicPartition]) -> None:
        self._tell("assigned", partitions=tuple(each.partition for each in partitions))

    async def on_revoked(self, partitions: list[TopicPartition]) -> None:
        if self._seat.commit != "async":
            await self._commit()
        self._let_go("revoked", partitions)

    def on_lost(self, partitions: list[TopicPartition]) -> None:
        self._let_go("lost", partitions)

    def _let_go(self, kind: str, partitions: list[TopicPartition]) -> None:
        for each in partitions:
            self._uncommitted.pop(each, None)
        self._tell(kind, partitions=tuple(each.partition for each in partitions))


class GroupWorld(ClientWorld):
    """A node and machines for members."""

    def __init__(self, way: str, *, members: int, seed: int) -> None:
        super().__init__(BROKER_SETTINGS, seed=seed)
        kinds = WAYS[way]
        self.seats = [
            Seat(GROUP, f"m{at}", kinds[at % len(kinds)], _COMMITS[at % len(_COMMITS)])
            for at in range(members)
        ]
        self._has_static = any(_STATIC.keys() & kind.keys() for kind in kinds)
        self.events: list[Event] = []
        self.present: dict[str, Member] = {}
        self.rng = random.Random(f"group/{seed}")
        self.ends = [0] * PARTITIONS
        self._lives: dict[str, int] = {}

    def wall_ms(self) -> int:
        """The node's time of day, which its log has too: the members' own clocks differ."""
        return self.machine.clock.now_ms()

    async def live(self, seconds: float, seed: int) -> list[str]:
        """A life in so many virtual seconds, and what was wrong with it."""
        await self.start()
        await self.create_topic(TOPIC, PARTITIONS)
        began = self.world.virtual_s
        writing = asyncio.get_running_loop().create_task(self._write(began + seconds))
        for step in schedule.plan(self.seats, seconds=seconds, seed=seed):
            await asyncio.sleep(max(0.0, began + step.at - self.world.virtual_s))
            self._act(step)
            self._cut(self.rng.choice(self.seats).name)
            # A static member's new id is written when its group agrees. A coordinator that forgets it before
            # takes its owner for another, which no client survives, and none should.
            if self.rng.random() < 0.05 and not self._has_static:
                self.kill()
                await self.start()
        await asyncio.sleep(max(0.0, began + seconds - self.world.virtual_s))
        await writing
        self.world.network.heal()
        for seat in self.seats:
            self._machine(seat.name).resume()
        return await self._settle()

    async def _write(self, until: float) -> None:
        async with self.producer(linger_ms=50) as producer:
            while self.world.virtual_s < until:
                partition = self.rng.randrange(PARTITIONS)
                self.ends[partition] += 1
                await producer.send(TOPIC, b"", partition=partition)
                await asyncio.sleep(self.rng.expovariate(20.0))

    def _cut(self, name: str) -> None:
        """Now and then a member loses its connections, or is out of reach for less or more than a session."""
        network, chance = self.world.network, self.rng.random()
        if chance < 0.3:
            for stream in network.connections("node", name):
                network.cut(stream)
        elif chance < 0.4:
            network.partition(["node"], [name])
            asyncio.get_running_loop().call_later(self.rng.uniform(0.5, 15.0), network.heal)

    # Steps

    def _machine(self, name: str) -> SimulatedMachine:
        return self.world.machine(name)

    def _act(self, step: schedule.Step) -> None:
        machine, member = self._machine(step.seat), self.present.get(step.seat)
        if step.action == schedule.START:
            self._start(next(seat for seat in self.seats if seat.name == step.seat))
        elif member is None:
            return
        elif step.action == schedule.LEAVE:
            member.is_asked_to_leave = True
        elif step.action == schedule.CRASH:
            machine.crash(Crash.KILL)
            self._ended(step.seat, "killed")
        elif step.action == schedule.FREEZE:
            machine.pause()
        else:
            machine.resume()
            self._note(member, "continued")

    def _start(self, seat: Seat) -> None:
        if seat.name in self.present:
            return
        self._lives[seat.name] = self._lives.get(seat.name, 0) + 1
        member = self.present[seat.name] = Member(self, seat, self._lives[seat.name])
        machine = self._machine(seat.name)

        async def program(own: Surroundings) -> None:
            await member.run(own)
            own.loop.call_soon(left)

        def left() -> None:
            machine.retire()
            self._ended(seat.name, "ended")

        machine.boot(program)

    def _ended(self, name: str, kind: str) -> None:
        self._note(self.present.pop(name), kind)

    def _note(self, member: Member, kind: str) -> None:
        self.events.append(Event(self.wall_ms(), member.client, kind))

    # The end

    async def _settle(self) -> list[str]:
        deadline = self.world.virtual_s + SETTLE_SECONDS
        async with self.consumer(group_id=GROUP) as reader:
            places = [TopicPartition(TOPIC, number) for number in range(PARTITIONS)]
            while True:
                for seat in self.seats:
                    self._start(seat)  # who was just leaving comes back once it has left
                found = await reader.committed(places)
                committed = [found[each].offset if each in found else 0 for each in places]
                owned = [sorted(self._owned(member)) for member in self.present.values()]
                if committed == self.ends and len(self.present) == len(self.seats) and self._all_agree():
                    break
                if self.world.virtual_s > deadline:
                    return [f"not settled: {owned} owned, {committed} of {self.ends} committed"]
                await asyncio.sleep(0.5)
        history = read_history(self._written(), TOPIC)[GROUP]
        return check_group(stories_of(self.events), history, self.ends)

    def _all_agree(self) -> bool:
        """Whether the members own all there is in their own eyes, and the same in the coordinator's: who has
        just been thawed may think that it owns what was taken from it.
        """
        owned = [(number, each.client) for each in self.present.values() for number in self._owned(each)]
        if sorted(number for number, _ in owned) != list(range(PARTITIONS)):
            return False
        history = read_history(self._written(), TOPIC)[GROUP]
        held = [(hold.partition, hold.client) for hold in history.holds if hold.end is None]
        return sorted(owned) == sorted(held)

    def _owned(self, member: Member) -> set[int]:
        return stories_of([event for event in self.events if event.client == member.client])[
            member.client
        ].owned_now()

    def _written(self) -> Iterator[Written]:
        log = self.log(OFFSETS_TOPIC)
        offset = log.log_start_offset
        while offset < log.log_end_offset:
            read = log.read(offset, max_bytes=1 << 20, max_offset=log.log_end_offset, at_least_one=True)
            data = read.chunk if isinstance(read.chunk, bytes) else read.chunk.read()
            for at, header in batches(data):
                for record in read_records(data, at):
                    assert record.key is not None
                    yield record.timestamp, record.key, record.value
                offset = header.next_offset


def faults_of(way: str, seed: int, *, seconds: float, members: int = 6) -> list[str]:
    with GroupWorld(way, members=members, seed=seed) as world:
        return world.run(world.live(seconds, seed))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.clients.group_world")
    parser.add_argument("--seeds", type=int, default=50)
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--way", choices=list(WAYS), nargs="*", default=list(WAYS))
    options = parser.parse_args()
    wrong = 0
    for seed in range(options.first, options.first + options.seeds):
        for way in options.way:
            faults = faults_of(way, seed, seconds=options.seconds)
            wrong += bool(faults)
            for fault in faults[:8]:
                print(f"seed {seed}, {way}: {fault}", flush=True)
    print(f"{options.seeds} seeds, {len(options.way)} kinds of groups: {wrong} runs with violations")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
