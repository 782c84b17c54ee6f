"""The driver on a real disk: elected, durable before answered, and the same again after a restart."""

import asyncio
import json
from pathlib import Path

import pytest

from headrace.base.clock import SystemClock
from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError, InvalidBytesError
from headrace.log.flush import Flush
from headrace.log.system_disk import SystemDisk
from headrace.raft.messages import LogEnd
from headrace.raft.snapshots import SnapshotId, list_snapshots, read_snapshot
from headrace.testing.machine import Program, Surroundings
from headrace.testing.world import World
from tests.raft.building import ALONE, Follower, format_alone, node_config, open_driver, topics


def folder(directory: Path) -> Path:
    return directory / "__cluster_metadata-0"


async def run_and_append(directory: Path, names: list[str], **settings: object) -> Follower:
    """Start, append the topics one by one, stop."""
    follower = Follower()
    driver = open_driver(SystemDisk(), node_config(str(directory), **settings), follower)
    await driver.start()
    for name in names:
        await driver.append(topics([name]))
    await driver.stop()
    return follower


def test_a_fresh_directory_is_led_in_epoch_1_and_every_start_begins_another(tmp_path: Path) -> None:
    format_alone(SystemDisk(), str(tmp_path))
    first = asyncio.run(run_and_append(tmp_path, ["a", "b"]))
    assert first.leaders == [(1, 1)]
    assert [(c.first_offset, c.last_offset, len(c.records)) for c in first.commits] == [
        (0, 2, 0),
        (3, 3, 1),
        (4, 4, 1),
    ]
    assert first.snapshots[0].voters == ALONE

    second = asyncio.run(run_and_append(tmp_path, ["c"]))
    assert second.leaders == [(1, 2)]
    assert second.names == ["a", "b", "c"]
    assert [commit.epoch for commit in second.commits] == [1, 1, 1, 2, 2]
    state = json.loads((folder(tmp_path) / "quorum-state").read_text())
    assert list(state.items()) == [
        ("leaderId", 1),
        ("leaderEpoch", 2),
        ("votedId", -1),
        ("votedDirectoryId", "AAAAAAAAAAAAAAAAAAAAAA"),
        ("data_version", 1),
    ]


def test_without_voters_in_the_log_they_come_from_the_settings(tmp_path: Path) -> None:
    settings = {"controller.quorum.voters": "1@localhost:9093", "controller.quorum.bootstrap.servers": ""}
    follower = asyncio.run(run_and_append(tmp_path, ["a"], **settings))
    assert follower.snapshots == []
    assert [(c.first_offset, c.last_offset) for c in follower.commits] == [(0, 0), (1, 1)]
    state = json.loads((folder(tmp_path) / "quorum-state").read_text())
    assert state == {
        "clusterId": "",
        "leaderId": 1,
        "leaderEpoch": 1,
        "votedId": -1,
        "appliedOffset": 0,
        "currentVoters": [{"voterId": 1}],
        "data_version": 0,
    }
    again = asyncio.run(run_and_append(tmp_path, [], **settings))
    assert again.names == ["a"]


def test_appends_that_meet_share_a_sync_and_keep_their_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced_to: list[int] = []
    sync = Flush.sync

    def counted(flush: Flush) -> None:
        synced_to.append(flush.offset)
        sync(flush)

    async def scenario() -> Follower:
        follower = Follower()
        driver = open_driver(SystemDisk(), node_config(str(tmp_path)), follower)
        await driver.start()
        monkeypatch.setattr(Flush, "sync", counted)
        offsets = await asyncio.gather(*(driver.append(topics([f"t{number}"])) for number in range(50)))
        assert offsets == sorted(offsets)
        assert driver.high_watermark == driver.next_offset
        return follower

    format_alone(SystemDisk(), str(tmp_path))
    follower = asyncio.run(scenario())
    assert follower.names == [f"t{number}" for number in range(50)]
    assert synced_to == [4, 53], "the first append goes alone, all that came meanwhile go together"


