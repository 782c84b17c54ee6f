"""`headrace log describe`: what the files of log directories tell, and which logs compaction gave up."""

import json
from pathlib import Path

from click.testing import CliRunner

from headrace.base.ids import TopicPartition
from headrace.cli.main import cli
from headrace.log.checkpoints import encode_offsets
from headrace.log.compaction.drivers.uncleanable_partitions import (
    UNCLEANABLE,
    UncleanablePartition,
    encode_uncleanable,
    read_uncleanable,
)
from headrace.testing.disk import VirtualDisk


def run(*words: str, code: int = 0) -> str:
    result = CliRunner().invoke(cli, ["log", "describe", *words])
    assert result.exit_code == code, result.output
    return result.output


def folder_with(root: Path, given_up: dict[TopicPartition, UncleanablePartition]) -> str:
    for name, sizes in {"users-0": {0: 10, 7: 5}, "orders-1": {3: 4}, "gone-0.ab12-delete": {0: 1}}.items():
        (root / name).mkdir(parents=True)
        for offset, size in sizes.items():
            (root / name / f"{offset:020}.log").write_bytes(b"x" * size)
            (root / name / f"{offset:020}.index").write_bytes(b"")
        (root / name / f"{99:020}.log.deleted").write_bytes(b"x" * 50)
    (root / "cleaner-offset-checkpoint").write_bytes(encode_offsets({TopicPartition("users", 0): 7}))
    if given_up:
        (root / UNCLEANABLE).write_bytes(encode_uncleanable(given_up))
    return str(root)


def test_logs_and_how_far_compaction_has_been(tmp_path: Path) -> None:
    folder = folder_with(tmp_path / "data", {})
    lines = [line.split() for line in run(folder).splitlines()]
    assert [line[0] for line in lines[1:]] == ["orders-1", "users-0"]
    assert lines[2][1:5] == ["2", "15", "0", "7"]
    assert json.loads(run(folder, "--json"))[1] == {
        "folder": folder,
        "partition": {"topic": "users", "partition": 0},
        "segments": 2,
        "size_bytes": 15,
        "start": 0,
        "cleaner_checkpoint": 7,
        "uncleanable": None,
    }
    assert "there is no such log" in run(folder, "--uncleanable")


def test_a_log_that_compaction_gave_up_is_told_with_the_reason_and_what_to_do(tmp_path: Path) -> None:
    why = "/data/users-0/00000000000000000000.log: byte 61 has a batch whose CRC does not match"
    folder = folder_with(
        tmp_path / "data", {TopicPartition("users", 0): UncleanablePartition(1_700_000_000_000, why)}
    )
    shown = run(folder, code=1)
    assert f"users-0 cannot be compacted since 2023-11-14 22:13:20 UTC: {why}" in shown
    assert "headrace log dump FILE" in shown
    (only,) = json.loads(run(folder, "--uncleanable", "--json", code=1))
    assert only["uncleanable"] == {"since_ms": 1_700_000_000_000, "why": why}


def test_a_file_that_is_none_of_ours(tmp_path: Path) -> None:
    folder = folder_with(tmp_path / "data", {})
    (tmp_path / "data" / UNCLEANABLE).write_bytes(b"[1]")
    assert "cannot be read" in run(folder, code=1)
    assert "No such file" in run(str(tmp_path / "nothing"), code=1)


def test_no_file_is_no_log() -> None:
    assert read_uncleanable(VirtualDisk(), "/data") == {}
