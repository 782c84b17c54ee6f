"""Who may commit and read offsets of a consumer group."""

import pytest

from headrace.base.error_codes import ErrorCode
from tests.coordinators.consumer.consumer_world import Client, World, topic_id

T0, T3 = (topic_id("t"), 0), (topic_id("t"), 3)


@pytest.fixture
def world() -> World:
    """Member a is at epoch 3: it has partitions 0 and 1 since epoch 2, and gave 2 and 3 to member b."""
    world = World()
    world.topic("t", 4)
    one, other = Client(world, "a", ("t",)), Client(world, "b", ("t",))
    one.join()
    world.pass_time(1_000)
    other.join()
    one.heartbeat()
    one.heartbeat()
    other.heartbeat()
    assert (one.epoch, one.owned, other.owned) == (3, {"t": {0, 1}}, {"t": {2, 3}})
    return world


@pytest.mark.parametrize(
    ("member", "epoch", "partitions", "error"),
    [
        ("a", 3, [T0], ErrorCode.NONE),
        ("a", 3, [T3], ErrorCode.NONE),  # a member at its own epoch may commit to anything
        ("a", 2, [T0], ErrorCode.NONE),  # it never moved
        ("a", 2, [T0, T3], ErrorCode.STALE_MEMBER_EPOCH),
        ("a", 1, [T0], ErrorCode.STALE_MEMBER_EPOCH),
        ("a", 4, [T0], ErrorCode.STALE_MEMBER_EPOCH),
        ("a", -1, [T0], ErrorCode.STALE_MEMBER_EPOCH),
        ("b", 2, [T3], ErrorCode.STALE_MEMBER_EPOCH),  # it was another's then
        ("c", 3, [T0], ErrorCode.UNKNOWN_MEMBER_ID),
        ("", -1, [T0], ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_commits(
    world: World, member: str, epoch: int, partitions: list[tuple[bytes, int]], error: ErrorCode
) -> None:
    assert (
        world.group.validate_offset_commit(
            member_id=member, epoch=epoch, api_version=9, partitions=partitions
        )
        is error
    )


def test_members_commit_with_a_version_that_has_epochs(world: World) -> None:
    result = world.group.validate_offset_commit(member_id="a", epoch=3, api_version=8, partitions=[T0])
    assert result is ErrorCode.UNSUPPORTED_VERSION


def test_an_empty_group_takes_commits_from_outside(world: World) -> None:
    world.heartbeat("a", -1)
    world.heartbeat("b", -1)
    assert (
        world.group.validate_offset_commit(member_id="", epoch=-1, api_version=2, partitions=[T0])
        is ErrorCode.NONE
    )


@pytest.mark.parametrize(
    ("member", "epoch", "error"),
    [
        (None, -1, ErrorCode.NONE),
        ("a", 3, ErrorCode.NONE),
        ("a", 2, ErrorCode.STALE_MEMBER_EPOCH),
        ("c", 3, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_reading(world: World, member: str | None, epoch: int, error: ErrorCode) -> None:
    assert world.group.validate_offset_fetch(member_id=member, epoch=epoch) is error
