"""A bit that flipped at rest is told from a torn end."""

import random

import pytest

from headrace.base.errors import InvalidBytesError
from headrace.raft.damage import settle_damage
from headrace.raft.metadata_log import MetadataLog, log_settings
from headrace.raft.snapshots import Snapshot, SnapshotId, encode_snapshot
from headrace.records.batch import Record, batches, build_batch
from headrace.testing.disk import Crash, VirtualDisk
from headrace.testing.disk_faults import ProcessEndedError

FOLDER = "/data/__cluster_metadata-0"
SEGMENTS = (0, 6)


def batch(offset, epoch, size=30):
    data = build_batch([Record(0, 1, None, bytes(range(size)))] * 2)
    data[:8] = offset.to_bytes(8, "big")
    data[12:16] = epoch.to_bytes(4, "big")
    return bytes(data)


def disk_with(*segments):
    disk = VirtualDisk()
    disk.make_folder("/data")
    disk.make_folder(FOLDER)
    for base, data in zip(SEGMENTS, segments, strict=False):
        disk.open(path(base), create=True).write(0, (data,))
    return disk


def path(base):
    return f"{FOLDER}/{base:020}.log"


def is_refused(disk, snapshots=()):
    try:
        settle_damage(disk, FOLDER, snapshots)
    except InvalidBytesError:
        return True
    return False


def epochs_rise(disk):
    data = b"".join(bytes(disk.tree.file(path(base)).data) for base in SEGMENTS)
    epochs = [int.from_bytes(data[at + 12 : at + 16], "big", signed=True) for at in STARTS]
    return epochs == sorted(epochs)


FIRST = batch(0, 1) + batch(2, 1) + batch(4, 2)
SECOND = batch(6, 2) + batch(8, 3)
STARTS = [at for at, _ in batches(FIRST + SECOND)]
EPOCHS = {start + at for start in STARTS for at in range(12, 16)}


def test_a_sound_log_is_taken():
    assert not is_refused(disk_with())
    assert not is_refused(disk_with(b""))
    assert not is_refused(disk_with(FIRST, SECOND))


def test_what_was_cut_and_came_back_in_a_power_cut_is_no_damage():
    """Found by the simulator (cluster, seed 1090198): the cut of the first segment was not durable yet, and
    what was written next, into a segment of its own, was."""
    assert not is_refused(disk_with(FIRST + batch(6, 2) + batch(8, 2), SECOND))


@pytest.mark.parametrize("number", [0, 1])
def test_any_flipped_bit_is_refused(number):
    """But one that makes an epoch a later one that is possible too: that changes no content."""
    segment = (FIRST, SECOND)[number]
    for position in range(len(segment)):
        for bit in range(8):
            disk = disk_with(FIRST, SECOND)
            disk.tree.file(path(SEGMENTS[number])).data[position] ^= 1 << bit
            if position + number * len(FIRST) not in EPOCHS or not epochs_rise(disk):
                assert is_refused(disk), (position, bit)


@pytest.mark.parametrize("tail_epoch", [2, 3])
def test_a_torn_end_is_not_damage(tail_epoch):
    whole = batch(6, 2) + batch(8, tail_epoch, size=200)
    start = len(batch(6, 2))
    for size in range(start, len(whole)):
        assert not is_refused(disk_with(FIRST, whole[:size]))
    for hole in range(start, len(whole) - 30, 7):
        torn = whole[:hole] + bytes(30) + whole[hole + 30 :]
        if torn != whole:
            assert not is_refused(disk_with(FIRST, torn)), hole


def test_an_end_that_lacks_one_bit_is_torn_and_others_that_do_are_not():
    """Found by the simulator (tiers, seed 3004910): the last bytes of a batch, 1 0 0, were not there yet."""
    data = build_batch([Record(0, 1, None, bytes([4, 4, 0, 1, 0]))])
    data[:8], data[12:16] = (6).to_bytes(8, "big"), (2).to_bytes(4, "big")
    torn = bytes(data).rstrip(b"\0")[:-1].ljust(len(data), b"\0")
    assert sum(one != other for one, other in zip(data, torn, strict=True)) == 1
    assert not is_refused(disk_with(FIRST, torn))
    assert is_refused(disk_with(FIRST, torn + batch(7, 2)))
    flipped = bytes(data).replace(bytes([4, 4, 0, 1]), bytes([4, 0, 0, 1]))
    assert is_refused(disk_with(FIRST, flipped))


