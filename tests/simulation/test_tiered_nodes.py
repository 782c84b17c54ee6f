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
from headrace.wire.schemas.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from headrace.wire.schemas.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from tests.simulation.test_replicated_nodes import SETTINGS, Script, T, play

TIERS = {
    "remote.log.storage.system.enable": "true",
    "remote.log.manager.task.interval.ms": "500",
    "log.retention.check.interval.ms": "500",
    "rlmm.config.remote.log.metadata.topic.num.partitions": "2",
    "rlmm.config.remote.log.metadata.topic.replication.factor": "3",
    "min.insync.replicas": "1",
}
EARLIEST = -2
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
        client = await self.client(min(2, len(self.cluster.ids)))
        response = await client.ask(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 7)
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

    def remote_spans(self, node: int) -> list[tuple[int, int]]:
        """First and last offsets in the store, as this node knows them."""
        remote_log_manager = self.cluster.nodes[node].remote_log_manager
        assert remote_log_manager is not None
        known = [
            remote_log_manager.logs.known(name)
            for name in remote_log_manager.logs.partitions()
            if name.topic_partition == T
        ]
        return sorted((segment.start_offset, segment.end_offset) for remote in known for segment in remote)

    async def reassign(self, *replicas: int) -> None:
        request = AlterPartitionReassignmentsRequest(
            topics=[ReassignableTopic(T.topic, [ReassignablePartition(0, list(replicas))])]
        )
        response = await (await self.client(replicas[0])).ask(request, 1)
        assert response.responses[0].partitions[0].error_code == ErrorCode.NONE

    async def ask_start(self, node: int, version: int = 7) -> tuple[int, int]:
        """Error and offset, as a consumer hears them."""
        wish = ListOffsetsPartition(partition_index=0, timestamp=EARLIEST)
        request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(T.topic, [wish])])
        found = (await (await self.client(node)).ask(request, version)).topics[0].partitions[0]
        return found.error_code, found.offset

    async def fetch(self, node: int, offset: int, max_wait_ms: int = 200) -> PartitionData:
        wish = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
        request = FetchRequest(
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            max_bytes=1 << 20,
            session_epoch=-1,
            topics=[FetchTopic(topic=T.topic, partitions=[wish])],
        )
        response = await (await self.client(node)).ask(request, 12)
        data: PartitionData = response.responses[0].partitions[0]
        return data

    async def read_all(self, node: int) -> list[bytes]:
        """What a consumer reads from this node, from the log's start to its end."""
        values: list[bytes] = []
        offset = 0
        while True:
            data = await self.fetch(node, offset)
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
        assert await script.read_all(victim) == script.acknowledged

    play(script, work)


async def removed_in_part(script: TieredScript) -> int:
    """Records were deleted, and what held them is gone from the store: where the log starts there now."""
    await script.create(replicas=len(script.cluster.ids))
    await script.write(40)
    await script.tiered(local_start=40)  # all of it: nothing more leaves meanwhile
    leader = script.leader()
    assert leader is not None
    script.replicas()[leader].delete_records(20)
    await script.cluster.until(lambda: script.remote_spans(leader)[0][1] >= 20, "what was deleted is removed")
    return script.remote_spans(leader)[0][0]


def test_a_leader_that_forgot_what_it_removed_names_no_start_before_it_has_read_of_it() -> None:
    one = {"rlmm.config.remote.log.metadata.topic.replication.factor": "1"}
    script = TieredScript(3, nodes=1, **one)

    async def work() -> None:
        start = await removed_in_part(script)
        script.cluster.kill(1)
        await script.cluster.start(1)
        await script.cluster.until(lambda: script.leader() == 1, "it leads again")
        assert script.replicas()[1].local_log().log_start_offset < start, "no crash has forgotten it"
        answers = [await script.ask_start(1)]
        while answers[-1][0]:
            answers.append(await script.ask_start(1))
        assert {code for code, _ in answers[:-1]} <= {ErrorCode.OFFSET_NOT_AVAILABLE}
        assert answers[-1][1] == start

    play(script, work)


def test_until_a_leader_knows_what_was_removed_who_asks_for_it_waits() -> None:
    script = TieredScript(4)

    async def work() -> None:
        start = await removed_in_part(script)
        leader = script.leader()
        assert leader is not None
        partition = script.replicas()[leader]
        await script.fetch(leader, partition.local_log().log_end_offset)  # the connection is there

        def forget() -> None:
            partition.local_log().log_start_offset = 0
            partition.remote_known_epoch = -1

        forget()
        assert await script.ask_start(leader) == (ErrorCode.NONE, start)
        forget()
        data = await script.fetch(leader, 0, max_wait_ms=30_000)
        assert partition.knows_remote, "it was answered before"
        assert data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE

    play(script, work)


def test_a_follower_sends_who_asks_for_what_it_cannot_find_to_the_leader() -> None:
    script = TieredScript(5)

    async def work() -> None:
        start = await removed_in_part(script)
        follower = next(node for node in script.cluster.ids if node != script.leader())
        log = script.replicas()[follower].local_log()
        await script.cluster.until(
            lambda: log.local_start_offset > start and script.remote_spans(follower)[0][0] == start,
            "the follower has let go of it too",
        )
        log.log_start_offset = 0
        assert (await script.fetch(follower, 0)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER

    play(script, work)
