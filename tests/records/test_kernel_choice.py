"""Starting without numba, switching to it, and finding its cache again."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.records.kernels import choice, hashes, machine, produce, records
from headrace.records.kernels.choice import Kernels, kernels, load_compiled, partition_for_key
from tests.records.raw_batches import raw_record


@pytest.fixture(autouse=True)
def _choice_as_before() -> Iterator[None]:
    before = {name: getattr(kernels, name) for name in Kernels.__slots__}
    yield
    for name, function in before.items():
        setattr(kernels, name, function)


def run(code: str, **environment: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ | environment
    )
    return done.stdout.split()


def test_the_room_is_imported_without_numba_or_numpy() -> None:
    modules = "batch, codecs, validate, compaction.segment_writer, kernels.batches, kernels.choice"
    names = ", ".join(f"headrace.records.{name}" for name in modules.split(", "))
    code = f"import sys, {names}; print(*sys.modules)"
    assert not {"numba", "numpy"} & set(run(code))


def test_loading_switches_every_kernel() -> None:
    fresh = Kernels()
    names = set(Kernels.__slots__) - {"compiled"}
    written = {name: value for module in (records, produce, hashes) for name, value in vars(module).items()}
    assert all(getattr(fresh, name) is written[name] for name in names)
    load_compiled()
    assert kernels.compiled
    assert not any(getattr(kernels, name) is written[name] for name in names)
    load_compiled()
    choice.warm()


def test_partitions_for_keys() -> None:
    for load in (False, True):
        if load:
            load_compiled()
        assert [partition_for_key(key, 10) for key in (b"21", b"foobar", b"abc")] == [0, 6, 7]
        assert kernels.scan_records(raw_record(), 1, 5) == (0, 1, 5, 0, 5, 0)


CACHE = """
from headrace.records.kernels import choice, compiler, columns
choice.warm()
made = [each for each in compiler._compiled.values() if each.stats.cache_path and each.nopython_signatures]
made = [each for each in made if each._cache.__class__.__name__ == "FunctionCache"]
made += [columns.decode_rows, columns.gather, columns.encode_rows]
print(*(sum(each.stats.cache_misses.values()) for each in made))
"""


@pytest.mark.timeout(400)  # where ./test has not compiled them: half a minute of a core of its own
def test_a_second_process_loads_what_the_first_compiled() -> None:
    first, second = run(CACHE), run(CACHE)
    assert set(first) <= {"0", "1"}, "compiled, or loaded where an earlier process did so"
    assert set(second) == {"0"}, "loaded"


def test_the_cache_is_told_when_any_kernel_changes(tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text("1")
    (tmp_path / "other.py").write_text("2")
    before = machine.fingerprint(tmp_path)
    assert machine.fingerprint(tmp_path) == before
    (tmp_path / "other.py").write_text("3")
    assert machine.fingerprint(tmp_path) != before
