"""Transactional writers on three simulated nodes that are killed, stopped and cut off under them, and whose
connections break; what readers of committed records see is compared with what the writers were told
(`txn_checker`).

    python -m tests.simulation.txn_world FIRST_SEED COUNT

A writer writes each transaction to several partitions and commits or aborts it. Where the answer is an error
it starts anew under the same id, and does not know what became of the last one. Now and then another one of
the same id begins while it still writes: it is a zombie then, and writes on and tries to commit all the same.
Readers of committed records read along. At the end every writer goes away with a transaction open: when its
time is over, and a little for the coordinator to look, none may be open any more.
"""

import asyncio
import contextlib
import random
import sys
from collections import Counter

from headrace.base.ids import TopicPartition
from headrace.clients import AsyncAdmin, AsyncConsumer, AsyncProducer
from headrace.clients.errors import ClientError
from headrace.clients.internals.environment import ClientEnvironment
from headrace.testing.conditions import Conditions
from headrace.testing.machine import Surroundings
from headrace.testing.node_cluster import PORT, NodeCluster
from headrace.testing.world import CheckFailedError, World
from tests.simulation.txn_checker import (
    Anomaly,
    AnomalyError,
    Attempt,
    History,
    Kind,
    Log,
    Outcome,
    Seen,
    check,
)

TOPIC = "events"
PARTITIONS = 4
NODES = 3
BOOTSTRAP = ",".join(f"node{n}:{PORT}" for n in range(1, NODES + 1))
SETTINGS = {
    "min.insync.replicas": "2",
    "default.replication.factor": "3",
    "offsets.topic.replication.factor": "3",
    "replica.lag.time.max.ms": "2000",
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "300",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "transaction.state.log.num.partitions": "3",
    "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
}
TIMEOUT_MS = 6_000
# So slow that much of the time something is on its way when a fault comes.
LATENCY_S = 0.03
# After the last fault: a transaction's time, and as much again for what else takes time, such as elections.
QUIET_S = 2 * TIMEOUT_MS / 1000


class Writer:
    """The users of one transactional id, one after the other."""

    def __init__(self, number: int, history: History) -> None:
        self.name = f"writer{number}"
        self.history = history
        self.stopping = False
        self._count = 0

    async def run(self, own: Surroundings) -> None:
        while not self.stopping:
            try:
                await self._use(own)
            except (ClientError, OSError):
                await asyncio.sleep(own.rng.random())

    async def _use(self, own: Surroundings) -> None:
        """One producer, until it fails or is replaced while it writes; the last one leaves something open."""
        producer = self._producer(own)
        await producer.__aenter__()
        try:
            await producer.init_transactions()
            while not self.stopping:
                dice = own.rng.random()
                if dice < 0.1:
                    await self._begin(producer, own)  # left open: the next one ends it
                    return
                if dice < 0.2:
                    await self._outlive(producer, own)
                    return
                await self._transact(producer, own)
                await asyncio.sleep(own.rng.random() * 0.3)
            await self._begin(producer, own)
        finally:
            await producer.close(0)

    def _producer(self, own: Surroundings) -> AsyncProducer:
        settings = {
            "bootstrap.servers": BOOTSTRAP,
            "transactional.id": self.name,
            "transaction.timeout.ms": TIMEOUT_MS,
            "delivery.timeout.ms": 6_000,
            "request.timeout.ms": 2_000,
        }
        return AsyncProducer(settings, environment=surroundings(own))

    async def _outlive(self, zombie: AsyncProducer, own: Surroundings) -> None:
        """Go on writing while another one of the same id has begun, and commit as if nothing was."""
        left = await self._begin(zombie, own)
        heir = self._producer(own)
        await heir.__aenter__()
        try:
            await heir.init_transactions()
            left.fenced_at = own.loop.time()
            its = await self._begin(heir, own)
            with contextlib.suppress(ClientError, OSError):
                if own.rng.random() < 0.5:
                    await self._write(zombie, own, left, own.rng.randrange(PARTITIONS))
                await self._commit(zombie, own, left)
            await self._commit(heir, own, its)
        finally:
            await heir.close(0)

    async def _begin(self, producer: AsyncProducer, own: Surroundings) -> Attempt:
        self._count += 1
        attempt = self.history.begin(f"{self.name}/{self._count}")
        await producer.begin_transaction()
        rng = own.rng
        places = [
            partition
            for partition in rng.sample(range(PARTITIONS), rng.randint(1, PARTITIONS))
            for _ in range(rng.randint(1, 3))
        ]
        await self._write(producer, own, attempt, *places)
        return attempt

    async def _write(
        self, producer: AsyncProducer, own: Surroundings, attempt: Attempt, *partitions: int
    ) -> None:
        deliveries = []
        for partition in partitions:
            value = f"{attempt.name}/{partition}/{len(attempt.written)}".encode()
            attempt.written.append((partition, value))
            deliveries.append((value, await producer.send(TOPIC, value, partition=partition)))
        for value, delivery in deliveries:
            told = await delivery
            attempt.acknowledged[told.partition, value] = (told.offset, own.loop.time())

    async def _transact(self, producer: AsyncProducer, own: Surroundings) -> None:
        attempt = await self._begin(producer, own)
        if own.rng.random() < 0.7:
            await self._commit(producer, own, attempt)
        else:
            await producer.abort_transaction()
            attempt.outcome = Outcome.ABORTED

    async def _commit(self, producer: AsyncProducer, own: Surroundings, attempt: Attempt) -> None:
        attempt.committing_at = own.loop.time()
        await producer.commit_transaction()
        attempt.outcome = Outcome.COMMITTED


