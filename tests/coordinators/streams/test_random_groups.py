"""Random groups: members join, leave, die, miss answers and are slow, the coordinator moves, topics grow.

Each client believes what it was told last. Whatever happens, no task is active at two clients that are in the
group, nor twice in one process; and when all is calm every task is active once, and has its standbys.
"""

import random
from collections import Counter
from dataclasses import dataclass, field, replace

import pytest

from headrace.base.error_codes import ErrorCode
from headrace.coordinators.group.streams.tasks import TaskId
from headrace.wire.schemas.streams_group_heartbeat import StreamsGroupHeartbeatResponse, TaskIds
from tests.coordinators.streams.streams_world import AT_ONCE, StreamsWorld

STEPS = 150
CALM_ROUNDS = 11
"""Of five seconds: who has missed an answer must not have to wait for its rebalance timeout of a minute."""
LOST = {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH}


@dataclass
class Client:
    """A thread of a process, and the tasks it has open."""

    id: str
    process: str
    epoch: int = 0
    active: set[TaskId] = field(default_factory=set)
    standby: set[TaskId] = field(default_factory=set)


class RandomGroup:
    """A group without limits to what may happen to it."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        config = replace(AT_ONCE, assignment_interval_ms=self.chance.choice([0, 1_000]))
        self.world = StreamsWorld(config, "a = kept\nb", a=3, b=2)
        self.clients: dict[str, Client] = {}
        self._joined = 0

    def step(self) -> None:
        moves = (
            *((self.beat, 8), (self.join, 2), (self.leave, 1), (self.die, 1), (self.move, 1)),
            *((self.grow, 1), (self.wait, 3), (self.change_standbys, 1)),
        )
        (move,) = self.chance.choices([each for each, _ in moves], [often for _, often in moves])
        move()
        self.check()

    def join(self) -> None:
        if len(self.clients) < 6:
            self._joined += 1
            client = Client(f"m{self._joined}", self.chance.choice(["p", "q", "r"]))
            self.clients[client.id] = client
            self.say(client)

    def leave(self) -> None:
        if client := self.anyone():
            self.world.ask(client.id, -1)
            del self.clients[client.id]

    def die(self) -> None:
        if client := self.anyone():
            del self.clients[client.id]

    def beat(self) -> None:
        if client := self.anyone():
            self.say(client, is_heard=self.chance.random() < 0.8)

    def move(self) -> None:
        self.world.restart()

    def grow(self) -> None:
        topics = self.world.image.topics_by_name
        name = self.chance.choice(["a", "b"])
        count = len(topics[name].partitions)
        if count < 6:
            self.world.topic(name, count + 1)
            if name == "a" and "kept" in topics:
                self.world.topic("kept", count + 1)

    def wait(self) -> None:
        for _ in range(self.chance.randrange(1, 4)):
            self.world.pass_time(9_000)
            for client in list(self.clients.values()):
                self.say(client)

    def change_standbys(self) -> None:
        number = self.chance.randrange(3)
        self.world.streams_settings = replace(self.world.streams_settings, num_standby_replicas=number)

    def anyone(self) -> Client | None:
        return self.clients[self.chance.choice(sorted(self.clients))] if self.clients else None

    # --- what a client says and does ---

    def say(self, client: Client, *, is_heard: bool = True) -> None:
        """A heartbeat that says all; where its answer is lost the client goes on as it was."""
        tasks = {
            "active_tasks": on_wire(client.active),
            "standby_tasks": on_wire(client.standby),
            "warmup_tasks": [],
        }
        if client.epoch:
            reply = self.world.ask(client.id, client.epoch, **tasks)
        else:
            reply = self.world.ask(
                client.id,
                0,
                **tasks,
                topology=self.world.topology,
                process_id=client.process,
                rebalance_timeout_ms=60_000,
            )
        self.world.create_missing()
        if is_heard:
            self.hear(client, reply)

    def hear(self, client: Client, reply: StreamsGroupHeartbeatResponse) -> None:
        if reply.error_code in LOST:
            client.epoch, client.active, client.standby = 0, set(), set()
            return
        assert reply.error_code == 0, reply
        client.epoch = reply.member_epoch
        if reply.active_tasks is not None:
            client.active = of_wire(reply.active_tasks)
            client.standby = of_wire(reply.standby_tasks or [])

    # --- what must hold ---

    def check(self) -> None:
        group = self.world.shard.streams.groups.get("g")
        members = group.members if group is not None else {}
        here = [each for each in self.clients.values() if each.id in members and each.epoch]
        active = Counter(task for each in here for task in each.active)
        assert not [task for task, count in active.items() if count > 1]
        in_process = Counter((each.process, task) for each in here for task in (*each.active, *each.standby))
        assert not [task for task, count in in_process.items() if count > 1]

    def check_calm(self) -> None:
        while not self.clients:
            self.join()
        for _ in range(CALM_ROUNDS):
            self.world.pass_time(5_000)
            for client in self.clients.values():
                self.say(client)
            self.check()
        topics = self.world.image.topics_by_name
        stateful = [TaskId("0", number) for number in range(len(topics["a"].partitions))]
        stateless = [TaskId("1", number) for number in range(len(topics["b"].partitions))]
        clients = self.clients.values()
        assert sorted(task for each in clients for task in each.active) == [*stateful, *stateless]
        others = len({each.process for each in clients}) - 1
        copies = min(self.world.streams_settings.num_standby_replicas, others)
        assert sorted(task for each in clients for task in each.standby) == sorted(stateful * copies)
        assert self.world.streams.state == "Stable"


def on_wire(tasks: set[TaskId]) -> list[TaskIds]:
    return [
        TaskIds(
            subtopology_id, sorted(task.partition for task in tasks if task.subtopology_id == subtopology_id)
        )
        for subtopology_id in sorted({task.subtopology_id for task in tasks})
    ]


def of_wire(tasks: list[TaskIds]) -> set[TaskId]:
    return {TaskId(each.subtopology_id, partition) for each in tasks for partition in each.partitions}


@pytest.mark.parametrize("seed", range(20))
def test_no_task_is_held_twice_and_none_is_left(seed: int) -> None:
    group = RandomGroup(seed)
    for _ in range(STEPS):
        group.step()
    group.check_calm()
