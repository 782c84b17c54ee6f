"""The demonstration's command: its views, how it ends, and its exit code.

The Spark program is played here by scripts of a few lines, which do its part badly; tests/spark has the
real one.
"""

import io
import os
import signal
import subprocess
import sys
from pathlib import Path

import click
import pytest
from rich.console import Console

from headrace.cli.demo_view import PlainView, draw
from headrace.cli.options import parse_duration_ms
from headrace.clients import ConsumedRecord
from headrace.spark.demo.feeds import ERRORS, JOINED, LOGS, TABLE
from headrace.spark.demo.picture import Picture

# Says that it is done with everything, and has done nothing.
LAZY = """
import json, sys
print(json.dumps({"kind": "step", "text": "pretending"}), flush=True)
sys.stdin.readline()
print(json.dumps({"kind": "done"}), flush=True)
"""
BROKEN = "import sys; sys.exit('Java is out of order')"
COMMAND = """
import sys
import headrace.spark.demo.job_process as job_process
from headrace.cli.main import main
job_process.JOB = (sys.executable, "-c", sys.argv.pop(1))
main()
"""


def _demo(job: str, *words: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", COMMAND, job, "demo", "--nodes", "1", "--calm", "--port", "0", *words]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_a_wrong_account_is_exit_code_1() -> None:
    demo = _demo(LAZY, "--for", "1s", "--rate", "200")
    account, said = demo.communicate(timeout=100)
    assert demo.returncode == 1, said
    assert "THE ACCOUNT IS WRONG" in account
    rows = {line.split()[0]: line.split()[-5:] for line in account.splitlines() if line.split()[-1:] == ["0"]}
    assert rows[LOGS][0] == rows[LOGS][1]  # all that was written is in the feed
    for name in (JOINED, TABLE):  # and nothing came out
        into, out, missing, wrong, again = map(int, rows[name])
        assert (out, missing, wrong, again) == (0, into, 0, 0)
        assert into > 0


def test_a_spark_program_that_breaks_is_told_with_its_last_words() -> None:
    demo = _demo(BROKEN, "--for", "10m")
    account, said = demo.communicate(timeout=100)
    assert demo.returncode == 1
    assert "THE ACCOUNT IS WRONG" in account
    assert "Java is out of order" in said


def test_ctrl_c_leads_to_the_account_and_leaves_nothing_behind(tmp_path: Path) -> None:
    demo = _demo(LAZY, "--data", str(tmp_path / "data"))
    assert demo.stderr is not None
    for line in demo.stderr:
        if "pretending" in line:
            break
    children = Path(f"/proc/{demo.pid}/task/{demo.pid}/children").read_text().split()
    demo.send_signal(signal.SIGINT)
    account, said = demo.communicate(timeout=100)
    assert demo.returncode == 1
    assert "stopping" in said
    assert "The account" in account
    assert len(children) == 2
    assert not any(os.path.exists(f"/proc/{child}") for child in children)
    assert (tmp_path / "data/cluster").is_dir()


def _picture() -> Picture:
    picture = Picture("127.0.0.1:9092", phase="running", elapsed_ms=12_000)
    picture.note_feed(LOGS, 1000, "3/3")
    picture.elapsed_ms = 14_000
    picture.note_feed(LOGS, 3000, "2/3")
    return picture


def _batch(picture: Picture, query: str, ends: dict[str, dict[str, int]]) -> None:
    said = {"query": query, "batch": 7, "rows": 1, "batch_ms": 345, "state_rows": 21, "ends": [ends]}
    picture.note_progress(said, {topic: dict.fromkeys(places, 100) for topic, places in ends.items()})


def _drawn(picture: Picture) -> str:
    console = Console(file=io.StringIO(), width=140)
    console.print(draw(picture))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_the_start_of_spark_is_shown() -> None:
    picture = _picture()
    picture.spark_step = "planning the queries"
    shown = _drawn(picture)
    assert "planning the queries, 14 s" in shown
    assert "2/3" in shown
    assert "1,000" in shown  # records a second


def test_queries_and_what_comes_out_are_shown() -> None:
    picture = _picture()
    picture.spark_step = None
    _batch(picture, TABLE, {LOGS: {"0": 1100, "1": 600}, "@start": {}})
    picture.note_lag()
    error = b'{"service": "cart", "minute_ms": 1700000040000, "errors": 9}'
    session = b'{"session": 4, "user": "u-1", "name": "Ada", "plan": "pro", "country": "DE", "device": "ios"}'
    for topic, value in ((ERRORS, error), (JOINED, session)):
        picture.outcome.take(ConsumedRecord(topic, 0, 0, 0, None, value, ()))
    shown = _drawn(picture)
    for text in ("1,500", "345 ms", "21 rows", "cart", "22:14 UTC", "Ada (u-1)"):
        assert text in shown
    assert picture.queries[TABLE].lag == 1500
    assert picture.queries[ERRORS].lag is None


def test_the_plain_view_has_a_line_every_other_second(capsys: pytest.CaptureFixture[str]) -> None:
    view, picture = PlainView(), _picture()
    for elapsed_ms in (14_000, 14_500, 15_900, 16_000):
        picture.elapsed_ms = elapsed_ms
        view.update(picture)
    lines = capsys.readouterr().err.splitlines()
    assert [line.split()[0] for line in lines] == ["14", "16"]
    assert "service-logs 3000 (1000/s, in sync 2/3)" in lines[0]


def test_durations() -> None:
    given = ("500ms", "60s", "90", "1.5m", "2h")
    assert [parse_duration_ms(text, "--for") for text in given] == [500, 60_000, 90_000, 90_000, 7_200_000]
    with pytest.raises(click.BadParameter, match="no duration"):
        parse_duration_ms("a while", "--for")
