"""Several brokers' replicas under one seed: messages lost, late and out of order, leaders that move, brokers
that are fenced though they live, processes that are killed and machines that lose power.

Idempotent producers write with acks=all, one batch at a time, until they are told that it is there. Others
write with acks=1 to whoever believes to lead, and do not ask again: such records may be lost, and make logs
part. Rules:

- an offset below any replica's high watermark has one value for ever, whoever tells it;
- what was acknowledged is there: the leader of the newest epoch has it, at its offset;
- a replica does not cut its log below its high watermark;
- in the end, when nothing fails any more, all replicas come in sync, their logs are equal, and hold every
  acknowledged record once, in the order in which it was acknowledged.

A machine loses power only while all others are whole: the promise holds while fewer than
`min.insync.replicas` disks lose what was acknowledged.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Final

from headrace.base.error_codes import ErrorCode
from headrace.base.ids import TopicPartition
from headrace.records.batch import Record, build_batch
from headrace.testing.disk import Crash
from headrace.testing.machine import SimulatedMachine, Surroundings
from headrace.testing.nemesis import Trouble
from headrace.testing.scenarios.committed_records import CommittedRecords
from headrace.testing.scenarios.replica_broker import Broker
from headrace.testing.scenarios.replica_world import Messenger, SlowController, Wires
from headrace.testing.world import CheckFailedError, World
from headrace.wire.schemas.produce import PartitionProduceData, ProduceRequest, TopicProduceData

RAGE_S: Final = 6.0
PROGRESS_S: Final = 30.0
MIN_IN_SYNC: Final = 2
TOPIC: Final = "events"
TOPIC_ID: Final = bytes([7]) * 16
CLIENT: Final = 100
# By what is done here: the kind of fault that asks for it. Who is fenced though it lives was paused.
KINDS: Final = {
    "move_leaders": Trouble.RESTART,
    "stop_one": Trouble.RESTART,
    "fence_one": Trouble.PAUSE,
    "crash_one": Trouble.KILL,
    "cut_power": Trouble.POWER_CUT,
    "cut_some": Trouble.ONE_WAY,
}


def play(world: World) -> None:
    """Three or four brokers, two partitions of three replicas each."""
    world.run(_Run(world).script())


class _Run:
    """One run: the brokers, who writes to them, and what was promised."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.rng = world.rng
        self.wires = Wires(world)
        self.controller = SlowController(world, self.wires, min_in_sync=MIN_IN_SYNC)
        self.controller.on_commit.append(self.tell_brokers)
        self.nodes = list(range(1, self.rng.choice([3, 3, 4]) + 1))
        self.machines = {node: world.machine(f"broker{node}") for node in self.nodes}
        self.brokers: dict[int, Broker] = {}
        self.wheres = [TopicPartition(TOPIC, index) for index in range(2)]
        self.committed_records = {where: CommittedRecords(where) for where in self.wheres}
        self.flush_messages = self.rng.choice([None, None, None, 1])
        self.is_over = False
        self.is_raging = False
        self.malice = 0.4
        self.acts: list[Callable[[int], None]] = []
        self.in_sync: dict[TopicPartition, set[int]] = {}

    async def script(self) -> None:
        for machine in self.machines.values():
            machine.disk.make_folder("/data")
            machine.disk.sync_folder("/")
        for node in self.nodes:
            self.boot(node)
        await self.until(lambda: len(self.brokers) == len(self.nodes), "all brokers up")
        replicas = [self.rng.sample(self.nodes, 3) for _ in self.wheres]
        self.controller.create_topic(TOPIC, TOPIC_ID, replicas)
        self.controller.on_commit.append(self.hear_of_growth)
        self.world.check_every_step(self.check)
        self.world.check_every_step(self.world.check_uncaught)
        writers = [
            self.world.driver.create_task(writer.run())
            for number, where in enumerate(self.wheres)
            for writer in (_Writer(self, where, number), _CarelessWriter(self, where, number))
        ]
        for task in writers:
            task.add_done_callback(self.look_at)
        await self.rage()
        self.calm()
        before = [len(each.acknowledged) for each in self.committed_records.values()]
        await self.until(
            lambda: all(
                len(each.acknowledged) > count + 3
                for each, count in zip(self.committed_records.values(), before, strict=True)
            ),
            "writes are acknowledged again",
        )
        self.is_over = True
        for writer in writers:
            await writer
        await self.until(self.is_settled, "all replicas are in sync and equal")
        for where, committed_records in self.committed_records.items():
            for node in self.controller.partition(*where).replicas:
                committed_records.check_whole(node, self.brokers[node].log(where))
            committed_records.check_order()

    async def until(self, condition: Callable[[], bool], what: str) -> None:
        await self.world.until(condition, timeout_s=PROGRESS_S, what=what)

    def look_at(self, task: "asyncio.Task[None]") -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self.world.fail(error)

    def boot(self, node: int) -> None:
        self.machines[node].boot(partial(self.program, node))

    async def program(self, node: int, own: Surroundings) -> None:
        broker = Broker(
            node,
            own,
            controller=self.controller,
            wires=self.wires,
            others=self.brokers,
            min_in_sync=MIN_IN_SYNC,
            flush_messages=self.flush_messages,
        )
        broker.on_proposal = self.hear_of_proposal
        broker.start(own.rng.randbytes(16))
        while True:
            await asyncio.sleep(own.rng.uniform(0.05, 0.5))
            broker.flush_some()

    def tell_brokers(self) -> None:
        for broker in self.brokers.values():
            broker.hear_of_commits()

    # -- trouble ---------------------------------------------------------------------------------------------

    async def rage(self) -> None:
        until = self.world.driver.time() + RAGE_S
        if self.rng.random() < 0.1:  # now and then nothing goes wrong at all
            await asyncio.sleep(1.0)
            return
        self.wires.loss = self.rng.choice([0.0, 0.01, 0.1])
        self.wires.slowest_s = self.rng.choice([0.002, 0.02, 0.1])
        kinds = [
            self.move_leaders,
            self.fence_one,
            self.crash_one,
            self.cut_power,
            self.cut_some,
            self.stop_one,
        ]
        self.acts = self.rng.sample(kinds, k=self.rng.randint(1, 6))
        if self.rng.random() < 0.3:
            # Slow wires, and every replica that joins is struck while it does.
            self.wires.loss, self.wires.slowest_s, self.malice = 0.0, 0.1, 0.9
            self.acts = [self.fence_one, self.cut_power]
        if self.world.faults is not None:
            self.acts = [act for act in kinds if KINDS[act.__name__] in self.world.faults]
        self.is_raging = True
        while self.acts and self.world.driver.time() < until:
            await asyncio.sleep(self.rng.expovariate(1 / self.rng.choice([0.1, 0.5])))
            self.rng.choice(self.acts)(self.rng.choice(self.nodes))

    def calm(self) -> None:
        self.is_raging = False
        self.wires.loss, self.wires.slowest_s = 0.0, 0.002
        self.wires.cut.clear()
        for node in self.nodes:
            self.machines[node].resume()
            if node in self.brokers:
                self.controller.unfence(node)

    def hear_of_growth(self) -> None:
        """The worst moment for a leader to go is when a replica has just been taken in."""
        for where in self.wheres:
            image = self.controller.partition(*where)
            grew = set(image.isr) - self.in_sync.get(where, set(image.replicas))
            self.in_sync[where] = set(image.isr)
            if grew and self.is_raging and self.fence_one in self.acts and self.rng.random() < self.malice:
                delay_s = self.rng.choice([0.0, self.rng.uniform(0.0, 0.02)])
                self.world.scheduler.after(delay_s, partial(self.fence_now, image.leader))

    def hear_of_proposal(self, joining: set[int]) -> None:
        """And the worst moment for a replica to lose power is when it is about to be taken in."""
        for node in sorted(joining):
            if self.is_raging and self.cut_power in self.acts and self.rng.random() < self.malice / 2:
                self.world.scheduler.after(0.0, partial(self.cut_power, node, back_s=0.02))

    def move_leaders(self, node: int) -> None:
        self.world.note("first replicas shall lead")
        self.controller.prefer_first_replicas()

    def fence_one(self, node: int) -> None:
        """Its heartbeats were lost: it lives, and does not know that it is no leader any more."""
        if self.rng.random() < 0.6:
            node = self.controller.partition(*self.rng.choice(self.wheres)).leader
        self.fence_now(node)

    def fence_now(self, node: int) -> None:
        if node in self.brokers:
            self.world.note(f"fence {node}")
            self.controller.fence(node)
            self.world.scheduler.after(self.rng.uniform(0.05, 1.0), lambda: self.heard_of(node))

    def heard_of(self, node: int) -> None:
        if node in self.brokers:
            self.controller.unfence(node)

    def cut_some(self, node: int) -> None:
        """Ways are cut, each in one direction."""
        everybody = [CLIENT, 0, *self.nodes]
        if self.rng.random() < 0.5:
            pairs = [(node, other) for other in everybody] + [(other, node) for other in everybody]
        else:
            pairs = [(one, other) for one in everybody for other in everybody if one != other]
        share = self.rng.choice([0.15, 0.4, 0.8])
        chosen = {pair for pair in pairs if self.rng.random() < share}
        self.world.note(f"cut {sorted(chosen)}")
        self.wires.cut |= chosen
        self.world.scheduler.after(
            self.rng.uniform(0.1, 2.0), lambda: self.wires.cut.difference_update(chosen)
        )

    def crash_one(self, node: int) -> None:
        if self.others_are_whole(node):
            self.end(node, Crash.KILL)

    def cut_power(self, node: int, back_s: float | None = None) -> None:
        if self.others_are_whole(node):
            self.end(node, Crash.POWER_CUT, back_s)

    def stop_one(self, node: int) -> None:
        broker = self.brokers.get(node)
        if broker is not None and self.others_are_whole(node):
            broker.stop()
            self.end(node, Crash.KILL)

    def others_are_whole(self, node: int) -> bool:
        """Whether everybody else is up and in sync, as far as the controller knows."""
        return set(self.brokers) >= set(self.nodes) - {node} and all(
            set(image.isr) >= set(image.replicas) - {node}
            for image in (self.controller.partition(*where) for where in self.wheres)
        )

    def end(self, node: int, how: Crash, back_s: float | None = None) -> None:
        self.brokers.pop(node, None)
        machine = self.machines[node]
        if not machine.is_running:
            return
        machine.crash(how)
        for committed_records in self.committed_records.values():
            committed_records.forget_replica(node)
        # Its session is over before it is back, or not.
        if self.rng.random() < 0.7:
            self.world.scheduler.after(self.rng.uniform(0.0, 0.6), lambda: self.session_over(node, machine))
        back_s = back_s or self.rng.choice([0.01, 0.1, 1.0])
        self.world.scheduler.after(self.rng.uniform(0.0, back_s), lambda: self.boot(node))

    def session_over(self, node: int, machine: SimulatedMachine) -> None:
        if not machine.is_running:
            self.controller.fence(node)

    # -- rules -----------------------------------------------------------------------------------------------

    def check(self) -> None:
        for where, committed_records in self.committed_records.items():
            image = self.controller.partition(*where)
            for node, broker in self.brokers.items():
                partition = broker.partition(where)
                if partition is None or partition.log is None:
                    continue
                committed_records.check_replica(node, partition.log)
                leads_now = partition.is_leader and partition.leader_epoch == image.leader_epoch
                if leads_now and partition.log.log_end_offset < committed_records.end:
                    raise CheckFailedError(
                        f"{where}: {node} leads in epoch {partition.leader_epoch} up to "
                        f"{partition.log.log_end_offset}, acknowledged is {committed_records.end}"
                    )

    def is_settled(self) -> bool:
        for where in self.wheres:
            image = self.controller.partition(*where)
            if set(image.isr) != set(image.replicas) or set(self.brokers) < set(image.replicas):
                return False
            logs = [self.brokers[node].log(where) for node in image.replicas]
            ends = {(None, None) if log is None else (log.log_end_offset, log.high_watermark) for log in logs}
            if len(ends) > 1 or (None, None) in ends:
                return False
        return True