class Reader:
    """Reads along, from any replica of its rack, and begins again where it was when something fails."""

    def __init__(self, rows: list[Seen]) -> None:
        self.stopping = False
        self._rows = rows
        self._positions = {TopicPartition(TOPIC, at): 0 for at in range(PARTITIONS)}

    async def run(self, own: Surroundings) -> None:
        while not self.stopping:
            with contextlib.suppress(ClientError, OSError):
                await self._read(own)

    async def _read(self, own: Surroundings) -> None:
        settings = {
            "bootstrap.servers": BOOTSTRAP,
            "isolation.level": "read_committed",
            "client.rack": own.rng.choice(["", "node1", "node2", "node3"]),
            "auto.offset.reset": "none",
        }
        async with AsyncConsumer(settings, environment=surroundings(own)) as consumer:
            consumer.assign(self._positions)
            for where, offset in self._positions.items():
                consumer.seek(where, offset)
            while not self.stopping and own.rng.random() < 0.95:
                for record in await consumer.poll(0.2):
                    assert record.value is not None
                    self._rows.append(Seen(own.loop.time(), record.partition, record.offset, record.value))
                    self._positions[TopicPartition(TOPIC, record.partition)] = record.offset + 1


def surroundings(own: Surroundings) -> ClientEnvironment:
    return ClientEnvironment(own.loop, own.network, own.clock, own.rng)


