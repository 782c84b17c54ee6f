"""The demonstration's command: its views, how it ends, and its exit code.

The Spark program is played here by scripts of a few lines, which do its part badly; tests/spark has the
real one.
"""

import contextlib
import io
import os
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import click
import pytest
from rich.console import Console

from headrace.cli.demo import METRICS_ABOVE, running_nodes
from headrace.cli.demo_console import MeteredView, edges
from headrace.cli.demo_view import PlainView, draw
from headrace.cli.options import parse_duration_ms
from headrace.clients import ConsumerRecord
from headrace.spark.demo.demonstration import NODE, SPARK, Harms
from headrace.spark.demo.feeds import ERRORS, JOINED, LOGS, TABLE
from headrace.spark.demo.picture import Picture
from headrace.spark.pipeline.watch import PipelineWatch
from headrace.transport.system_network import free_ports

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
import headrace.spark.demo.demonstration as job_process
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
    assert len(children) == 3  # the nodes, the console and the Spark program
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


def _drawn(picture: Picture, width: int = 140, height: int = 50) -> str:
    console = Console(file=io.StringIO(), width=width, height=height)
    console.print(draw(picture, width=width, height=height))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_the_start_of_spark_is_shown() -> None:
    picture = _picture()
    picture.spark_step = "planning the queries"
    shown = _drawn(picture)
    assert "planning the queries, 14 s" in shown
    assert "2/3" in shown
    assert "1,000" in shown  # records a second


def _busy_picture() -> Picture:
    picture = _picture()
    picture.spark_step = None
    _batch(picture, TABLE, {LOGS: {"0": 1100, "1": 600}, "@start": {}})
    picture.note_lag()
    error = b'{"service": "cart", "minute_ms": 1700000040000, "errors": 9}'
    session = b'{"session": 4, "user": "u-1", "name": "Ada", "plan": "pro", "country": "DE", "device": "ios"}'
    for topic, value in ((ERRORS, error), (JOINED, session)):
        picture.outcome.take(ConsumerRecord(topic, 0, 0, 0, None, value, ()))
    return picture


def test_queries_and_what_comes_out_are_shown() -> None:
    picture = _busy_picture()
    shown = _drawn(picture)
    for text in ("1,500", "345 ms", "21 rows", "cart", "22:14 UTC", "Ada (u-1)"):
        assert text in shown
    assert picture.queries[TABLE].lag == 1500
    assert picture.queries[ERRORS].lag is None


@pytest.mark.parametrize(("width", "height"), [(80, 24), (80, 16), (100, 30), (140, 24), (200, 60)])
def test_nothing_is_cropped(width: int, height: int) -> None:
    """At 80x24 the lower half was cut off, and lines that were too long were broken."""
    picture = _busy_picture()
    picture.address = "127.0.0.1:9092,127.0.0.1:9093,127.0.0.1:9094"
    picture.console = "http://127.0.0.1:8080/"
    picture.news = [f"{second} s: a node was killed (kill -9): it comes back" for second in (30, 40)]
    for number in range(10):
        value = b'{"session": %d, "user": "u", "name": "N", "plan": "p", "country": "DE", "device": "d"}'
        picture.outcome.take(ConsumerRecord(JOINED, 0, 0, 0, None, value % number, ()))
    lines = _drawn(picture, width, height).splitlines()
    assert len(lines) < height
    assert all(len(line) <= width for line in lines)
    shown = "\n".join(lines)
    for text in (
        *picture.address.split(","),
        *picture.feeds,
        *picture.queries,
        *picture.news,
        "Ctrl-C stops",
    ):
        assert text in shown
    assert ("cart" in shown) == (height > 16)


def test_records_of_a_derived_feed_are_those_that_can_be_read() -> None:
    """Offsets count the markers of transactions too, which looked like records that came twice."""
    picture = _busy_picture()
    assert picture.outcome.taken == {ERRORS: 1, JOINED: 1}


class TestHarms:
    def ready(self, picture: Picture, batch: int) -> None:
        for name, query in picture.queries.items():
            query.batch = batch
            picture.feeds[name if name in picture.feeds else LOGS].in_sync = "3/3"
        for feed in picture.feeds.values():
            feed.in_sync = "3/3"
        picture.spark_step = None

    def test_nothing_is_killed_before_spark_has_finished_a_batch(self) -> None:
        killed: list[str] = []
        planned = [(NODE, lambda: killed.append(NODE)), (SPARK, lambda: killed.append(SPARK))]
        harms, picture = Harms(planned), Picture("a:1", elapsed_ms=600_000)
        assert harms.do_what_is_due(picture) == []
        self.ready(picture, 0)
        (told,) = harms.do_what_is_due(picture)
        assert told == "600 s: a node was killed (kill -9): its supervisor starts it again"
        assert harms.do_what_is_due(picture) == []  # the batch is the one of before
        self.ready(picture, 1)
        picture.feeds[LOGS].in_sync = "2/3"
        assert harms.do_what_is_due(picture) == []  # the node is not back
        assert harms.left() == ["Spark was not killed: the run was over before it was time"]
        self.ready(picture, 2)
        assert len(harms.do_what_is_due(picture)) == 1
        assert killed == [NODE, SPARK]
        assert harms.left() == []


def test_a_port_that_is_taken_is_the_last_line(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        command = [sys.executable, "-c", COMMAND, LAZY, "demo", "--nodes", "1", "--port", port]
        done = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert last.startswith("Error: the cluster did not start: ")
    assert last.endswith("another program listens there, choose another port with --port")


def port_with_room_above() -> int:
    """The port for metrics is not asked for: it must not be one that somebody else was given."""
    while True:
        [port] = free_ports(1)
        with contextlib.suppress(OSError), socket.socket() as above:
            above.bind(("127.0.0.1", port + METRICS_ABOVE))
            return port


def test_metrics_are_above_the_clients_ports(tmp_path: Path) -> None:
    port = port_with_room_above()
    with running_nodes(1, port, str(tmp_path / "cluster")):
        url = f"http://127.0.0.1:{port + METRICS_ABOVE}/health/ready"
        with urllib.request.urlopen(url, timeout=60) as answer:
            assert answer.read() == b"ready\n"


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


def test_the_console_is_told_of_every_batch() -> None:
    """What the Spark program says becomes /metrics, of which the page of pipelines is drawn."""
    watch, shown, picture = PipelineWatch([], edges()), PlainView(), _busy_picture()
    view = MeteredView(shown, watch)
    for _ in range(2):
        view.update(picture)  # the same batch, once
    text = b"".join(watch.families().text("")).decode()
    of_table = f'{{pipeline="demo",query="{TABLE}"}}'
    for line in (f"batches_total{of_table} 1.0", f"rows_in_total{of_table} 1500.0", f"lag{of_table} 1500.0"):
        assert f"headrace_pipeline_{line}" in text
    assert f"rows_out_total{of_table}" not in text, "nobody counts the table's rows while it grows"
    assert f'direction="in",kind="feed",name="{LOGS}",pipeline="demo",query="{ERRORS}"' in text.replace(
        " ", ""
    )


def test_the_address_of_the_console_is_shown() -> None:
    picture = _busy_picture()
    picture.console = "http://127.0.0.1:8080/"
    assert "see it in a browser: http://127.0.0.1:8080/" in _drawn(picture)
