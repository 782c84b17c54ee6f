"""FetchSnapshot through its handler: pieces of a file that make the whole, and what cannot be had."""

import pytest

from headrace.base.error_codes import ErrorCode
from headrace.raft.snapshots import SnapshotId as Id
from headrace.raft.snapshots import decode_snapshot
from headrace.wire.schemas.fetch_snapshot import (
    FetchSnapshotRequest,
    RequestPartitionSnapshot,
    RequestTopicSnapshot,
    SnapshotId,
)
from tests.server.node_world import NodeWorld, simulated


def asked(snapshot: Id, position: int = 0, *, epoch: int = 1, max_bytes: int = 100) -> FetchSnapshotRequest:
    partition = RequestPartitionSnapshot(0, epoch, SnapshotId(*snapshot), position)
    return FetchSnapshotRequest(
        replica_id=9, max_bytes=max_bytes, topics=[RequestTopicSnapshot("__cluster_metadata", [partition])]
    )


@pytest.mark.parametrize("version", range(2))
@simulated(metadata_log_max_record_bytes_between_snapshots="200")
async def test_the_pieces_make_the_snapshot(world: NodeWorld, version: int) -> None:
    await world.create_topic("orders")
    log = world.node.quorum.client.log
    await world.until(lambda: bool(log.snapshots))
    snapshot = log.snapshots[-1]
    client = await world.connect_controller()
    data = b""
    while True:
        response = await client.ask(asked(snapshot, len(data)), version)
        part = response.topics[0].partitions[0]
        assert (part.error_code, part.position) == (0, len(data))
        data += bytes(part.unaligned_records)
        if len(data) == part.size:
            break
    assert decode_snapshot(snapshot, data).records
    behind = await client.ask(asked(snapshot, len(data)), version)
    assert behind.topics[0].partitions[0].error_code == ErrorCode.POSITION_OUT_OF_RANGE


@simulated()
async def test_what_is_not_there_and_who_does_not_lead(world: NodeWorld) -> None:
    client = await world.connect_controller()
    gone = await client.ask(asked(Id(77, 1)), 1)
    assert gone.topics[0].partitions[0].error_code == ErrorCode.SNAPSHOT_NOT_FOUND
    old = await client.ask(asked(Id(77, 1), epoch=0), 1)
    assert old.topics[0].partitions[0].error_code == ErrorCode.FENCED_LEADER_EPOCH
    strange = asked(Id(77, 1))
    strange.topics[0].name = "orders"
    assert (await client.ask(strange, 1)).error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("topics", [[], [RequestTopicSnapshot("__cluster_metadata", [])]])
@pytest.mark.parametrize("version", range(2))
@simulated()
async def test_a_request_about_nothing_does_not_end_the_controller(
    world: NodeWorld, version: int, topics: list[RequestTopicSnapshot]
) -> None:
    """CVE-2026-83525."""
    client = await world.connect_controller()
    await client.ask(FetchSnapshotRequest(replica_id=9, max_bytes=100, topics=topics), version)
    await world.create_topic("still-served")
    assert world.is_running
