"""Settings for all tests."""

import signal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from tests.spark.jvm_options import hurry_jvms

# A shared core may be slow for a moment: how long one example takes says nothing. Speed is bench's subject.
# The examples are always the same, so that a commit passes or fails for good; `--hypothesis-profile=explore`
# draws new ones.
settings.register_profile("headrace", deadline=None, print_blob=True, derandomize=True)
settings.register_profile("explore", deadline=None, print_blob=True)
settings.load_profile("headrace")

# A shell has its background jobs ignore Ctrl-C, and all that they start; programs of these tests must not.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

hurry_jvms()

# Rooms whose files take longest, by JVMs and processes of their own.
LONG_ROOMS = ("spark", "compat", "cli", "house", "simulation")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files that take long come first, so that no worker begins one when the others are done. A test with a
    timeout of its own takes long.
    """
    timeouts: dict[Path, float] = {}
    for item in items:
        mark = item.get_closest_marker("timeout")
        seconds = float(mark.args[0]) if mark is not None and mark.args else 0.0
        timeouts[item.path] = max(timeouts.get(item.path, 0.0), seconds)
    here = Path(__file__).parent
    is_long = {path: path.relative_to(here).parts[0] in LONG_ROOMS for path in timeouts}
    items.sort(key=lambda item: (-timeouts[item.path], not is_long[item.path]))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Files that use the tests' Spark session go to one worker, one after the other: a session of each
    worker's own is a JVM of a gigabyte, and half a minute on cores that all share.
    """
    if config.getvalue("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    files = (Path(__file__).parent / "spark").glob("test_*.py")
    shared = {
        str(each.relative_to(config.rootpath))
        for each in files
        if 'spark: "SparkSession"' in each.read_text()
    }

    class OneSession(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            scope = super()._split_scope(nodeid)
            return "tests/spark" if scope in shared else scope

    return OneSession(config, log)