class TxnWorld:
    """One seed."""

    def __init__(self, seed: int, *, writers: int = 3, kills: int = 4) -> None:
        self.rng = random.Random(seed)
        world = World(seed, conditions=Conditions(latency_s_max=LATENCY_S))
        self.cluster = NodeCluster(world, nodes=NODES, settings=SETTINGS)
        self.world = self.cluster.world
        self.history = History()
        self.kills = kills
        self.reader = Reader(self.history.readers["along"])
        self.writers = [Writer(number, self.history) for number in range(writers)]

    def play(self) -> History:
        try:
            self.world.run(self._script())
        finally:
            self.world.close()
        return self.history

    async def _script(self) -> None:
        await self.cluster.start()
        machine = self.world.machine("reader")
        await self.world.result(machine, machine.boot(self._make_topic, may_fail=True))
        tasks = []
        for writer in self.writers:
            its = self.world.machine(writer.name)
            tasks.append(self.world.result(its, its.boot(writer.run, may_fail=True)))
        along = self.world.machine("along")
        tasks.append(self.world.result(along, along.boot(self.reader.run, may_fail=True)))
        running = [asyncio.ensure_future(task) for task in tasks]
        for _ in range(self.kills):
            await self._disturb(1 + self.rng.random() * 4)
            await self._strike()
        await asyncio.sleep(2)
        for writer in self.writers:
            writer.stopping = True
        self.reader.stopping = True
        await asyncio.gather(*running)
        anomalies = await self._hanging()
        machine.retire()
        for rack in ("", "node1", "node2", "node3"):
            found = await self.world.result(
                machine, machine.boot(lambda own, rack=rack: self._read_all(own, rack), may_fail=True)
            )
            machine.retire()
            anomalies += check(self.history, found)
        if anomalies:
            raise AnomalyError(anomalies)

    async def _hanging(self) -> list[Anomaly]:
        try:
            await self.cluster.until(self._is_quiet, "no transaction is open", timeout_s=QUIET_S)
        except CheckFailedError as error:
            return [Anomaly(Kind.HANGING, str(error))]
        return []

    async def _disturb(self, seconds: float) -> None:
        """Break a connection of a writer now and then: what was asked may be done, and is not answered."""
        until = self.world.driver.time() + seconds
        while (left := until - self.world.driver.time()) > 0:
            await asyncio.sleep(min(left, self.rng.random()))
            if open_now := self.world.network.connections(self.rng.choice(self.writers).name):
                self.world.network.cut(self.rng.choice(open_now))

    async def _strike(self) -> None:
        """Kill a node, stop it in order, or cut it off; and bring it back."""
        victim, dice = self.rng.choice(self.cluster.ids), self.rng.random()
        if dice < 0.2:
            others = [name for name in self.world.machines if name != f"node{victim}"]
            self.world.network.partition([f"node{victim}"], others)
            await asyncio.sleep(self.rng.random() * 6)
            self.world.network.heal()
            return
        if dice < 0.75:
            self.cluster.kill(victim)
        else:
            await self.cluster.stop(victim)
        await asyncio.sleep(self.rng.random() * 4)
        await self.cluster.start(victim)

    def _is_quiet(self) -> bool:
        """Whether no leader has anything open."""
        logs = [
            partition.log
            for node in self.cluster.nodes.values()
            for partition in node.parts.replica_manager
            if partition.is_leader and partition.log is not None and partition.topic_partition.topic == TOPIC
        ]
        return len(logs) == PARTITIONS and all(
            log.last_stable_offset == log.high_watermark == log.log_end_offset for log in logs
        )

    async def _make_topic(self, own: Surroundings) -> None:
        async with AsyncAdmin({"bootstrap.servers": BOOTSTRAP}, environment=surroundings(own)) as admin:
            await admin.create_topic(TOPIC, partitions=PARTITIONS)

    async def _read_all(self, own: Surroundings, rack: str) -> Log:
        """Everything that is committed; from the replicas of a rack, if one is given."""
        settings = {"bootstrap.servers": BOOTSTRAP, "isolation.level": "read_committed", "client.rack": rack}
        where = [TopicPartition(TOPIC, at) for at in range(PARTITIONS)]
        found: dict[int, list[tuple[int, bytes]]] = {at: [] for at in range(PARTITIONS)}
        async with AsyncConsumer(settings, environment=surroundings(own)) as consumer:
            consumer.assign(where)
            consumer.seek_to_beginning()
            ends = await consumer.end_offsets(where)
            while any([await consumer.position(each) < ends[each] for each in where]):
                for record in await consumer.poll(1.0):
                    assert record.value is not None
                    found[record.partition].append((record.offset, record.value))
        return found


def main() -> None:
    first, count = int(sys.argv[1]), int(sys.argv[2])
    for seed in range(first, first + count):
        history = TxnWorld(seed, kills=6).play()
        outcomes = Counter(each.outcome.value for each in history.attempts.values())
        print(f"seed {seed}: {dict(outcomes)}", flush=True)


if __name__ == "__main__":
    main()
