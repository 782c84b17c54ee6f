"""A whole cluster under everything that can happen to it: real nodes, real clients, one seed.

Three nodes, each a broker and a voter, with three replicas of everything; idempotent producers, a group of
consumers and an operator, all of them our own. What must hold at every step is in `cluster_rules`, what
clients must see in `cluster_clients`. When the faults have stopped, the cluster must be whole again: every
partition takes writes, every member of the group reads to the end, all replicas are in sync and equal, every
node knows the topics that somebody was told to be there, and a reader finds what was acknowledged, once, in
order, at its offset.

Any number of processes may be killed, paused or cut off at any time, and any number of disks be full. A disk
that loses what was not synced (a power cut, a failed sync) is another matter: the promise holds while fewer
than `min.insync.replicas` disks, here two, are lost. So such a fault strikes no second disk before the first
is back in sync everywhere, whatever else is out of sync, gone or full meanwhile. Where topics ask for a sync
before every acknowledgement, a power cut loses nothing.
"""

import asyncio
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from headrace.base.errors import ApiError
from headrace.base.ids import TopicPartition
from headrace.clients import AsyncAdmin
from headrace.clients.errors import ClientError
from headrace.testing.conditions import Conditions
from headrace.testing.machine import Program, SimulatedMachine, Surroundings
from headrace.testing.nemesis import NETWORK, Nemesis, Trouble
from headrace.testing.node_cluster import PORT, NodeCluster
from headrace.testing.scenarios.cluster_clients import (
    FOREVER_MS,
    GROUP,
    TOPIC,
    Group,
    GroupMember,
    Operator,
    Reader,
    Writer,
    surroundings,
)
from headrace.testing.scenarios.cluster_rules import ClusterRules, is_whole
from headrace.testing.world import World

NODES: Final = 3
PARTITIONS: Final = 2
WRITERS: Final = 2
MEMBERS: Final = 2
RAGE_S: Final = 8.0
START_S: Final = 60.0
# Sessions, back-offs and rebalances that began under faults may have to run out first.
PROGRESS_S: Final = 60.0
# How often the script looks whether the cluster is whole: it waits for seconds.
LOOK_S: Final = 0.05
# The slowest of the drawn networks takes a second for so much.
SMALL_FETCHES: Final = {"max.partition.fetch.bytes": 8_000, "fetch.max.bytes": 16_000}
# A fault that ends a process does so within this time, or not at all.
ENDING_S: Final = 5.0
ANY_TIME: Final = (
    *NETWORK,
    *(Trouble.KILL, Trouble.RESTART, Trouble.PAUSE, Trouble.CLOCK_JUMP),
    *(Trouble.SLOW_DISK, Trouble.SLOW_NETWORK, Trouble.DISK_FULL),
)
POWER_CUTS: Final = (Trouble.POWER_CUT, Trouble.CRASH_WITHIN)
AT_CLIENTS: Final = frozenset((*NETWORK, Trouble.PAUSE))


def play(world: World) -> None:
    """Three nodes, their clients, faults for a while, then none, and a look at everything."""
    run = ClusterRun(world)
    world.check_every_step(run.rules.check)
    world.run(run.script())