def test_nothing_is_written_by_a_node_that_does_not_lead(tmp_path: Path) -> None:
    format_alone(SystemDisk(), str(tmp_path))

    async def scenario() -> None:
        driver = open_driver(SystemDisk(), node_config(str(tmp_path)), Follower())
        with pytest.raises(ApiError) as refused:
            driver.append(topics(["a"]))
        assert refused.value.code == ErrorCode.NOT_CONTROLLER
        await driver.start()
        await driver.stop()
        with pytest.raises(ApiError):
            driver.append(topics(["a"]))

    asyncio.run(scenario())


def test_snapshots_follow_the_bytes_and_old_ones_go_with_their_log(tmp_path: Path) -> None:
    format_alone(SystemDisk(), str(tmp_path))
    settings = {
        "metadata.log.max.record.bytes.between.snapshots": 2000,
        "metadata.max.retention.bytes": 3000,
    }
    names = [f"topic-{number:03}" for number in range(100)]
    asyncio.run(run_and_append(tmp_path, names, **settings))
    found = list_snapshots(SystemDisk(), str(folder(tmp_path)))
    latest = read_snapshot(SystemDisk(), str(folder(tmp_path)), found[-1])
    assert latest.kraft_version == 1
    assert latest.voters == ALONE
    assert [record.name for record in latest.records] == names[: len(latest.records)]
    assert found[0].end_offset > 0, "the first snapshot went"
    assert not (folder(tmp_path) / "00000000000000000000.log").exists(), "and the log that it stood for"

    follower = asyncio.run(run_and_append(tmp_path, [], **settings))
    assert follower.names == names
    assert follower.snapshots[0].id == found[-1]


def test_a_damaged_snapshot_is_passed_over_while_the_log_reaches_back(tmp_path: Path) -> None:
    format_alone(SystemDisk(), str(tmp_path))
    settings = {"metadata.log.max.record.bytes.between.snapshots": 1000}
    asyncio.run(run_and_append(tmp_path, [f"t{number}" for number in range(30)], **settings))
    found = list_snapshots(SystemDisk(), str(folder(tmp_path)))
    assert len(found) > 1
    path = folder(tmp_path) / found[-1].file_name
    path.write_bytes(path.read_bytes()[:-20])
    follower = asyncio.run(run_and_append(tmp_path, []))
    assert len(follower.names) == 30
    assert follower.snapshots[0].id == found[-2]
    for snapshot in list_snapshots(SystemDisk(), str(folder(tmp_path))):
        (folder(tmp_path) / snapshot.file_name).write_bytes(b"")
    min(folder(tmp_path).glob("*.log")).unlink()
    with pytest.raises(InvalidBytesError, match="no readable snapshot for the records before offset"):
        asyncio.run(run_and_append(tmp_path, []))


def test_what_is_left_of_a_snapshot_that_was_never_finished_is_removed(tmp_path: Path) -> None:
    format_alone(SystemDisk(), str(tmp_path))
    left = folder(tmp_path) / (SnapshotId(9, 1).file_name + ".tmp")
    left.write_bytes(b"half")
    asyncio.run(run_and_append(tmp_path, ["a"]))
    assert not left.exists()


def run_alone(world: World, program: Program) -> None:
    """Run a program on a machine of its own, to its end."""
    machine = world.machine("member")

    async def script() -> None:
        await world.result(machine, machine.boot(program))

    world.run(script())
    world.close()


def test_records_that_nobody_follows_are_snapshotted_when_their_time_has_come() -> None:
    world = World("snapshot by time")

    async def member(around: Surroundings) -> list[SnapshotId]:
        format_alone(around.disk, "/data")
        settings = {"metadata.log.max.snapshot.interval.ms": 60_000}
        driver = open_driver(
            around.disk, node_config("/data", **settings), Follower(), loop=around.loop, clock=around.clock
        )
        await driver.start()
        offset = await driver.append(topics(["a"]))
        seen = [len(driver.log.snapshots)]
        for wait_s in (59, 2, 3600):
            await asyncio.sleep(wait_s)
            seen.append(len(driver.log.snapshots))
        assert seen == [1, 1, 2, 2], "one after a minute, and none where nothing is new"
        assert driver.log.snapshots[-1].end_offset == offset + 1
        return driver.log.snapshots

    run_alone(world, member)


