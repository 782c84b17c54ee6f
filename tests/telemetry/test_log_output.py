"""Log lines as an operator reads them: one each, a count where one repeats, in a file that can move."""

import io
import json
import logging
import threading

import pytest

from headrace.telemetry import log_output
from headrace.telemetry.log_lines import JsonLines, TextLines
from headrace.telemetry.log_output import LogOutput, reopen, set_up


def record(text, *values, name="headrace.tested", level=logging.WARNING, **extra):
    made = logging.LogRecord(name, level, "/a/place.py", 7, text, values, None)
    made.created = 1_700_000_000.0421
    vars(made).update(extra)
    return made


@pytest.fixture
def output(tmp_path):
    made = LogOutput(str(tmp_path / "node.log"), TextLines(1))
    yield made
    made.close()


@pytest.fixture
def root():
    """What `set_up` changes is put back."""
    handlers, level = [*logging.root.handlers], logging.root.level
    yield logging.root
    for handler in [*logging.root.handlers]:
        if handler not in handlers:
            handler.close()
            logging.root.removeHandler(handler)
    logging.root.setLevel(level)


def lines(path):
    return path.read_text().splitlines()


def test_a_line_for_people():
    line = TextLines(3).format(record("%s has %d", "t-0", 5))
    assert line == "2023-11-14T22:13:20.042Z WARNING [3] headrace.tested: t-0 has 5"


def test_nobody_begins_a_line_by_a_name_he_chose():
    line = TextLines().format(record("topic %s", "a\n2023-11-14T22:13:20.042Z ERROR forged\x1b[2J"))
    assert "\n" not in line
    assert "\x1b" not in line
    assert r"a\n2023" in line


def test_a_line_for_machines():
    line = JsonLines(3).format(record("%s has %d", "t\n0", 5, topic="t"))
    assert "\n" not in line
    assert json.loads(line) == {
        "time": "2023-11-14T22:13:20.042Z",
        "level": "WARNING",
        "logger": "headrace.tested",
        "node": 3,
        "message": "t\n0 has 5",
        "template": "%s has %d",
        "topic": "t",
    }


def test_a_traceback_is_one_field_for_machines():
    try:
        raise ValueError("why")
    except ValueError as error:
        made = record("it failed")
        made.exc_info = (type(error), error, error.__traceback__)
    assert "ValueError: why" in json.loads(JsonLines().format(made))["traceback"]
    assert TextLines().format(made).endswith("ValueError: why")


def test_what_one_place_repeats_is_a_count(output, tmp_path):
    for number in range(log_output.LINES_PER_PLACE + 500):
        output.handle(record("fault %d", number))
    output.handle(record("another place"))
    output.close()
    told = lines(tmp_path / "node.log")
    assert len(told) == log_output.LINES_PER_PLACE + 1
    assert "501 more lines like this were left out: another place" in told[-1]


def test_the_count_is_told_when_the_interval_is_over(tmp_path, monkeypatch):
    monkeypatch.setattr(log_output, "INTERVAL_S", 0.1)
    monkeypatch.setattr(log_output, "HELD_LOOK_S", 0.05)
    monkeypatch.setattr(log_output, "LINES_PER_PLACE", 1)
    told = threading.Event()

    class Told(TextLines):
        def format(self, record):
            if "more lines" in record.msg:
                told.set()
            return super().format(record)

    output = LogOutput(str(tmp_path / "node.log"), Told())
    for _ in range(3):
        output.handle(record("fault"))
    assert told.wait(30)
    output.close()


def test_what_was_asked_for_in_detail_is_told_in_full(output, tmp_path):
    for number in range(log_output.LINES_PER_PLACE + 5):
        output.handle(record("detail %d", number, level=logging.DEBUG))
    output.close()
    assert len(lines(tmp_path / "node.log")) == log_output.LINES_PER_PLACE + 5


def test_a_wrong_template_is_told_as_it_is(output, tmp_path):
    output.handle(record("%d is no number", "x"))
    output.close()
    assert "'%d is no number' cannot be told" in lines(tmp_path / "node.log")[0]


def test_a_file_that_was_moved_away_is_opened_again(root, tmp_path):
    path = tmp_path / "node.log"
    set_up(level="info", file=str(path), node_id=1)
    logging.getLogger("headrace.tested").warning("before")
    root.handlers[-1].flush()
    path.rename(tmp_path / "node.log.1")
    reopen()
    logging.getLogger("headrace.tested").warning("after")
    root.handlers[-1].flush()
    root.handlers[-1].close()
    assert [line.rpartition(" ")[2] for line in lines(tmp_path / "node.log.1")] == ["before"]
    assert [line.rpartition(" ")[2] for line in lines(path)] == ["after"]


def test_levels_hold_for_ours_and_other_peoples_chat_is_left_out(root, tmp_path):
    path = tmp_path / "node.log"
    set_up(level="info", file=str(path))
    logging.getLogger("headrace.tested").debug("a detail")
    logging.getLogger("headrace.tested").info("news")
    logging.getLogger("somebody.else").info("chat")
    logging.getLogger("somebody.else").warning("a fault")
    root.handlers[-1].close()
    assert [line.partition(": ")[2] for line in lines(path)] == ["news", "a fault"]


def test_a_stream_that_takes_nothing_holds_nobody(monkeypatch):
    """A terminal that was stopped, a disk that is full: lines are lost, counted, and told of afterwards."""

    class Stuck(io.StringIO):
        def __init__(self):
            super().__init__()
            self.go_on = threading.Event()

        def write(self, text):
            assert self.go_on.wait(30)
            return super().write(text)

    stuck = Stuck()
    monkeypatch.setattr("sys.stderr", stuck)
    monkeypatch.setattr(log_output, "QUEUE_LINES_MAX", 10)
    output = LogOutput(None, TextLines())
    for number in range(100):
        output.handle(record("line %d", number))
    stuck.go_on.set()
    output.flush()
    output.close()
    assert "log lines were lost" in stuck.getvalue()
    assert 10 <= stuck.getvalue().count("headrace.tested") <= 12