class _Writer:
    """An idempotent producer of one partition, with one batch under way."""

    def __init__(self, run: _Run, where: TopicPartition, number: int) -> None:
        self.run_ = run
        self.where = where
        self.producer_id = 1_000 + number
        self.sequence = 0
        self.count = 0
        self.rng = run.world.scheduler.random_for(f"writer/{number}")
        self.messenger = Messenger(run.wires, CLIENT, run.world.driver)

    async def run(self) -> None:
        run = self.run_
        while not run.is_over:
            size = self.rng.randint(1, 3)
            values = [b"%d-%d" % (self.producer_id, self.count + at) for at in range(size)]
            self.count += size
            await self.write(values)
            self.sequence += size
            await asyncio.sleep(self.rng.uniform(0.0, 0.02))

    async def write(self, values: list[bytes]) -> None:
        """Until it is acknowledged, whoever must be asked."""
        run = self.run_
        while True:
            node = run.controller.partition(*self.where).leader
            if node < 0 or self.rng.random() < 0.1:
                node = self.rng.choice(run.nodes)
            offset = await self.ask(node, values)
            if offset is not None:
                run.committed_records[self.where].acknowledge(offset, values)
                return
            await asyncio.sleep(self.rng.uniform(0.005, 0.05))

    async def ask(self, node: int, values: list[bytes]) -> int | None:
        """The offset, or None where it must be tried again."""
        run = self.run_
        broker = run.brokers.get(node)
        if broker is None:
            return None
        now_ms = broker.own.clock.now_ms()
        batch = build_batch(
            [Record(0, now_ms, None, value) for value in values],
            producer_id=self.producer_id,
            producer_epoch=0,
            base_sequence=self.sequence,
        )
        request = _produce(self.where, batch, acks=-1, timeout_ms=1_500)
        try:
            response = await self.messenger.ask(
                node, lambda: broker.loop, broker.serve, request, timeout_s=2.0
            )
        except ConnectionError:
            return None
        result = response.responses[0].partition_responses[0]
        if result.error_code == ErrorCode.NONE:
            return int(result.base_offset)
        if result.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
            # A leader whose time is over may lack the batch before this one.
            run.world.note(f"{node} lacks what came before {values}")
        return None


