"""Asks the workers of a cluster whether they can do the work, before anything else is asked of them.

Source and sink run in the Python of the executors. What it lacks would show at the first batch, as a stack of
the JVM around a stack of Python. So a job of some hundred milliseconds goes first, which needs nothing but
Python there (`worker_probe.py`): every executor says what it has, and one sentence says what is to be
installed where.

Executors come one by one, and Spark gives tasks to those that are there. Tasks are handed out in rounds until
each executor known by then has answered. One that comes later and lacks something fails its tasks;
`missing_on_worker` knows that failure again.
"""

import json
import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from headrace.spark.session import SessionError, first_line, is_connected, is_on_this_machine

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# What tasks of source and sink import, with all that is behind it.
MODULES: Final = (
    "headrace.spark.data_source",
    "headrace.spark.reading",
    "headrace.spark.sink.writers",
    "headrace.spark.sink.rows",
    "headrace.clients.producer",
)
PYARROW_MAJOR_MIN: Final = 18
PAGE: Final = "docs/spark-clusters.md"
# An executor is missed by chance in one round only: tasks wait for a free place, and there are two for each.
_ROUNDS_MAX: Final = 5
_TASKS_MAX: Final = 1000
# A standalone cluster gives executors within a second or two, YARN and Kubernetes take ten to thirty.
_WAIT_TOLD_S: Final = 15.0
_LOOK_S: Final = 0.1


@dataclass(frozen=True, slots=True)
class Worker:
    """What an executor's Python said."""

    host: str
    executor: str
    python: str
    python_version: str
    missing: str | None
    headrace: str | None
    pyarrow: str | None

    @property
    def place(self) -> str:
        return f"{self.python} ({self.python_version}) on {self.host}"


def check_workers(spark: "SparkSession", tell: Callable[[str], None]) -> None:
    """SessionError, in one sentence, where a worker cannot do the work."""
    if is_on_this_machine(spark):  # they run this Python
        return
    _await_executors(spark, tell)
    from headrace import __version__

    complaint = complaint_about(_workers(spark), __version__, at_server=is_connected(spark))
    if complaint is not None:
        raise SessionError(complaint)


def complaint_about(workers: Sequence[Worker], version: str, *, at_server: bool = False) -> str | None:
    """What is wrong with the first kind of worker that cannot do the work, and what to do."""
    for each in workers:
        lack = _lack(each, version)
        if lack is not None:
            alike = {worker.place for worker in workers if _lack(worker, version) == lack}
            more = f" and {len(alike) - 1} more" if len(alike) > 1 else ""
            return f"the workers' Python {lack}: {each.place}{more}. {_remedy(version, at_server)}"
    return None


def missing_on_worker(text: str) -> str | None:
    """The sentence for a failed task whose worker lacks headrace or something that it needs."""
    found = re.search(r"ModuleNotFoundError: No module named '(\w+)", text)
    if found is None or found[1] not in _NEEDED:
        return None
    from headrace import __version__

    return f"a worker's Python lacks {found[1]}. {_remedy(__version__)}"


_NEEDED: Final = (
    "headrace",
    "pyarrow",
    "numpy",
    "numba",
    "cramjam",
    "crc32c",
    "re2",
    "zstandard",
    "fastavro",
)


def _lack(worker: Worker, version: str) -> str | None:
    if worker.pyarrow is not None and int(worker.pyarrow.split(".")[0]) < PYARROW_MAJOR_MIN:
        return f"has pyarrow {worker.pyarrow}, and {PYARROW_MAJOR_MIN} or newer is needed"
    if worker.missing is not None:
        return f"lacks {worker.missing}"
    if worker.headrace != version:
        return f"has headrace {worker.headrace}, and this is {version}"
    return None


