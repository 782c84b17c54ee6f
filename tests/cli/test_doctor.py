"""`headrace doctor` names what is wrong and what to do, in 80 columns, and ends with 1 where something is."""

import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from crc32c import crc32c

from headrace.base.ids import TopicPartition
from headrace.cli.main import cli
from headrace.clients import Admin, Producer
from headrace.log.checkpoints import encode_aborted, encode_offsets
from headrace.log.transaction_index import AbortedTxn
from headrace.raft.snapshots import Snapshot, SnapshotId, encode_snapshot
from headrace.records.batch import Record, batches, build_batch
from headrace.testing import Cluster
from tests.node.test_descriptors import with_descriptors


def doctor(*words: str) -> Result:
    return CliRunner().invoke(cli, ["doctor", *words])


@pytest.fixture(scope="module")
def healthy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a node that was well, and stopped in order."""
    folder = tmp_path_factory.mktemp("healthy") / "data"
    with Cluster() as cluster:
        with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
            admin.create_topic("t")
        with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
            producer.send("t", b"x" * 1000)
        told = doctor("-b", cluster.bootstrap_servers)
        assert (told.exit_code, told.output) == (
            0,
            f"the cluster at {cluster.bootstrap_servers}: nothing is wrong\n",
        )
        [node_id] = cluster.node_ids
        cluster.stop_node(node_id)
        shutil.copytree(cluster._configs[node_id].log_dirs[0], folder)
    return folder


@pytest.fixture
def data(healthy: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(healthy, tmp_path / "data"))


def test_a_healthy_folder_is_said_to_be(data: Path) -> None:
    told = doctor("--data", str(data))
    assert told.exit_code == 0, told.output
    assert "nothing is wrong" in told.output


@pytest.mark.parametrize(
    ("file", "at", "level"),
    [
        ("meta.properties", 0, "error"),
        ("bootstrap.checkpoint", 30, "error"),
        ("__cluster_metadata-0/quorum-state", 0, "error"),
        ("__cluster_metadata-0/00000000000000000000.log", 80, "error"),
        ("recovery-point-offset-checkpoint", 0, "warning"),
        ("t-0/00000000000000000000.log", 200, "warning"),
        ("t-0/partition.metadata", 0, "warning"),
    ],
)
def test_damage_is_named_with_its_file_and_the_way_out(data: Path, file: str, at: int, level: str) -> None:
    content = bytearray((data / file).read_bytes())
    content[at] ^= 0xFF
    (data / file).write_bytes(content)
    found = json.loads(doctor("--data", str(data), "--json").output)
    assert [each["level"] for each in found] == [level]
    assert f"{data}/{file}" in found[0]["where"] + found[0]["what"]
    assert found[0]["advice"]
    told = doctor("--data", str(data))
    assert told.exit_code == int(level == "error")
    assert all(len(line) <= 80 or "/" in line for line in told.output.splitlines())


def test_settings_without_effect_and_folders_that_are_missing_are_named(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text(f"log.dirs={tmp_path}/nowhere\nnum.network.threads=7\n")
    told = doctor("--config", str(file))
    assert told.exit_code == 1
    text = " ".join(told.output.split())
    assert "nowhere: the folder is not there" in text
    assert "num.network.threads: it has no effect" in text


@pytest.mark.parametrize("name", ["00000000000000000001.snapshot", "leader-epoch-checkpoint"])
def test_what_the_next_start_finds_again_is_a_warning(data: Path, name: str) -> None:
    (data / "t-0" / name).write_bytes(b"nothing")
    [found] = json.loads(doctor("--data", str(data), "--json").output)
    assert (found["level"], found["where"]) == ("warning", f"{data}/t-0/{name}")
    assert "restart the node" in found["advice"]


def test_records_from_the_future_are_named(data: Path) -> None:
    log = data / "t-0/00000000000000000000.log"
    in_an_hour = int(time.time() * 1000) + 3_600_000
    log.write_bytes(build_batch([Record(value=b"x", timestamp=in_an_hour)]))
    [found] = json.loads(doctor("--data", str(data), "--json").output)
    assert found["what"] == "its newest record is from the future"
    assert "NTP" in found["advice"]


def test_a_disk_that_is_full_is_named(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil._ntuple_diskusage  # type: ignore[attr-defined]  # what disk_usage answers
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: usage(10 << 30, (10 << 30) - 4096, 4096))
    told = doctor("--data", str(data))
    assert told.exit_code == 1
    assert "0 MiB of 10240 MiB are free" in " ".join(told.output.split())


def test_few_descriptors_are_named(data: Path) -> None:
    """In a process of its own: its limit cannot be raised again."""
    command = [str(Path(sys.executable).with_name("headrace")), "doctor", "--data", str(data)]
    done = subprocess.run(with_descriptors(512, 512, command), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    text = " ".join(done.stdout.split())
    assert "may open 512 files and connections" in text
    assert "ulimit -Hn" in text


def test_settings_that_no_node_starts_with_are_a_finding(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("listeners=PLAINTEXT://:9092,SSL://:9093\nconfluent.x=1\n")
    found = json.loads(doctor("--config", str(file), "--json").output)
    assert [each["level"] for each in found] == ["warning", "error"]
    assert "asks for SSL, which needs a key and its certificate" in found[1]["what"]


def findings(data: Path) -> list[dict[str, str]]:
    found: list[dict[str, str]] = json.loads(doctor("--data", str(data), "--json").output)
    return found


def test_a_metadata_log_that_lost_its_end_is_told_from_a_torn_one(data: Path) -> None:
    log = data / "__cluster_metadata-0/00000000000000000000.log"
    log.write_bytes(log.read_bytes()[:400])
    (found,) = findings(data)
    assert found["level"] == "error"
    assert "had committed records up to" in found["what"]


def batches_of(offsets: range) -> bytes:
    records = {offset: Record(value=b"x" * 20, timestamp=1) for offset in offsets}
    return b"".join(build_batch([record], base_offset=offset) for offset, record in records.items())


def write_checkpoint(data: Path, name: str, offset: int) -> None:
    (data / name).write_bytes(encode_offsets({TopicPartition("t", 0): offset}))


@pytest.fixture
def segments(data: Path) -> list[Path]:
    """Of a log of two closed segments and an active one, of four records each."""
    paths = [data / f"t-0/{base:020}.log" for base in (0, 4, 8)]
    for base, path in zip((0, 4, 8), paths, strict=True):
        path.write_bytes(batches_of(range(base, base + 4)))
        path.with_suffix(".index").touch()
    for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
        write_checkpoint(data, name, 12)
    assert findings(data) == []
    return paths


def test_a_segment_that_ends_too_early_is_named_unless_compaction_was_there(
    data: Path, segments: list[Path]
) -> None:
    segments[1].write_bytes(batches_of(range(4, 6)))
    (found,) = findings(data)
    assert (found["level"], found["where"]) == ("error", str(segments[1]))
    assert found["what"] == "it ends too early: records are missing from offset 6 to 7"
    write_checkpoint(data, "cleaner-offset-checkpoint", 8)
    assert findings(data) == []


def test_a_segment_that_is_gone_is_named(data: Path, segments: list[Path]) -> None:
    segments[0].unlink()
    (found,) = findings(data)
    assert (found["level"], found["where"]) == ("error", str(segments[0]))
    assert "only 00000000000000000000.index is here" in found["what"]
    segments[0].with_suffix(".log.deleted").touch()
    assert findings(data) == [], "somebody is deleting it"


def test_a_log_that_ends_before_what_it_was_known_to_reach_is_named(data: Path, segments: list[Path]) -> None:
    segments[2].write_bytes(batches_of(range(8, 10)))
    (found,) = findings(data)
    assert (found["level"], found["where"]) == ("error", str(data / "t-0"))
    assert found["what"] == "its log ends at offset 10, and was known to reach 12"
    write_checkpoint(data, "log-start-offset-checkpoint", 12)
    assert findings(data) == [], "what is missing was deleted"


def test_room_that_was_reserved_is_no_damage(data: Path, segments: list[Path]) -> None:
    segments[2].write_bytes(segments[2].read_bytes() + bytes(500))
    assert findings(data) == []
    segments[2].write_bytes(batches_of(range(8, 12)) + bytes(500) + b"x")
    (found,) = findings(data)
    assert (found["level"], found["where"]) == ("warning", str(segments[2]))


def test_zeros_in_a_closed_segment_are_damage(data: Path, segments: list[Path]) -> None:
    write_checkpoint(data, "cleaner-offset-checkpoint", 8)
    segments[0].write_bytes(bytes(500))
    (found,) = findings(data)
    assert (found["level"], found["where"]) == ("error", str(segments[0]))


def test_a_partitions_folder_that_is_gone_is_named(data: Path, segments: list[Path]) -> None:
    (data / "t-0").rename(data / "t-0.0123456789abcdef0123456789abcdef-delete")
    assert findings(data) == [], "somebody is deleting it"
    shutil.rmtree(data / "t-0.0123456789abcdef0123456789abcdef-delete")
    (found,) = findings(data)
    assert (found["level"], found["where"]) == ("error", str(data / "t-0"))
    assert "its log had at least 12 offsets" in found["what"]


@pytest.mark.parametrize("name", ["replication-offset-checkpoint", "log-start-offset-checkpoint"])
def test_a_checkpoint_that_is_gone_is_missed(data: Path, name: str) -> None:
    (data / name).unlink()
    (found,) = findings(data)
    assert (found["level"], found["where"]) == ("warning", str(data / name))
    assert "without it, " in found["advice"]


def test_a_folder_that_has_lost_its_name_is_told_from_one_that_is_not_formatted(
    data: Path, tmp_path: Path
) -> None:
    (data / "meta.properties").unlink()
    (found,) = findings(data)
    assert (found["level"], found["where"]) == ("error", str(data / "meta.properties"))
    empty = tmp_path / "empty"
    empty.mkdir()
    (found,) = findings(empty)
    assert (found["level"], found["what"]) == ("warning", "it is not formatted")


def test_a_part_of_the_metadata_log_that_a_snapshot_has_is_a_warning(data: Path) -> None:
    """And the rest, which only the log has, is looked at all the same."""
    folder = data / "__cluster_metadata-0"
    log = folder / f"{0:020}.log"
    content = log.read_bytes()
    at = [position for position, _ in batches(content)][2]
    offset = int.from_bytes(content[at : at + 8], "big")
    (folder / f"{offset:020}.log").write_bytes(content[at:])
    log.write_bytes(content[: at - 5])
    (found,) = findings(data)
    assert "had committed records up to" in found["what"]
    snapshot = Snapshot(SnapshotId(offset, 1), 0)
    (folder / snapshot.id.file_name).write_bytes(encode_snapshot(snapshot, (), now_ms=0))
    half_made = folder / (SnapshotId(offset + 1, 1).file_name + ".tmp")
    half_made.touch()
    files = {path: path.stat().st_mtime_ns for path in data.rglob("*")}
    (found,) = findings(data)
    assert (found["level"], found["where"]) == ("warning", str(log))
    assert "a snapshot has the same records" in found["advice"]
    assert files == {path: path.stat().st_mtime_ns for path in data.rglob("*")}, "nothing is changed"


def test_a_vote_that_is_gone_is_missed(data: Path) -> None:
    (data / "__cluster_metadata-0/quorum-state").unlink()
    (found,) = findings(data)
    assert found["where"].endswith("__cluster_metadata-0/quorum-state")
    assert "for whom this node has voted" in found["what"]


def test_a_transaction_index_is_held_against_its_checksum(data: Path) -> None:
    folder = data / "t-0"
    entries = b"".join(each.encode() for each in (AbortedTxn(1, 0, 5, 6), AbortedTxn(1, 7, 9, 10)))
    index = folder / "00000000000000000000.txnindex"
    index.write_bytes(entries)
    (folder / ".headrace_txnindexes").write_bytes(encode_aborted({0: (2, crc32c(entries))}))
    assert findings(data) == []
    index.write_bytes(entries[:-1] + b"!")
    (found,) = findings(data)
    assert found["where"] == str(index)
    index.unlink()
    assert findings(data)[0]["where"] == str(index)
    (folder / ".headrace_txnindexes").write_bytes(b"nonsense")
    assert findings(data)[0]["where"].endswith(".headrace_txnindexes")