@pytest.mark.parametrize("when", ["sync", "write"])
def test_a_disk_that_fails_ends_the_lead_and_nothing_more_is_answered(when: str) -> None:
    world = World(f"failing {when}")

    async def member(around: Surroundings) -> None:
        format_alone(around.disk, "/data")
        follower = Follower()
        driver = open_driver(
            around.disk, node_config("/data"), follower, loop=around.loop, clock=around.clock
        )
        await driver.start()
        waiting = driver.append(topics(["a"])) if when == "sync" else None
        setattr(around.disk.faults, f"{when}_error_rate", 1.0)
        if waiting is None:
            with pytest.raises(ApiError) as refused:
                driver.append(topics(["a"]))
        else:
            with pytest.raises(ApiError) as refused:
                await waiting
        assert refused.value.code == ErrorCode.NOT_CONTROLLER
        assert not driver.is_leader
        assert follower.leaders == [(1, 1), (-1, 1)]
        assert len(follower.failures) == 1
        assert follower.names == []
        with pytest.raises(ApiError):
            driver.append(topics(["b"]))
        await driver.stop()

    run_alone(world, member)


def test_a_full_disk_refuses_an_append_and_takes_the_next_when_there_is_room() -> None:
    world = World("full")

    async def member(around: Surroundings) -> None:
        format_alone(around.disk, "/data")
        follower = Follower()
        driver = open_driver(
            around.disk, node_config("/data"), follower, loop=around.loop, clock=around.clock
        )
        await driver.start()
        around.disk.faults.is_full = True
        with pytest.raises(ApiError) as refused:
            driver.append(topics(["a"]))
        assert refused.value.code == ErrorCode.KAFKA_STORAGE_ERROR
        assert driver.is_leader
        around.disk.faults.clear()
        await driver.append(topics(["b"]))
        assert follower.names == ["b"]
        await driver.stop()

    run_alone(world, member)


def test_a_log_that_a_snapshot_has_emptied_ends_in_the_snapshots_epoch(tmp_path: Path) -> None:
    async def scenario() -> None:
        follower = Follower()
        driver = open_driver(SystemDisk(), node_config(str(tmp_path)), follower)
        await driver.start()
        await driver.append(topics(["a"]))
        taken = driver._snapshotting.take(driver.delivered, driver.now_ms())
        assert taken is not None
        await taken
        log, snapshot = driver.log, driver.log.snapshots[-1]
        await driver.append(topics(["b"]))
        log.drop_before(snapshot, SystemClock().now_ms())
        log.truncate(snapshot.end_offset, now_ms=SystemClock().now_ms())
        assert log.log.leader_epoch_cache.entries() == []
        assert log.end == LogEnd(2, snapshot.end_offset)

    format_alone(SystemDisk(), str(tmp_path))
    asyncio.run(run_and_append(tmp_path, ["first"]))
    asyncio.run(scenario())


def test_where_the_log_begins_only_the_snapshots_epoch_proves_that_a_replica_goes_on(tmp_path: Path) -> None:
    async def scenario() -> None:
        driver = open_driver(SystemDisk(), node_config(str(tmp_path)), Follower())
        await driver.start()
        await driver.append(topics(["a"]))
        assert not driver.log.needs_snapshot(0, 0), "it has nothing yet, and the log has everything"
        taken = driver._snapshotting.take(driver.delivered, driver.now_ms())
        assert taken is not None
        await taken
        await driver.append(topics(["b"]))
        log, (start, epoch) = driver.log, driver.log.snapshots[-1]
        log.drop_before(log.snapshots[-1], SystemClock().now_ms())
        assert epoch == 2
        assert not log.needs_snapshot(start, epoch)
        assert not log.needs_snapshot(start + 1, epoch)
        assert log.needs_snapshot(start - 1, epoch)
        assert log.needs_snapshot(start, epoch - 1), "another record of its own lies below the start"
        assert log.needs_snapshot(start + 1, epoch - 1)
        log.snapshots.insert(0, SnapshotId(start - 1, epoch - 1))
        assert not log.needs_snapshot(start, epoch), "an older snapshot that is still there says nothing"
        assert log.needs_snapshot(start, epoch - 1)

    format_alone(SystemDisk(), str(tmp_path))
    asyncio.run(run_and_append(tmp_path, ["first"]))
    asyncio.run(scenario())
