"""Who may commit and read a streams group's offsets, and what its id is to groups of other kinds."""

from headrace.base.error_codes import ErrorCode
from tests.coordinators.consumer.consumer_world import GROUP, World, topic_id
from tests.coordinators.streams.streams_world import StreamsWorld


def commit(
    world: StreamsWorld,
    member: str,
    epoch: int,
    *partitions: int,
    version: int = 9,
    transactional: bool = False,
) -> ErrorCode:
    return world.shard.offsets.validate_offset_commit(
        GROUP,
        member_id=member,
        instance_id=None,
        generation=epoch,
        api_version=version,
        partitions=[(topic_id("in"), each) for each in partitions],
        transactional=transactional,
    )


def test_members_commit_with_their_epoch() -> None:
    world = StreamsWorld()
    world.join("a")
    assert commit(world, "a", 2, 0) is ErrorCode.NONE
    assert commit(world, "a", 3, 0) is ErrorCode.STALE_MEMBER_EPOCH
    assert commit(world, "a", 1, 0) is ErrorCode.STALE_MEMBER_EPOCH
    assert commit(world, "b", 2, 0) is ErrorCode.UNKNOWN_MEMBER_ID
    assert commit(world, "", -1, 0) is ErrorCode.UNKNOWN_MEMBER_ID, "somebody is in the group"
    assert commit(world, "a", 2, 0, version=8) is ErrorCode.UNSUPPORTED_VERSION
    assert commit(world, "a", 2, 0, version=3, transactional=True) is ErrorCode.NONE
    world.leave("a")
    assert commit(world, "", -1, 0) is ErrorCode.NONE


def test_with_an_older_epoch_for_tasks_that_were_its_own_already() -> None:
    """The group moved on while the commit was on its way (KIP-1251)."""
    world = StreamsWorld()
    world.join("a")
    world.join("b")
    world.beat_all(3)
    assert world.epochs == {"a": 3, "b": 3}
    assert commit(world, "a", 2, 0, 1) is ErrorCode.NONE
    assert commit(world, "a", 2, 2) is ErrorCode.STALE_MEMBER_EPOCH, "given away since"
    assert commit(world, "b", 2, 2) is ErrorCode.STALE_MEMBER_EPOCH, "not its own in that epoch"


def test_reading_needs_the_epoch_or_no_name() -> None:
    world = StreamsWorld()
    world.join("a")
    fetch = world.shard.offsets.validate_offset_fetch
    assert fetch(GROUP, member_id=None, epoch=-1) is ErrorCode.NONE
    assert fetch(GROUP, member_id="a", epoch=2) is ErrorCode.NONE
    assert fetch(GROUP, member_id="a", epoch=1) is ErrorCode.STALE_MEMBER_EPOCH
    assert fetch(GROUP, member_id="b", epoch=2) is ErrorCode.UNKNOWN_MEMBER_ID


def consumer_joins(world: StreamsWorld) -> int:
    reply = World.heartbeat(world, "c", 0, {}, rebalance_timeout_ms=60_000, subscribed_topic_names=["in"])
    return reply.error_code


def test_groups_of_other_kinds_keep_their_id() -> None:
    world = StreamsWorld()
    assert consumer_joins(world) == ErrorCode.NONE
    taken = world.join("a")
    assert taken.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert taken.error_message == f"Group {GROUP} is not a streams group."


def test_a_consumer_does_not_join_a_streams_group() -> None:
    world = StreamsWorld()
    world.join("a")
    assert consumer_joins(world) == ErrorCode.GROUP_ID_NOT_FOUND
