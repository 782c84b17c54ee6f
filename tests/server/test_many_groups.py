"""A node with thousands of groups: what happens to all of them at once is done some at a time."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from headrace.base.ids import NO_TOPIC_ID, TopicPartition
from headrace.coordinators.coordinator_shard import CoordinatorRecord
from headrace.coordinators.group.consumer.member import ConsumerGroupMember
from headrace.coordinators.group.consumer.records import (
    current_assignment_record,
    group_epoch_record,
    member_record,
    target_assignment_epoch_record,
)
from headrace.coordinators.group.offset_metadata_manager import OffsetToCommit, offset_record
from headrace.wire.schemas.find_coordinator import FindCoordinatorRequest
from tests.server.group_requests import commit, fetch_offsets
from tests.server.node_world import NodeWorld, simulated

MANY = pytest.mark.parametrize("many", [1_000, pytest.param(5_000, marks=pytest.mark.slow)])
WRITES_IN_TURN_MAX = 30
BATCH = 500


async def ready(world: NodeWorld) -> None:
    client = await world.connect()
    await client.ask(FindCoordinatorRequest(coordinator_keys=["g"]), 4)
    await world.until(lambda: len(world.node.parts.groups.runtime.shards()) == 1, "the coordinator")


def write(world: NodeWorld, records: list[CoordinatorRecord]) -> None:
    """As if that many clients had been there."""
    runtime = world.node.parts.groups.runtime
    for start in range(0, len(records), BATCH):
        runtime.write(0, records[start : start + BATCH], lambda error: None)


@contextmanager
def writes_by_turn(world: NodeWorld) -> Iterator[Counter[int]]:
    """Counts the coordinator's writes in every turn of the node's loop."""
    parts = world.node.parts
    written: Counter[int] = Counter()
    turn = 0
    original: Callable[..., None] = parts.groups.runtime.write

    def count(*arguments: Any, **options: Any) -> None:
        nonlocal turn
        if not written[turn]:
            parts.loop.call_soon(next_turn)
        written[turn] += 1
        original(*arguments, **options)

    def next_turn() -> None:
        nonlocal turn
        turn += 1

    parts.groups.runtime.write = count  # type: ignore[method-assign]
    try:
        yield written
    finally:
        parts.groups.runtime.write = original  # type: ignore[method-assign]


def committed(group: str, topic: str, now_ms: int) -> CoordinatorRecord:
    return offset_record(group, OffsetToCommit(TopicPartition(topic, 0), NO_TOPIC_ID, 5), now_ms)


@MANY
@simulated(offsets_topic_num_partitions="1")
async def test_sessions_that_end_together_hold_nobody_up(world: NodeWorld, many: int) -> None:
    await world.create_topic("t", 1)
    await ready(world)
    records = []
    for number in range(many):
        name, member = f"g{number}", ConsumerGroupMember(f"m{number}", topics=("t",), epoch=1)
        records += [
            member_record(name, member),
            group_epoch_record(name, epoch=1, metadata_hash=0),
            target_assignment_epoch_record(name, epoch=1, timestamp_ms=0),
            current_assignment_record(name, member),
        ]
    write(world, records)
    await world.stop()
    await world.start()
    await world.until(lambda: len(world.node.parts.groups.runtime.shards()) == 1, "the coordinator")
    groups = world.node.parts.groups.shard_for("g0").consumer.groups
    assert sum(len(group.members) for group in groups.values()) == many
    with writes_by_turn(world) as written:
        await world.pass_time(60_000)
    assert sum(len(group.members) for group in groups.values()) == 0
    assert written.total() == many
    assert max(written.values()) <= WRITES_IN_TURN_MAX


@MANY
@simulated(
    offsets_topic_num_partitions="1",
    offsets_retention_minutes="1",
    offsets_retention_check_interval_ms="60000",
)
async def test_offsets_that_end_together_hold_nobody_up(world: NodeWorld, many: int) -> None:
    await world.create_topic("t", 1)
    await world.create_topic("u", 1)
    await ready(world)
    now_ms = int(world.node.parts.clock.now_ms())
    names = [f"g{number}" for number in range(many)]
    write(world, [committed(name, topic, now_ms) for name in names for topic in "tu"])
    shard = world.node.parts.groups.shard_for("g0")
    with writes_by_turn(world) as written:
        await world.delete_topic("u")
        await world.until(lambda: len(shard.offsets.of("g7")) == 1, "the topic's offsets are gone")
    assert written.total() <= WRITES_IN_TURN_MAX
    with writes_by_turn(world) as written:
        await world.pass_time(200_000)
    assert shard.group_ids() == []
    assert written.total() == many
    assert max(written.values()) <= WRITES_IN_TURN_MAX
    client = await world.connect()
    assert not (await client.ask(commit("g0", "t", {0: 9}), 9)).topics[0].partitions[0].error_code
    reply = await client.ask(fetch_offsets(9, "g0", "t"), 9)
    assert reply.groups[0].topics[0].partitions[0].committed_offset == 9
