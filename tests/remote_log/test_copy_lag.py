"""Segments that stay on the disk alone for a while (KIP-1241): by age, by size, by both, and changed."""

import pytest

from headrace.remote_log.copier import next_to_copy
from tests.remote_log.test_expiration import NOW_MS, local_log
from tests.remote_log.test_remote_log_manager import TOPIC, TieredWorld, tiered

LATE = TOPIC | {"local.retention.bytes": "-2"}
LAG_MS = 60_000


@pytest.mark.parametrize(
    ("settings", "age_ms", "is_copied"),
    [
        ({}, 0, True),
        ({"remote_copy_lag_bytes": 1_000_000}, 0, True),  # not asked, for an age of 0 lets all go
        ({"remote_copy_lag_ms": 100}, 99, False),
        ({"remote_copy_lag_ms": 100}, 100, True),
        ({"remote_copy_lag_ms": 100}, -1, True),  # its clock was ahead
        ({"remote_copy_lag_ms": 100, "remote_copy_lag_bytes": 0}, 0, True),
        ({"remote_copy_lag_ms": 100, "remote_copy_lag_bytes": 5}, 0, True),  # either is enough
        ({"remote_copy_lag_ms": 100, "remote_copy_lag_bytes": 5_000}, 0, False),
        ({"remote_copy_lag_ms": 100, "remote_copy_lag_bytes": 5_000}, 100, True),
        ({"remote_copy_lag_ms": -1, "local_retention_ms": 50}, 49, False),
        ({"remote_copy_lag_ms": -1, "local_retention_ms": 50}, 50, True),
        ({"remote_copy_lag_ms": -1, "retention_ms": 70}, 69, False),
        ({"remote_copy_lag_ms": -1, "retention_ms": 70}, 70, True),
        ({"remote_copy_lag_ms": -1, "retention_ms": -1}, 1 << 40, False),  # no limit at all: never
        ({"remote_copy_lag_ms": -1, "retention_ms": -1, "retention_bytes": 5}, 0, True),
        ({"remote_copy_lag_ms": -1, "retention_ms": -1, "retention_bytes": 5_000}, 0, False),
        ({"remote_copy_lag_ms": -1, "retention_ms": -1, "local_retention_bytes": 5}, 0, True),
    ],
)
def test_when_a_segment_may_be_copied(settings: dict[str, int], age_ms: int, is_copied: bool) -> None:
    assert (next_to_copy(local_log(7, **settings), NOW_MS + age_ms) is not None) is is_copied


def test_what_must_have_come_after_a_segment_is_counted_to_the_byte() -> None:
    log = local_log(7)
    newer = sum(segment.size for segment in log.segments) - log.segments[0].size
    for lag_bytes, is_copied in ((newer, True), (newer + 1, False)):
        log = local_log(7, remote_copy_lag_ms=100, remote_copy_lag_bytes=lag_bytes)
        assert (next_to_copy(log, NOW_MS) is not None) is is_copied
        log.tiered_to = 2
        assert next_to_copy(log, NOW_MS) is None, "less came after the second"


@tiered
async def test_a_segment_waits_until_it_is_as_old_as_its_topic_says(world: TieredWorld) -> None:
    await world.create_topic("rows", configs=LATE | {"remote.copy.lag.ms": str(LAG_MS)})
    began_ms = world.now_ms()
    world.write("rows", 4)
    await world.pass_time(LAG_MS - 10_000)
    assert not world.segments("rows")
    world.write("rows", 3)
    await world.copied_to("rows", 3)
    assert world.now_ms() - began_ms >= LAG_MS
    assert len(world.segments("rows")) == 1, "the second is younger"
    await world.copied_to("rows", 6)
    assert world.now_ms() - began_ms >= 2 * LAG_MS - 10_000


@tiered
async def test_a_segment_waits_until_enough_came_after_it_or_nobody_wants_that(world: TieredWorld) -> None:
    lags = {"remote.copy.lag.ms": "-1", "remote.copy.lag.bytes": "3000", "retention.ms": "-1"}
    await world.create_topic("rows", configs=LATE | lags)
    world.write("rows", 7)
    await world.pass_time(10_000)
    assert not world.segments("rows"), "2400 bytes came after the first"
    world.write("rows", 2)
    await world.copied_to("rows", 3)
    await world.pass_time(10_000)
    assert len(world.segments("rows")) == 1
    await world.configure("rows", remote_copy_lag_bytes="0")
    await world.copied_to("rows", 6)


@tiered
async def test_all_topics_of_a_broker_may_wait_and_a_restart_knows_it(world: TieredWorld) -> None:
    await world.configure_node("log.remote.copy.lag.ms", 10 * LAG_MS)
    await world.create_topic("rows", configs=LATE)
    world.write("rows", 4)
    await world.stop()
    await world.start()
    await world.pass_time(LAG_MS)
    assert not world.segments("rows")
    assert await world.try_to_configure("rows", local_retention_ms="1000") == 40, "the disk keeps less"
    await world.configure_node("log.remote.copy.lag.ms", 0)
    await world.copied_to("rows", 3)