class _CarelessWriter:
    """Writes to whoever believes to lead, and does not care what becomes of it."""

    def __init__(self, run: _Run, where: TopicPartition, number: int) -> None:
        self.run_ = run
        self.where = where
        self.number = number
        self.rng = run.world.scheduler.random_for(f"careless/{number}")
        self.share = self.rng.choice([0.0, 0.3, 1.0])

    async def run(self) -> None:
        run, count = self.run_, 0
        while not run.is_over:
            await asyncio.sleep(self.rng.uniform(0.0, 0.05))
            for node, broker in list(run.brokers.items()):
                partition = broker.partition(self.where)
                if partition is not None and partition.is_leader and self.rng.random() < self.share:
                    count += 1
                    batch = build_batch(
                        [Record(0, broker.own.clock.now_ms(), None, b"careless-%d-%d" % (self.number, count))]
                    )
                    way = partial(broker.serve, _produce(self.where, batch, acks=1, timeout_ms=100))
                    run.wires.carry(CLIENT, node, broker.loop, way)


def _produce(where: TopicPartition, batch: bytearray, *, acks: int, timeout_ms: int) -> ProduceRequest:
    data = [PartitionProduceData(where.partition, batch)]
    return ProduceRequest(
        acks=acks,
        timeout_ms=timeout_ms,
        topic_data=[TopicProduceData(topic_id=TOPIC_ID, partition_data=data)],
    )
