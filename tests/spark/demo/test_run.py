"""The main job in its short form, with the real Spark: it ends by itself, and nothing is missing."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.spark.demo.feeds import ERRORS, JOINED, LOGS, SESSIONS, TABLE, USERS
from headrace.spark.demo.outcome import committed_files, table_column

HEADRACE = Path(sys.executable).with_name("headrace")


@pytest.mark.timeout(500)
def test_it_ends_by_itself_and_accounts_for_every_record(tmp_path: Path) -> None:
    """With a node and the Spark program killed on the way."""
    command = [HEADRACE, "demo", "--for", "12s", "--rate", "100", "--port", "0", "--seed", "1"]
    done = subprocess.run(
        [*command, "--data", str(tmp_path / "data")], capture_output=True, text=True, timeout=450
    )
    assert done.returncode == 0, done.stdout + done.stderr
    title, _, *rows, verdict = done.stdout.splitlines()
    assert "account" in title
    assert verdict == "none missing, none wrong, none twice"
    figures = {row.split()[0]: [int(word) for word in row.split()[-5:]] for row in rows}
    assert list(figures) == [LOGS, SESSIONS, USERS, ERRORS, JOINED, TABLE]
    assert all(into == out > 0 and spoiled == [0, 0, 0] for into, out, *spoiled in figures.values())
    # The same once more, from the table itself.
    (run,) = (tmp_path / "data").glob("run-*")
    numbers = table_column(run / TABLE, "number").to_pylist()
    assert sorted(numbers) == list(range(figures[LOGS][0]))
    assert "Spark: starting Spark's JVM" in done.stderr
    assert "a node was killed" in done.stderr
    assert "Spark was killed" in done.stderr


def test_files_of_batches_that_did_not_finish_are_no_part_of_the_table(tmp_path: Path) -> None:
    """Batches 0 to 2 are in a compact entry, 3 has an entry of its own; the file of batch 4 has none."""
    entries = tmp_path / "_spark_metadata"
    entries.mkdir()
    for name, batches in {"0": [0], "1": [1], "2.compact": [0, 1, 2], "3": [3]}.items():
        lines = [json.dumps({"path": f"file:///t/part%20{number}", "size": 1}) for number in batches]
        (entries / name).write_text("\n".join(["v1", *lines]))
    (entries / ".3.tmp").write_text("v1\nhalf")
    (tmp_path / "part 4").write_text("")
    assert committed_files(tmp_path) == [Path(f"/t/part {number}") for number in range(4)]
    assert len(table_column(tmp_path / "empty", "number")) == 0
