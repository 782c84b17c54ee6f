"""An unclean leader has other records at offsets that its predecessor had copied: the store follows it."""

import asyncio

from headrace.base.ids import TopicPartition
from headrace.records.batch import batches, read_records
from headrace.tiered.segment_metadata import RemoteLogSegmentState, TopicIdPartition
from tests.remote_log.test_deleted_topics import BrokersApart

WHERE = TopicPartition("rows", 0)


class UncleanBrokers(BrokersApart):
    """Of one partition."""

    def leader(self) -> int | None:
        for node_id, node in self.cluster.nodes.items():
            partition = node.parts.replica_manager.get(WHERE) if node_id != 1 else None
            if partition is not None and partition.is_leader:
                return node_id
        return None

    def values(self, node_id: int) -> list[bytes]:
        """All values that the leader has, through both tiers."""
        node = self.cluster.nodes[node_id]
        partition = node.parts.replica_manager.get(WHERE)
        assert partition is not None
        assert partition.log is not None
        assert node.remote_log_manager is not None
        log, remote = (
            partition.log,
            node.remote_log_manager.logs.get(TopicIdPartition(partition.topic_id, WHERE)),
        )
        assert remote is not None
        offset = log.log_start_offset
        found: dict[int, bytes] = {}
        while offset < log.log_end_offset:
            segment = remote.find(log.leader_epoch_cache, offset) if offset < log.local_start_offset else None
            if segment is not None:
                data, upper = self.store.read(segment.object_name(".log"), 0, 1 << 20), segment.end_offset + 1
            else:
                result = log.read(offset, max_bytes=1 << 20)
                data = result.chunk if isinstance(result.chunk, bytes) else result.chunk.read()
                upper = result.upper_offset
            for at, _ in batches(data):
                found.update((record.offset, record.value or b"") for record in read_records(data, at))
            offset = upper
        return [found[offset][:3] for offset in sorted(found)]

    def finished(self, node_id: int) -> list[tuple[int, int]]:
        """Offsets of the finished copies, as this node knows them; nothing while others are there."""
        node = self.cluster.nodes[node_id]
        partition = node.parts.replica_manager.get(WHERE)
        assert partition is not None
        assert node.remote_log_manager is not None
        remote = node.remote_log_manager.logs.known(TopicIdPartition(partition.topic_id, WHERE))
        if any(segment.state is not RemoteLogSegmentState.COPY_FINISHED for segment in remote):
            return []
        return sorted((segment.start_offset, segment.end_offset) for segment in remote)


def test_copies_of_a_lineage_that_lost_are_removed() -> None:
    unclean = {"unclean_leader_election_enable": "true", "min_insync_replicas": "1"}
    apart = UncleanBrokers(1, file_delete_delay_ms="500", **unclean)
    cluster = apart.cluster

    async def script() -> None:
        await cluster.start()
        await apart.create()
        first = apart.leader()
        assert first is not None
        other = 5 - first
        apart.write(4, b"old")
        await cluster.until(lambda: all(log.log_end_offset == 4 for log in apart.logs()), "both have four")
        cluster.kill(other)
        await cluster.until(lambda: cluster.unfenced_on(first) == {first})
        apart.write(8, b"old")
        await cluster.until(lambda: apart.finished(first) == [(0, 2), (3, 5), (6, 8)], "three are copied")
        cluster.kill(first)
        await cluster.start(other)
        await cluster.until(lambda: apart.leader() == other, "the other one leads, uncleanly", 120)
        apart.write(9, b"new")
        # The records about segments are only on the first one: without them nothing is touched.
        objects = list(apart.store.list(""))
        await asyncio.sleep(5)
        assert list(apart.store.list("")) == objects
        await cluster.start(first)
        await cluster.until(
            lambda: apart.finished(other)[-1:] == [(9, 11)] and len(apart.finished(other)) == 4,
            "its own are copied, and what the first one had copied beyond is gone",
        )
        assert apart.values(other) == [b"old"] * 4 + [b"new"] * 9
        await cluster.until(lambda: all(log.log_end_offset == 13 for log in apart.logs()), "both are equal")
        await cluster.until(lambda: len(list(apart.store.list(""))) == 4 * 5, "no object is left over")

    apart.world.run(script())
