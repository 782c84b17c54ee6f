"""A snapshot and a long log are handed over in slices: the loop serves others in between, and nobody acts on
half of it."""

import asyncio
from itertools import repeat
from pathlib import Path

import pytest

from headrace.base.errors import ApiError
from headrace.log.system_disk import SystemDisk
from headrace.raft.drivers.delivery import SLICE_RECORDS, CommitDelivery
from headrace.raft.drivers.raft_client import KafkaRaftClient
from headrace.raft.messages import LogEnd, VoteReply, VoteRequest
from headrace.raft.metadata_log import MetadataLog
from headrace.raft.snapshots import Snapshot, SnapshotId, decode_snapshot, encode_snapshot
from tests.raft.building import DIRECTORY_ID, Follower, format_alone, node_config, open_driver, topics

SLICES = 20
NAMES = [f"t{number}" for number in range(SLICES * SLICE_RECORDS)]


async def fill(directory: Path) -> None:
    """A snapshot of twenty slices, and as much of the log behind it."""
    follower = Follower()
    driver = open_driver(SystemDisk(), node_config(str(directory)), follower)
    await driver.start()
    await driver.append(topics(NAMES))
    taken = driver._snapshotting.take(driver.delivered, driver.now_ms())
    assert taken is not None
    await taken
    for first in range(0, len(NAMES), SLICE_RECORDS):
        await driver.append(topics([f"{name}-more" for name in NAMES[first : first + SLICE_RECORDS]]))
    await driver.stop()


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("slices")
    format_alone(SystemDisk(), str(directory))
    asyncio.run(fill(directory))
    return directory


class Turns:
    """What is seen at every turn of the loop while a node starts."""

    def __init__(self, driver: KafkaRaftClient, follower: Follower) -> None:
        self._driver = driver
        self._follower = follower
        self.records: list[int] = []
        self.known: list[int] = []

    async def watch(self) -> None:
        while not self._driver._ready.done():
            assert not self._follower.leaders, "nobody is told of a leader who has yet to load"
            self.records.append(len(self._follower.names))
            self.known.append(self._driver.known_high_watermark)
            await asyncio.sleep(0)


def test_the_loop_turns_while_a_large_snapshot_and_a_long_log_are_loaded(directory: Path) -> None:
    async def scenario() -> tuple[Follower, Turns, int]:
        follower = Follower()
        driver = open_driver(SystemDisk(), node_config(str(directory)), follower)
        turns = Turns(driver, follower)
        watching = asyncio.ensure_future(turns.watch())
        await driver.start()
        await watching
        end = driver.delivered
        await driver.stop()
        return follower, turns, end

    follower, turns, end = asyncio.run(scenario())
    assert follower.names == NAMES + [f"{name}-more" for name in NAMES]
    assert len(follower.leaders) == 1
    assert follower.leaders[0][0] == 1, "active when everything is there"
    snapshot = follower.snapshots[-1]
    assert snapshot.batches == [], "nobody needs them any more"
    assert turns.records.count(0) >= SLICES // 2, "nothing of the snapshot is seen before all of it"
    steps = sorted(set(turns.records))
    assert steps[1] >= len(NAMES)
    assert len(steps) >= SLICES // 2, "and then the log, slice by slice"
    assert max(turns.known) <= end
    assert {known for known in turns.known if known < snapshot.id.end_offset} == {0}, (
        "a leader is told of nothing that is not handed over"
    )


def test_a_node_votes_while_it_loads(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Snapshot, "slices", lambda _snapshot, _count: repeat([]))

    async def scenario() -> VoteReply | None:
        follower = Follower()
        settings = node_config(
            str(directory), **{"node.id": 2, "controller.quorum.election.timeout.ms": 600_000}
        )
        driver = open_driver(SystemDisk(), settings, follower, directory_id=b"E" * 16)
        starting = asyncio.ensure_future(driver.start())
        await asyncio.sleep(0)
        assert driver.is_behind
        end = LogEnd(driver.log.end.epoch, driver.next_offset)
        answer = await driver.hear(VoteRequest(2, driver.core.epoch + 1, 1, DIRECTORY_ID, end, False))
        assert driver.is_behind
        assert not follower.snapshots
        driver.abandon()
        with pytest.raises(asyncio.CancelledError):
            await starting
        return answer

    answer = asyncio.run(scenario())
    assert answer is not None
    assert answer.granted


def snapshot_of(end_offset: int, names: list[str]) -> Snapshot:
    snapshot = Snapshot(SnapshotId(end_offset, 1), timestamp_ms=1)
    return decode_snapshot(snapshot.id, encode_snapshot(snapshot, topics(names), now_ms=1))


def open_log(directory: Path) -> MetadataLog:
    async def scenario() -> MetadataLog:
        return open_driver(SystemDisk(), node_config(str(directory)), Follower()).log

    return asyncio.run(scenario())


def test_a_snapshot_that_comes_while_another_is_loaded_takes_its_place(tmp_path: Path) -> None:
    format_alone(SystemDisk(), str(tmp_path))
    delivery, follower = CommitDelivery(open_log(tmp_path)), Follower()
    delivery.register_listener(follower)
    first, second = snapshot_of(3 * SLICE_RECORDS, NAMES[: 3 * SLICE_RECORDS]), snapshot_of(9, ["new"])
    delivery.load(first)
    delivery.deliver(0)
    delivery.load(second)
    while delivery.loading:
        assert follower.names == []
        delivery.deliver(0)
    assert (follower.names, follower.snapshots, delivery.delivered) == (["new"], [second], 9)


def test_a_snapshot_without_records_is_one(tmp_path: Path) -> None:
    format_alone(SystemDisk(), str(tmp_path))
    delivery, follower = CommitDelivery(open_log(tmp_path)), Follower(records=[topics(["old"])[0].record])
    delivery.register_listener(follower)
    delivery.load(snapshot_of(9, []))
    assert follower.names == ["old"]
    delivery.deliver(0)
    assert (follower.names, delivery.loading, delivery.delivered) == ([], False, 9)


def test_a_start_ends_where_a_subscriber_cannot_read_what_it_is_told(directory: Path) -> None:
    class Puzzled(Follower):
        def handle_commit(self, commit: object) -> None:
            raise ValueError("what is this?")

    async def scenario() -> None:
        follower = Puzzled()
        driver = open_driver(SystemDisk(), node_config(str(directory)), follower)
        with pytest.raises(ApiError, match="what is this"):
            await driver.start()
        assert [str(error) for error in follower.failures] == ["what is this?"]
        assert not driver.is_leader

    asyncio.run(scenario())


def test_a_snapshot_that_was_overtaken_is_not_the_latest(tmp_path: Path) -> None:
    format_alone(SystemDisk(), str(tmp_path))
    log = open_log(tmp_path)
    log.add_snapshot(SnapshotId(90, 2), 1)
    log.add_snapshot(SnapshotId(50, 2), 1)
    assert log.snapshots[-2:] == [SnapshotId(50, 2), SnapshotId(90, 2)]
