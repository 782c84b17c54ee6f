"""What workers said, and what failed while they were asked, is one sentence that says what to do."""

import json
import sys
from dataclasses import replace

import pytest

from headrace import __version__
from headrace.spark.cluster_check import MODULES, Worker, complaint_about, missing_on_worker, refusal
from headrace.spark.worker_probe import probe


def but(**changes: str | None) -> Worker:
    """One that can do the work, but for this."""
    return replace(GOOD, **changes)


GOOD = Worker("w1", "/a", "/usr/bin/python3", "3.11.2", None, "1.0", "20.0.0")


@pytest.mark.parametrize(
    ("workers", "said"),
    [
        ([GOOD], None),
        ([GOOD, but(pyarrow="25.1.0")], None),
        ([GOOD, but(missing="headrace", headrace=None)], "lacks headrace: /usr/bin/python3 (3.11.2) on w1. "),
        ([but(missing="cramjam", host=host) for host in ("w1", "w2", "w3")], "on w1 and 2 more. "),
        ([but(headrace="0.9")], "has headrace 0.9, and this is 1.0: "),
        ([but(pyarrow="17.0.0", missing="x")], "has pyarrow 17.0.0, and 18 or newer is needed: "),
    ],
)
def test_what_workers_lack(workers: list[Worker], said: str | None) -> None:
    complaint = complaint_about(workers, "1.0")
    if said is None:
        assert complaint is None
        return
    assert complaint is not None
    assert said in complaint
    assert "pip install 'headrace[spark]==1.0'" in complaint
    assert "\n" not in complaint
    at_server = complaint_about(workers, "1.0", at_server=True)
    assert at_server is not None
    assert "start the Connect server with" in at_server


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            'java.io.IOException: Cannot run program "python3": error=2, No such file',
            "no Python that is called python3",
        ),
        (
            "[MISMATCH] Python in worker has different version: 3.12 than that in driver: 3.11",
            "the workers' Python is 3.12, and this is 3.11",
        ),
        ("  ModuleNotFoundError: No module named 'pyspark.zstd'\n at …", "No module named 'pyspark.zstd'"),
    ],
)
def test_why_no_worker_answered(text: str, said: str) -> None:
    assert said in refusal(f"Job aborted\n\n{text}\n at org.apache")
    assert "headrace pipeline pack" in refusal(text)


def test_other_failures_keep_their_first_line() -> None:
    assert refusal("[SOME_CLASS] Disk full.\n at x").endswith("and the job failed: Disk full.")


def test_a_worker_that_came_later_is_known_by_its_failure() -> None:
    stack = "File \"x.py\", line 1\nModuleNotFoundError: No module named 'headrace'\n at org.apache"
    told = missing_on_worker(stack)
    assert told is not None
    assert told.startswith("a worker's Python lacks headrace. Install it there")
    assert missing_on_worker(stack.replace("headrace", "somebodys_own")) is None


def test_this_machine_has_what_it_takes() -> None:
    told = Worker(**json.loads(probe(None, MODULES)))
    assert (told.missing, told.headrace, told.python) == (None, __version__, sys.executable)
    assert complaint_about([told], __version__) is None


def test_a_worker_says_what_it_cannot_import() -> None:
    told = Worker(**json.loads(probe(None, ("nowhere.at_all",))))
    assert told.missing == "nowhere"
