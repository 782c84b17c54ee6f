"""A share group on a whole cluster whose members, leaders and coordinators fail (KIP-932).

The nodes, producers and operator of `cluster`, with its faults and its rules, and a share group in the place
of the group: more members than partitions, each of which may be killed, paused and cut off. What must hold of
the group is in `share_rules`. When the faults have stopped the group must get to the end of the queue; then
every leader of it is killed, and the ones that take over must find it empty. With most seeds the group has a
dead-letter queue, and what nobody accepted must be there; with half of them it keeps order by key.
"""

import random
from typing import Any, Final

from headrace.base.chunks import FileSlice
from headrace.base.ids import NO_LEADER, TopicPartition
from headrace.clients import AsyncAdmin
from headrace.metadata.features import DEAD_LETTERS_FROM, METADATA_VERSION, SHARE_VERSION
from headrace.records.batch import batches, read_records
from headrace.server.share import dead_letters
from headrace.testing.machine import Program, Surroundings
from headrace.testing.scenarios.cluster import NODES, SMALL_FETCHES, ClusterRun
from headrace.testing.scenarios.cluster_clients import GROUP, surroundings
from headrace.testing.scenarios.cluster_rules import partition_in
from headrace.testing.scenarios.share_clients import ShareMember
from headrace.testing.scenarios.share_rules import ShareRules
from headrace.testing.world import World

SHARE_MEMBERS: Final = 4
QUEUE: Final = "dlq.events"
# Records are held, handed out again and given up while members come and go: one after the other.
QUEUE_S: Final = 180.0


def play(world: World) -> None:
    """Three nodes, a share group, faults for a while, then none, and a look at everything."""
    run = ShareRun(world)
    world.check_every_step(run.check)
    world.run(run.script())


def key_of(value: bytes) -> bytes | None:
    """A value's key: of each five records that a writer sends to a partition one has none."""
    writer, _, number, _ = value.split(b"/", 3)
    return b"%s-%d" % (writer, int(number) % 3) if int(number) % 5 else None