class ClusterRun:
    """One run."""

    def __init__(self, world: World) -> None:
        self.world = world
        rng = self.rng = world.rng
        self.partitions = [TopicPartition(TOPIC, index) for index in range(PARTITIONS)]
        self.syncs_first = rng.random() < 0.3
        self.losses = {Trouble.DISK_ERRORS} if self.syncs_first else {Trouble.DISK_ERRORS, *POWER_CUTS}
        self.kinds = self._draw_kinds(rng)
        # Calls that move a few bytes only are for the scenarios of the transport: here they cost seeds.
        world.network.conditions = replace(Conditions.drawn(rng), short_rate=0.05, split_rate=0.05)
        self.cluster = NodeCluster(world, nodes=NODES, settings=self._draw_settings(rng))
        self.rules = ClusterRules(self.cluster, self.partitions)
        ledger = self.rules.committed_records
        self.writers = [Writer(world, n, ledger, self._producer_settings(rng)) for n in range(WRITERS)]
        self.group = Group(ledger)
        settings = self._consumer_settings(rng)
        self.members = [GroupMember(world, self.group, settings) for _ in range(MEMBERS)]
        self.operator = Operator(world, self._client_settings())
        self.reader = Reader(
            ledger, self._client_settings() | SMALL_FETCHES | {"auto.offset.reset": "earliest"}
        )
        self._lost: str | None = None
        """The node whose disk lost something last, or is about to."""
        self._lost_s = 0.0

    # --- what the seed draws ---

    def _draw_kinds(self, rng: random.Random) -> list[Trouble]:
        if rng.random() < 0.1:
            return []
        return [kind for kind in (*ANY_TIME, *POWER_CUTS, Trouble.DISK_ERRORS) if rng.random() < 0.5]

    def _draw_settings(self, rng: random.Random) -> dict[str, str]:
        session_ms = rng.choice([2_000, 4_000, 9_000])
        return {
            "default.replication.factor": str(NODES),
            "min.insync.replicas": "2",
            "offsets.topic.replication.factor": str(NODES),
            "offsets.topic.num.partitions": "1",
            "replica.lag.time.max.ms": rng.choice(["1000", "3000", "10000"]),
            "replica.fetch.backoff.ms": rng.choice(["100", "1000"]),
            "replica.high.watermark.checkpoint.interval.ms": rng.choice(["500", "5000"]),
            "broker.session.timeout.ms": str(session_ms),
            "broker.heartbeat.interval.ms": str(session_ms // 5),
            "metadata.log.max.record.bytes.between.snapshots": rng.choice(["3000", "20971520"]),
            "group.min.session.timeout.ms": "1000",
            "group.consumer.session.timeout.ms": "5000",
            "group.consumer.min.session.timeout.ms": "1000",
            "group.consumer.heartbeat.interval.ms": "500",
            "group.consumer.min.heartbeat.interval.ms": "500",
            # Clocks are set by an hour, and what was stamped before is sent again.
            "log.message.timestamp.after.max.ms": str(10**12),
            "log.flush.interval.messages": "1" if self.syncs_first else str(2**63 - 1),
        }

    def _client_settings(self) -> dict[str, Any]:
        return {
            "bootstrap.servers": ",".join(f"node{n}:{PORT}" for n in range(1, NODES + 1)),
            "request.timeout.ms": 3_000,
            "socket.connection.setup.timeout.ms": 1_000,
            "retry.backoff.max.ms": 500,
        }

    def _producer_settings(self, rng: random.Random) -> dict[str, Any]:
        return self._client_settings() | {
            "delivery.timeout.ms": FOREVER_MS,
            "max.block.ms": FOREVER_MS,
            "linger.ms": rng.choice([0, 5]),
            "batch.size": rng.choice([500, 16_384]),
            "max.in.flight.requests.per.connection": rng.choice([1, 5]),
        }

    def _consumer_settings(self, rng: random.Random) -> dict[str, Any]:
        own: dict[str, Any] = {
            "group.id": GROUP,
            "group.protocol": rng.choice(["classic", "consumer"]),
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "default.api.timeout.ms": 5_000,
            # A member waits so long, and 5 s more, for an answer that a dead connection will not bring.
            "max.poll.interval.ms": 10_000,
            **SMALL_FETCHES,
        }
        if own["group.protocol"] == "classic":
            own |= {"session.timeout.ms": 5_000, "heartbeat.interval.ms": 500}
            own["partition.assignment.strategy"] = rng.choice(["range", "cooperative-sticky"])
        return self._client_settings() | own

    # --- the run ---

    async def script(self) -> None:
        await self.begin()
        nemesis = Nemesis(
            self.world,
            self._victims(),
            self.kinds,
            stop=lambda machine: self.cluster.ask_to_stop(self._id_of(machine)),
            may_strike=self.may_strike,
        )
        await nemesis.rage(RAGE_S)
        nemesis.calm()
        await self.recover()
        await self.end()

    async def begin(self) -> None:
        for node_id in self.cluster.ids:
            # A node whose disk fails ends by itself and comes back.
            self.cluster.keep_running(node_id, may_end_with=(OSError, ApiError))
        await self.until(lambda: len(self.cluster.nodes) == NODES, "all nodes are ready", START_S)
        operator = self.world.machine("operator")
        await self.world.result(operator, operator.boot(self._create_topic, may_fail=True))
        operator.retire()
        for writer in self.writers:
            self.world.machine(writer.name).boot(writer.run)
        for number, program in enumerate(self.member_programs()):
            self.world.keep_running(self.world.machine(f"member{number}"), program)
        operator.boot(self.operator.run)

    def member_programs(self) -> list[Program]:
        return [member.run for member in self.members]

    async def _create_topic(self, own: Surroundings) -> None:
        async with AsyncAdmin(self._client_settings(), environment=surroundings(own)) as admin:
            while TOPIC not in {topic.name for topic in await admin.list_topics()}:
                try:
                    await admin.create_topic(TOPIC, partitions=PARTITIONS, replication_factor=NODES)
                except ClientError as error:
                    self.world.note(f"the operator hears: {error}")
                    await asyncio.sleep(0.1)

    async def recover(self) -> None:
        """Faults have stopped: everything moves again."""
        before = {
            where: len(committed_records.acknowledged)
            for where, committed_records in self.rules.committed_records.items()
        }
        await self.until(
            lambda: all(
                len(committed_records.acknowledged) > before[where]
                for where, committed_records in self.rules.committed_records.items()
            ),
            "every partition takes writes after faults stopped",
        )
        for writer in self.writers:
            writer.stopping = True
        self.operator.stopping = True
        await self.until(
            lambda: self.operator.is_done and all(writer.is_done for writer in self.writers),
            "every producer's last acknowledgement",
        )
        await self.until(self.rules.all_in_sync, "all replicas are in sync and equal")
        await self.until(self._group_is_done, "every member has partitions, and the group has read all")
        await self.until(
            lambda: all(
                self.operator.is_known_to(set(node.image.topics_by_name))
                for node in self.cluster.nodes.values()
            ),
            "every node knows the operator's topics",
        )

    def _group_is_done(self) -> bool:
        owned = [where for member in self.members for where in member.owned]
        shared = sorted(owned) == self.partitions and all(member.owned for member in self.members)
        return shared and all(
            self.group.read_to[where] >= committed_records.end
            for where, committed_records in self.rules.committed_records.items()
        )

    async def end(self) -> None:
        """Compare everything with everything."""
        reader = self.world.machine("reader")
        await asyncio.wait_for(
            self.world.result(reader, reader.boot(self.reader.run, may_fail=True)), PROGRESS_S
        )
        for writer in self.writers:
            writer.check_order()
        self.rules.check_replicas()

    async def until(self, condition: Callable[[], bool], what: str, timeout_s: float = PROGRESS_S) -> None:
        await self.world.until(condition, timeout_s=timeout_s, what=what, look_s=LOOK_S)

    # --- trouble ---

    def _victims(self) -> list[SimulatedMachine]:
        nodes = [self.cluster.machine(node_id) for node_id in self.cluster.ids]
        members = [f"member{n}" for n in range(len(self.member_programs()))]
        names = [writer.name for writer in self.writers] + members
        # Nodes are struck three times as often as clients.
        return [*nodes, *nodes, *nodes, *(self.world.machine(name) for name in names)]

    def _id_of(self, machine: SimulatedMachine) -> int:
        return int(machine.name.removeprefix("node"))

    def may_strike(self, kind: Trouble, victim: SimulatedMachine) -> bool:
        """Whether the promise covers this fault now."""
        if not victim.name.startswith("node"):
            is_killed = kind is Trouble.KILL and victim.name.startswith("member")
            return kind in AT_CLIENTS or is_killed
        if kind in self.losses:
            if self._lost not in (None, victim.name) and not self._is_whole_again():
                return False
            self._lost, self._lost_s = victim.name, self.world.driver.time()
        return True

    def _is_whole_again(self) -> bool:
        """Whether the disk that lost something has everything again."""
        if self._lost is None:
            return True
        is_over = self.world.driver.time() >= self._lost_s + ENDING_S
        return is_over and is_whole(self.cluster, int(self._lost.removeprefix("node")))
