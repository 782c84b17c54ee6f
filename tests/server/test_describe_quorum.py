"""DescribeQuorum through its handler, in each of its versions."""

from pathlib import Path

import pytest

from headrace.base.error_codes import ErrorCode
from headrace.wire.schemas.describe_quorum import (
    DescribeQuorumRequest,
    RequestPartitionData,
    RequestTopicData,
)
from tests.raft.building import DIRECTORY_ID
from tests.server.desk import Desk, at_desk


@pytest.mark.parametrize("version", range(3))
def test_the_only_voter_leads(tmp_path: Path, version: int) -> None:
    async def script(desk: Desk) -> None:
        metadata = RequestTopicData("__cluster_metadata", [RequestPartitionData(0)])
        response = await desk.ask(DescribeQuorumRequest([metadata]), version)
        partition = response.topics[0].partitions[0]
        assert (response.error_code, partition.error_code, partition.leader_id) == (0, 0, 1)
        (voter,) = partition.current_voters
        assert (voter.replica_id, voter.log_end_offset) == (1, partition.high_watermark)
        if version == 2:
            assert voter.replica_directory_id == DIRECTORY_ID
            assert [node.listeners[0].name for node in response.nodes] == ["CONTROLLER"]
        desk.node.raft.core.resign(0)
        again = await desk.ask(DescribeQuorumRequest([metadata]), version)
        assert again.topics[0].partitions[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER

    at_desk(tmp_path, script)


def test_other_topics_have_no_quorum(tmp_path: Path) -> None:
    async def script(desk: Desk) -> None:
        request = DescribeQuorumRequest([RequestTopicData("a", [RequestPartitionData(0)])])
        response = await desk.ask(request)
        assert response.topics[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        twice = [RequestTopicData("__cluster_metadata", [RequestPartitionData(0)])] * 2
        response = await desk.ask(DescribeQuorumRequest(twice))
        codes = [topic.partitions[0].error_code for topic in response.topics]
        assert codes == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * 2

    at_desk(tmp_path, script)


def test_a_voter_whose_disk_was_replaced_is_gone_and_the_new_disk_observes(tmp_path: Path) -> None:
    """Who counts on three voters must see that one of them will never come back (KIP-853)."""

    async def script(desk: Desk) -> None:
        raft, new_disk = desk.node.raft, b"a disk from today"[:16]
        assert raft.core.leader_state is not None
        alone = raft.core.voters
        raft.core.voters = {**alone, 2: b"its disk of before"[:16]}
        raft.core.leader_state.fetched(2, new_disk, 3, leader_end=3, now_ms=raft.now_ms())
        metadata = RequestTopicData("__cluster_metadata", [RequestPartitionData(0)])
        partition = (await desk.ask(DescribeQuorumRequest([metadata]))).topics[0].partitions[0]
        raft.core.voters = alone
        assert [(each.replica_id, each.last_fetch_timestamp) for each in partition.current_voters][1:] == [
            (2, -1)
        ]
        assert partition.current_voters[1].log_end_offset == -1
        (observer,) = partition.observers
        assert (observer.replica_id, observer.replica_directory_id) == (2, new_disk)
        assert observer.log_end_offset == 3

    at_desk(tmp_path, script)