def test_a_lost_write_before_one_of_the_same_epoch_is_a_torn_end():
    lost = bytes(len(batch(8, 2)))
    assert not is_refused(disk_with(FIRST, batch(6, 2) + lost + batch(10, 2)))
    assert is_refused(disk_with(FIRST, batch(6, 2) + lost + batch(10, 3)))


def test_more_than_a_bit_is_refused_before_a_later_epoch():
    data = bytearray(FIRST)
    position = list(batches(FIRST))[1][0]
    data[position + 70 : position + 80] = b"0123456789"
    assert is_refused(disk_with(bytes(data), SECOND))


def test_a_lost_write_behind_a_snapshot_of_the_same_epoch_is_a_torn_end():
    """Found by the simulator (quorum, seed 8301578): a log that was emptied by a snapshot has no batch that
    tells its epoch."""
    torn = disk_with(bytes(len(FIRST)) + batch(10, 2))
    assert not is_refused(torn, [SnapshotId(0, 2)])
    assert is_refused(torn, [SnapshotId(0, 1)])


def harmed(data):
    """Each way in which a file of the first segment may be damaged, by what is left of it."""
    yield None
    for size in (0, 1, len(data) // 2, STARTS[1], len(data) - 1):
        yield data[:size]
    yield data[:100] + bytes(50) + data[150:]
    yield data[:100] + bytes([data[100] ^ 1]) + data[101:]


@pytest.mark.parametrize("snapshot", [SnapshotId(6, 2), SnapshotId(8, 2)])
@pytest.mark.parametrize("left", list(harmed(FIRST)), ids=lambda left: f"{left and len(left)} bytes")
def test_what_a_snapshot_stands_for_may_be_damaged(snapshot, left, caplog):
    """And nothing is lost of what comes behind it."""
    disk = disk_with(FIRST, SECOND)
    for each in (SnapshotId(2, 1), snapshot):
        disk.replace_file(f"{FOLDER}/{each.file_name}", encode_snapshot(Snapshot(each, 0), (), now_ms=0))
    if left is None:
        disk.remove(path(0))
    else:
        disk.replace_file(path(0), left)
    disk.open(path(0).replace(".log", ".index"), create=True)
    settings = log_settings(segment_bytes=1 << 20, segment_ms=1 << 40)
    opened = MetadataLog.open(disk, "/data", settings, rng=random.Random(1), now_ms=0)
    assert (opened.log.log_start_offset, opened.log.log_end_offset) == (6, 10)
    assert [header.base_offset for header, _ in opened.batches_between(6, 10)] == [6, 8]
    if left is not None:
        assert "has its records: the log begins at offset 6" in caplog.text
        assert opened.snapshots == [snapshot]
        assert not opened.needs_snapshot(8, 2)


@pytest.mark.parametrize("how", list(Crash))
def test_it_may_be_dropped_in_several_goes(how):
    """A process ends, or the power, at any step of it."""
    settings = log_settings(segment_bytes=1 << 20, segment_ms=1 << 40)
    ended = 0
    while True:
        disk = disk_with(FIRST[:-1], SECOND)
        disk.open(path(0).replace(".log", ".index"), create=True)
        for each in (SnapshotId(2, 1), SnapshotId(6, 2)):
            data = encode_snapshot(Snapshot(each, 0), (), now_ms=0)
            disk.replace_file(f"{FOLDER}/{each.file_name}", data)
        for name in disk.list(FOLDER):
            disk.open(f"{FOLDER}/{name}").sync()
        for folder in ("/", "/data", FOLDER):
            disk.sync_folder(folder)
        after = []
        disk.faults.stop_after(ended, lambda disk=disk, after=after: after.append(disk.crash(how)))
        try:
            MetadataLog.open(disk, "/data", settings, rng=random.Random(1), now_ms=0)
            break
        except ProcessEndedError:
            ended += 1
        opened = MetadataLog.open(after[0], "/data", settings, rng=random.Random(1), now_ms=0)
        assert (opened.log.log_start_offset, opened.log.log_end_offset) == (6, 10)
    assert ended > 8


def test_a_segment_that_goes_on_behind_the_snapshot_is_refused_as_ever():
    flipped = bytearray(FIRST)
    flipped[100] ^= 1
    assert is_refused(disk_with(bytes(flipped), SECOND), [SnapshotId(5, 2)])
    assert not is_refused(disk_with(bytes(flipped), SECOND), [SnapshotId(6, 2)])
