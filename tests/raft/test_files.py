"""The bytes of the quorum's files: batches, snapshots, voters, the vote."""

from pathlib import Path
from random import Random

import pytest

from headrace.base.errors import InvalidBytesError
from headrace.log.checkpoints import unseal
from headrace.log.system_disk import SystemDisk
from headrace.raft import records
from headrace.raft.messages import ElectionState
from headrace.raft.metadata_log import make_durable_folder, read_bootstrap, renew_segments
from headrace.raft.quorum_state import decode_state, encode_state, read_state
from headrace.raft.records import by_epoch, control_batch, data_batches, read_control, read_data
from headrace.raft.snapshots import (
    Snapshot,
    SnapshotId,
    decode_snapshot,
    encode_snapshot,
    list_snapshots,
    remove_half_made,
)
from headrace.raft.voters import Voter, VoterSet
from headrace.records.batch import Record, build_batch, build_control_batch, read_header
from headrace.testing.disk import Crash, VirtualDisk
from headrace.wire.codec import encode
from headrace.wire.record_frames import ApiMessageAndVersion, encode_metadata_record
from headrace.wire.schemas.metadata_records import ConfigRecord
from headrace.wire.schemas.quorum_records import (
    LeaderChangeMessage,
    LeaderChangeMessageVoter,
    SnapshotFooterRecord,
)
from tests.raft.building import ALONE, topics

ID = SnapshotId(7, 2)


def test_a_vote_is_kept_in_both_of_kafkas_forms() -> None:
    state = ElectionState(5, leader_id=-1, voted_id=3, voted_directory_id=b"v" * 16)
    new = encode_state(state, kraft_version=1, voters=[3])
    assert unseal(new).strip() == (
        b'{"leaderId":-1,"leaderEpoch":5,"votedId":3,'
        b'"votedDirectoryId":"dnZ2dnZ2dnZ2dnZ2dnZ2dg","data_version":1}'
    )
    assert decode_state(new) == state
    old = encode_state(state, kraft_version=0, voters=[3, 1])
    assert unseal(old).strip() == (
        b'{"clusterId":"","leaderId":-1,"leaderEpoch":5,"votedId":3,"appliedOffset":0,'
        b'"currentVoters":[{"voterId":1},{"voterId":3}],"data_version":0}'
    )
    assert decode_state(old) == ElectionState(5, leader_id=-1, voted_id=3)


def test_no_digit_of_a_vote_flips_unnoticed() -> None:
    data = encode_state(ElectionState(15, leader_id=-1, voted_id=3), kraft_version=1, voters=[3])
    for at in range(8 * len(data)):
        flipped = bytearray(data)
        flipped[at // 8] ^= 1 << at % 8
        with pytest.raises(InvalidBytesError, match="quorum-state"):
            decode_state(bytes(flipped))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b"[1]",
        b'{"data_version":1}',
        b'{"data_version":9,"leaderId":1,"leaderEpoch":1,"votedId":1}',
    ],
)
def test_a_damaged_vote_is_no_vote_to_build_on(data: bytes) -> None:
    with pytest.raises(InvalidBytesError, match="quorum-state"):
        decode_state(data)
    disk = VirtualDisk()
    disk.make_folder("/q")
    assert read_state(disk, "/q") == ElectionState(), "a node that never voted begins at 0"
    disk.replace_file("/q/quorum-state", data)
    with pytest.raises(InvalidBytesError):
        read_state(disk, "/q")


def test_voters_come_from_records_and_settings() -> None:
    assert VoterSet.from_record(ALONE.to_record()) == ALONE
    assert VoterSet([]) != ALONE
    assert "localhost" in repr(ALONE)
    voters = VoterSet.from_setting(["1@a:9093", "2@[::1]:9094"], "CTRL")
    assert voters.ids == {1, 2}
    assert voters.by_id[2] == Voter(2, bytes(16), {"CTRL": ("::1", 9094)})
    for wrong in ("1", "1@a", "x@a:1", "1@a:b", "@a:1"):
        with pytest.raises(ValueError, match="id@host:port"):
            VoterSet.from_setting([wrong])


def test_large_changes_are_split_into_batches_below_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    assert records.BATCH_BYTES_MAX == 8 * 1024 * 1024, "Kafka's own bound"
    monkeypatch.setattr(records, "BATCH_BYTES_MAX", 30_000)
    entries = [
        ApiMessageAndVersion(ConfigRecord(resource_name="t", name=str(n), value="x" * 10_000), 0)
        for n in range(7)
    ]
    batches = list(data_batches(entries, now_ms=5))
    assert [len(part) for _, part in batches] == [2, 2, 2, 1]
    assert [record.name for batch, _ in batches for record in read_data(batch)] == list("0123456")
    assert list(data_batches([], now_ms=5)) == []


def test_control_records_are_read_in_the_version_they_say() -> None:
    voter = LeaderChangeMessageVoter(voter_id=3, voter_directory_id=b"d" * 16)
    change = LeaderChangeMessage(version=1, leader_id=3, voters=[voter], granting_voters=[voter])
    batch = build_control_batch(2, encode(change, 1), timestamp_ms=1)
    assert read_control(batch) == [change]
    unknown = build_control_batch(99, b"\0\0", timestamp_ms=1)  # type: ignore[arg-type]
    assert read_control(unknown) == [], "a later Kafka's kind is passed over"
    with pytest.raises(InvalidBytesError, match="without a value"):
        read_data(build_batch([Record(timestamp=1)]))


