"""Real nodes that share a remote store, in virtual time: replicas that start behind it, and lead."""

from typing import Any

from headrace.base.error_codes import ErrorCode
from headrace.records.batch import read_records
from headrace.records.header import batches
from headrace.testing.disk import Crash, VirtualDisk
from headrace.testing.node_cluster import NodeCluster
from headrace.testing.world import World
from headrace.tiered.stores.folder import FolderStore
from headrace.wire.schemas.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from headrace.wire.schemas.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from headrace.wire.schemas.fetch import FetchPartition, FetchRequest, FetchTopic
from tests.simulation.test_replicated_nodes import SETTINGS, Script, T, play

TIERS = {
    "remote.log.storage.system.enable": "true",
    "remote.log.manager.task.interval.ms": "500",
    "log.retention.check.interval.ms": "500",
    "rlmm.config.remote.log.metadata.topic.num.partitions": "2",
    "rlmm.config.remote.log.metadata.topic.replication.factor": "3",
    "min.insync.replicas": "1",
}
TOPIC = {"remote.storage.enable": "true", "internal.segment.bytes": "400", "local.retention.ms": "1000"}


class TieredScript(Script):
    """A topic whose segments hold a few records, and which leaves the disk after a second."""

    def __init__(self, seed: int, *, nodes: int = 3, **settings: str) -> None:
        dotted = {name.replace("_", "."): value for name, value in settings.items()}
        self.disk = VirtualDisk()
        self.disk.make_folder("/remote")
        self.store = FolderStore(self.disk, "/remote")
        self.cluster = NodeCluster(
            World(seed), nodes=nodes, settings=SETTINGS | TIERS | dotted, remote_store=self.store
        )
        self.world = self.cluster.world
        self.network = self.world.network.attach("client", self.world.driver)
        self.acknowledged: list[bytes] = []
        self._clients: dict[int, Any] = {}

    async def create(self, replicas: int = 3) -> None:
        configs = [CreatableTopicConfig(name, value) for name, value in TOPIC.items()]
        topic = CreatableTopic(name=T.topic, num_partitions=1, replication_factor=replicas, configs=configs)
        response = await (await self.client(2)).ask(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 7)
        assert response.topics[0].error_code == ErrorCode.NONE, response
        await self.cluster.until(lambda: self.leader() is not None and len(self.replicas()) == replicas)

    async def tiered(self, *, local_start: int) -> None:
        """The leader has let go of what lies before."""

        def is_tiered() -> bool:
            leader = self.leader()
            return (
                leader is not None and self.replicas()[leader].local_log().local_start_offset >= local_start
            )

        await self.cluster.until(is_tiered, f"the local part starts at {local_start}")

    async def reassign(self, *replicas: int) -> None:
        request = AlterPartitionReassignmentsRequest(
            topics=[ReassignableTopic(T.topic, [ReassignablePartition(0, list(replicas))])]
        )
        response = await (await self.client(replicas[0])).ask(request, 1)
        assert response.responses[0].partitions[0].error_code == ErrorCode.NONE

    async def read_all(self, node: int) -> list[bytes]:
        """What a consumer reads from this node, from the log's start to its end."""
        values: list[bytes] = []
        offset = 0
        while True:
            request = FetchRequest(
                max_wait_ms=200,
                min_bytes=1,
                max_bytes=1 << 20,
                session_epoch=-1,
                topics=[
                    FetchTopic(
                        topic=T.topic,
                        partitions=[
                            FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
                        ],
                    )
                ],
            )
            data = (await (await self.client(node)).ask(request, 12)).responses[0].partitions[0]
            assert data.error_code == ErrorCode.NONE, ErrorCode(data.error_code)
            for position, header in batches(data.records):
                whole = memoryview(data.records)[position : position + header.size]
                values += [bytes(record.value or b"") for record in read_records(whole)]
                offset = header.next_offset
            if offset == data.high_watermark:
                return list(dict.fromkeys(values))


def test_a_replica_is_added_without_what_is_in_the_store_and_leads_all_of_it() -> None:
    script = TieredScript(1)

    async def work() -> None:
        await script.create(replicas=1)
        await script.write(40)
        await script.tiered(local_start=30)
        first = script.leader()
        assert first is not None
        other = next(node for node in (1, 2, 3) if node != first)
        await script.reassign(other, first)
        await script.cluster.until(lambda: script.in_sync() == {first, other}, "the new one is in sync")
        log = script.replicas()[other].local_log()
        assert log.log_start_offset == 0
        assert log.local_start_offset >= 30
        await script.write(3)
        assert await script.read_all(first) == script.acknowledged
        script.cluster.kill(first, Crash.POWER_CUT)
        await script.cluster.until(lambda: script.leader() == other, "the new one leads")
        await script.write(3)
        await script.cluster.until(lambda: _knows_remote(script, other), "it has read what is in the store")
        assert await script.read_all(other) == script.acknowledged

    play(script, work)


def test_a_disk_that_comes_back_empty_is_filled_from_where_the_local_part_starts() -> None:
    script = TieredScript(2)

    async def work() -> None:
        await script.create()
        await script.write(40)
        await script.tiered(local_start=30)
        victim = next(n for n in (1, 2, 3) if n != script.leader())
        script.cluster.kill(victim)
        await script.write(2)
        script.cluster.machine(victim).disk.remove_tree(f"/data/{T}")
        await script.cluster.start(victim)
        await script.cluster.until(lambda: script.in_sync() == {1, 2, 3}, "all in sync")
        assert script.replicas()[victim].local_log().local_start_offset >= 30
        # Consumers may read from it as from any other.
        await script.cluster.until(lambda: _knows_remote(script, victim), "it has read what is in the store")
        assert await script.read_all(victim) == script.acknowledged

    play(script, work)


def _knows_remote(script: TieredScript, node: int) -> bool:
    tiers = script.cluster.nodes[node].tiers
    assert tiers is not None
    return any(name.topic_partition == T and tiers.logs.get(name) for name in tiers.logs.partitions())