class ShareRun(ClusterRun):
    """One run."""

    def __init__(self, world: World) -> None:
        self.delivery_count_limit = world.rng.choice([3, 5, 10])
        self.has_queue = world.rng.random() < 0.7
        self.is_in_order = world.rng.random() < 0.5
        super().__init__(world)
        self.share_rules = ShareRules(
            self.cluster,
            self.rules.committed_records,
            delivery_count_limit=self.delivery_count_limit,
            key_of=key_of if self.is_in_order else None,
        )
        for writer in self.writers:
            writer.key_of = key_of
        settings = self._share_settings(self.rng)
        self.share_members = [
            ShareMember(world, number, self.share_rules, settings) for number in range(SHARE_MEMBERS)
        ]
        self.rest_ms = self.rng.choice([0, 300])

    # --- what the seed draws ---

    def _draw_settings(self, rng: random.Random) -> dict[str, str]:
        return super()._draw_settings(rng) | {
            "group.share.delivery.count.limit": str(self.delivery_count_limit),
            "group.share.min.record.lock.duration.ms": "1000",
            "group.share.record.lock.duration.ms": rng.choice(["1000", "2000"]),
            "group.share.min.session.timeout.ms": "1000",
            "group.share.session.timeout.ms": "5000",
            "group.share.min.heartbeat.interval.ms": "500",
            "group.share.heartbeat.interval.ms": "500",
            "group.share.assignment.interval.ms": "0",
            "group.share.initialize.retry.interval.ms": "1000",
            "share.coordinator.state.topic.num.partitions": "2",
            "share.coordinator.state.topic.replication.factor": str(NODES),
            "share.coordinator.state.topic.min.isr": "2",
            "share.coordinator.snapshot.update.records.per.snapshot": rng.choice(["0", "3", "500"]),
            "share.coordinator.state.topic.prune.interval.ms": rng.choice(["500", "300000"]),
            "share.coordinator.cold.partition.snapshot.interval.ms": rng.choice(["1000", "300000"]),
        }

    def _share_settings(self, rng: random.Random) -> dict[str, Any]:
        return self._client_settings() | {
            "group.id": GROUP,
            "fetch.max.bytes": SMALL_FETCHES["fetch.max.bytes"],
            "max.poll.records": rng.choice([3, 50]),
            "share.acquire.mode": rng.choice(["batch_optimized", "record_limit"]),
        }

    def member_programs(self) -> list[Program]:
        return [member.run for member in self.share_members]

    # --- the run ---

    def check(self) -> None:
        self.rules.check()
        self.share_rules.check()

    async def _create_topic(self, own: Surroundings) -> None:
        await super()._create_topic(own)
        settings = {
            "share.auto.offset.reset": "earliest",
            "headrace.share.retry.backoff.ms": str(self.rest_ms),
            "headrace.share.retry.backoff.max.ms": "1000",
        }
        if self.is_in_order:
            settings["headrace.share.key.order"] = "true"
            settings["headrace.share.key.order.max.records"] = self.rng.choice(["3", "5000"])
        if self.has_queue:
            settings["errors.deadletterqueue.topic.name"] = QUEUE
        async with AsyncAdmin(self._client_settings(), environment=surroundings(own)) as admin:
            if self.has_queue:
                await self._create_queue(admin)
            await admin.alter_configs("group", GROUP, set_to=settings)

    async def _create_queue(self, admin: AsyncAdmin) -> None:
        await admin.update_features({METADATA_VERSION: 31, SHARE_VERSION: DEAD_LETTERS_FROM})
        await admin.create_topic(
            QUEUE,
            partitions=1,
            replication_factor=NODES,
            configs={"errors.deadletterqueue.group.enable": "true"},
        )

    async def recover(self) -> None:
        for member in self.share_members:
            member.is_steady = True
        await super().recover()

    def _group_is_done(self) -> bool:
        return all(
            self.share_rules.is_empty(where, committed.end)
            for where, committed in self.rules.committed_records.items()
        )

    async def end(self) -> None:
        for where in self.partitions:
            await self._fail_over(where)
        for committed in self.rules.committed_records.values():
            self.share_rules.check_delivered(committed)
            if self.has_queue:
                self.share_rules.check_letters(committed, self._letters(committed.where))
        await super().end()

    async def _fail_over(self, where: TopicPartition) -> None:
        """Who leads next knows what was done."""
        leader = self._leader(where)
        if leader is not None:
            boots = self.cluster.machine(leader).boots
            self.cluster.kill(leader)
            await self.until(
                lambda: self.cluster.machine(leader).boots > boots and leader in self.cluster.nodes,
                "a leader that was killed is back",
            )
        await self.until(self.rules.all_in_sync, "all replicas are in sync after a failover")
        await self.until(self._group_is_done, "the queue is empty after a failover", QUEUE_S)

    def _letters(self, where: TopicPartition) -> set[int]:
        """The records of a partition that have a dead letter."""
        queue = TopicPartition(QUEUE, 0)
        leader = self._leader(queue)
        replica = None if leader is None else self.cluster.nodes[leader].parts.replica_manager.get(queue)
        if replica is None or replica.log is None:
            return set()
        about, offset = set(), replica.log.log_start_offset
        while offset < replica.log.high_watermark:
            chunk = replica.log.read(offset, max_bytes=1 << 30).chunk  # as far as a segment goes
            data = chunk.read() if isinstance(chunk, FileSlice) else bytes(chunk)
            for position, header in batches(data):
                offset = header.last_offset + 1
                for letter in read_records(data, position):
                    told = dict(letter.headers)
                    if told[dead_letters.PARTITION] == b"%d" % where.partition:
                        about.add(int(told[dead_letters.OFFSET] or b"-1"))
        return about

    def _leader(self, where: TopicPartition) -> int | None:
        newest = max(self.cluster.nodes.values(), key=lambda node: node.image.offset)
        image = partition_in(newest, where)
        return None if image is None or image.leader == NO_LEADER else image.leader
