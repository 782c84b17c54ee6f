"""What a process of Spark loads that only looks the format up, plans or commits: there is one for each step
of a first query, and each waits for its modules."""

import subprocess
import sys

import pytest

# What costs a tenth of a second or more, and only tasks need.
HEAVY = (
    "pyarrow",
    "numpy",
    "numba",
    "headrace.clients.admin",
    "headrace.clients.producer",
    "headrace.records",
)


@pytest.mark.parametrize(
    "module",
    ["pyspark_headrace", "headrace.spark.sink.writers", "headrace.spark.batch_reader"],
)
def test_nothing_is_loaded_that_only_tasks_need(module: str) -> None:
    program = f"import sys, {module}; print(*(name for name in {HEAVY!r} if name in sys.modules))"
    assert subprocess.check_output([sys.executable, "-c", program], text=True).split() == []