def _remedy(version: str, at_server: bool = False) -> str:
    if at_server:
        return (
            f"Install it there, `pip install 'headrace[spark]=={version}'`, or start the Connect server with "
            "a Python that has it on their PATH, `--conf spark.executorEnv.PATH=FOLDER:/usr/bin:/bin` "
            f"({PAGE})"
        )
    return (
        f"Install it there, `pip install 'headrace[spark]=={version}'`, or name their Python that has it, "
        "`--conf spark.pyspark.python=PATH`, or ship one: `headrace pipeline pack -o env.tar.gz` and "
        f"`--conf spark.archives=env.tar.gz#environment` ({PAGE})"
    )


# The job


def _workers(spark: "SparkSession") -> list[Worker]:
    found: dict[tuple[str, str], Worker] = {}
    for _ in range(_ROUNDS_MAX):
        for each in _round(spark):
            found[each.host, each.executor] = each
        if len(found) >= _executors(spark):
            break
    return list(found.values())


def _round(spark: "SparkSession") -> list[Worker]:
    from pyspark.errors import PySparkException
    from pyspark.sql.functions import udf

    tasks = min(_TASKS_MAX, 2 * max(_slots(spark), _executors(spark)))
    with _sent_by_value():
        from headrace.spark.worker_probe import probe

        ask: Any = udf(partial(probe, headrace_modules=MODULES), "string", useArrow=False)
        rows = spark.range(0, tasks, 1, tasks).select(ask("id").alias("told"))
        try:
            return [Worker(**json.loads(row.told)) for row in rows.collect()]
        except PySparkException as error:
            raise SessionError(refusal(str(error))) from error
        except Exception as error:  # py4j's: the JVM could not start a Python at all
            raise SessionError(refusal(str(error))) from error


def refusal(text: str) -> str:
    """Why no Python of a worker answered, from Spark's error."""
    from headrace import __version__

    here = ".".join(map(str, sys.version_info[:2]))
    if found := re.search(r'Cannot run program "([^"]+)"', text):
        what = f"the workers have no Python that is called {found[1]}"
    elif found := re.search(r"different version: ([\d.]+) than that in driver: ([\d.]+)", text):
        what = f"the workers' Python is {found[1]}, and this is {found[2]}: both must be of one minor version"
    elif "PYTHON_VERSION_MISMATCH" in text:
        what = f"the workers' Python is not {here} as this is: both must be of one minor version"
    elif found := re.search(r"(ModuleNotFoundError: .*)", text):
        what = f"the workers' Python cannot run Spark's own part: {found[1]}"
    else:
        return f"the workers were asked what they have, and the job failed: {first_line(Exception(text))}"
    return f"{what}. {_remedy(__version__)}"


@contextmanager
def _sent_by_value() -> Iterator[None]:
    """Functions of `worker_probe` are pickled with their code: workers may not have the module."""
    from headrace.spark import worker_probe

    pickling: Any = import_module("pyspark.cloudpickle")
    pickling.register_pickle_by_value(worker_probe)
    try:
        yield
    finally:
        pickling.unregister_pickle_by_value(worker_probe)


# What is known of executors


def _await_executors(spark: "SparkSession", tell: Callable[[str], None]) -> None:
    """Until there is one; a cluster that gives none is told about, since Spark waits for ever."""
    since_s = time.monotonic()
    is_told = False
    while not is_connected(spark) and _executors(spark) == 0:
        if not is_told and time.monotonic() - since_s > _WAIT_TOLD_S:
            is_told = True
            tell(
                f"waiting for {spark.sparkContext.master} to give this job an executor; it may be busy, "
                "or have no worker with the spark.executor.memory and spark.executor.cores asked for"
            )
        if spark.sparkContext._jsc.sc().isStopped():
            raise SessionError(
                f"{spark.sparkContext.master} does not answer, or has ended this job: is the address right?"
            )
        time.sleep(_LOOK_S)


def _executors(spark: "SparkSession") -> int:
    """How many there are now; a Connect server does not tell."""
    if is_connected(spark):
        return 1
    return int(spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size()) - 1  # the driver is one of them


def _slots(spark: "SparkSession") -> int:
    return 4 if is_connected(spark) else int(spark.sparkContext.defaultParallelism)