def snapshot_bytes(kraft_version: int = 1) -> bytes:
    snapshot = Snapshot(ID, timestamp_ms=99, kraft_version=kraft_version, voters=ALONE)
    return encode_snapshot(snapshot, topics(["a", "b"]), now_ms=100)


def test_a_snapshot_says_who_voted_when_the_quorum_keeps_that_itself() -> None:
    new = decode_snapshot(ID, snapshot_bytes())
    assert (new.timestamp_ms, new.kraft_version, new.voters) == (99, 1, ALONE)
    assert new.records == [entry.record for entry in topics(["a", "b"])]
    old = decode_snapshot(ID, snapshot_bytes(kraft_version=0))
    assert (old.kraft_version, old.voters, len(old.records)) == (0, None, 2)
    header = read_header(snapshot_bytes())
    assert (header.base_offset, header.leader_epoch, header.is_control) == (0, 2, True)


def test_half_a_snapshot_is_none() -> None:
    data = snapshot_bytes()
    footer = bytes(control_batch([SnapshotFooterRecord()], now_ms=1))
    flipped = bytearray(data)
    flipped[100] ^= 1
    for wrong in (b"", data[:-1], data[: -len(footer)], bytes(flipped), data + footer, footer):
        with pytest.raises(InvalidBytesError, match=ID.file_name):
            decode_snapshot(ID, wrong)


def test_snapshots_are_found_by_their_names_and_leftovers_removed() -> None:
    disk = VirtualDisk()
    disk.make_folder("/q")
    names = (
        SnapshotId(30, 4).file_name,
        ID.file_name,
        "quorum-state",
        ID.file_name + ".part",
        "x.checkpoint",
    )
    for name in names:
        disk.replace_file(f"/q/{name}", b"1")
    assert list_snapshots(disk, "/q") == [ID, SnapshotId(30, 4)]
    remove_half_made(disk, "/q")
    assert list_snapshots(disk, "/q") == [ID, SnapshotId(30, 4)]
    assert ID.file_name + ".part" not in disk.list("/q")
    assert ID.file_name == "00000000000000000007-0000000002.checkpoint"


def test_folders_keep_their_names_in_a_power_cut() -> None:
    disk = VirtualDisk()
    make_durable_folder(disk, "/a/b/c")
    make_durable_folder(disk, "/a/b/c")
    assert disk.crash(Crash.POWER_CUT).is_folder("/a/b/c")


def test_segments_are_renewed_from_where_no_snapshot_stands_for_them() -> None:
    disk = VirtualDisk()
    make_durable_folder(disk, "/q")
    for base in (0, 5, 9):
        file = disk.open(f"/q/{base:020}.log", create=True)
        file.write(0, [b"unsynced"])
    disk.open("/q/00000000000000000009.log.tmp", create=True)
    renew_segments(disk, "/q", 7)
    after = disk.crash(Crash.POWER_CUT)
    kept = {name for name in after.list("/q") if after.read_file(f"/q/{name}") == b"unsynced"}
    assert kept >= {"00000000000000000005.log", "00000000000000000009.log"}
    assert not any(name.endswith(".tmp") for name in after.list("/q"))


def test_a_data_batch_is_what_the_general_builder_makes_of_the_same_records() -> None:
    rng = Random(1)
    for count in (1, 2, 300, 9000):
        entries = [
            ApiMessageAndVersion(
                ConfigRecord(resource_name="r" * rng.choice((1, 60, 8000 if count < 9 else 2))), 0
            )
            for _ in range(count)
        ]
        values = [encode_metadata_record(entry.record, entry.version) for entry in entries]
        general = build_batch(Record(timestamp=12345, value=value) for value in values)
        assert [batch for batch, _ in data_batches(entries, now_ms=12345)] == [general]


def _batch(offset: int, epoch: int) -> bytes:
    return bytes(build_batch([Record(value=b"v")], base_offset=offset, leader_epoch=epoch))


def test_fetched_batches_are_cut_where_an_epoch_begins_and_behind_its_first() -> None:
    """So that each can be made durable before the next one: damage is told from a torn end by that."""

    def parts(data: bytes, epoch: int) -> list[bytes]:
        return [bytes(part) for part in by_epoch(data, epoch)]

    first, second, third = _batch(0, 4) + _batch(1, 4), _batch(2, 5), _batch(3, 7)
    rest = _batch(4, 7) + _batch(5, 7)
    assert parts(first + second + third + rest, 4) == [first, second, third, rest]
    assert parts(third + rest, 7) == [third + rest]
    assert parts(third + rest, 5) == [third, rest]
    assert parts(first + second[:20], 4) == [first + second[:20]]


@pytest.mark.parametrize("data", [b"", b"{", b'{"leaderId":1}', b'{"data_version":7}'])
def test_a_damaged_vote_is_told_with_its_file_and_the_way_out(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "quorum-state").write_bytes(data)
    with pytest.raises(InvalidBytesError) as told:
        read_state(SystemDisk(), str(tmp_path))
    assert str(told.value).startswith(f"{tmp_path}/quorum-state is damaged: quorum-state h")
    assert "Bring it back from a copy" in str(told.value)
    assert "Error(" not in str(told.value)


@pytest.mark.parametrize("data", [b"", b"x" * 200])
def test_a_damaged_bootstrap_is_told_by_its_own_name(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "bootstrap.checkpoint").write_bytes(data)
    with pytest.raises(InvalidBytesError) as told:
        read_bootstrap(SystemDisk(), str(tmp_path))
    assert str(told.value).startswith(f"{tmp_path}/bootstrap.checkpoint is damaged: ")
    assert "0000000000" not in str(told.value)
    assert "Bring it back from a copy" in str(told.value)
