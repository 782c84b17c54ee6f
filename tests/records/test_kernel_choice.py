"""Starting without numba, switching to it, and finding its cache again."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.records import kernel_choice, kernels_plain, produce_run
from headrace.records.kernel_choice import Kernels, kernels, load_compiled, partition_for_key
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
    modules = "batch, codecs, kernel_choice, validate"
    code = f"import sys; from headrace.records import {modules}; print(*sys.modules)"
    assert not {"numba", "numpy"} & set(run(code))


def test_loading_switches_every_kernel() -> None:
    fresh = Kernels()
    names = set(Kernels.__slots__) - {"compiled"}
    plain = {name: getattr(kernels_plain, name, produce_run.produce_run) for name in names}
    assert all(getattr(fresh, name) is plain[name] for name in names)
    load_compiled()
    assert kernels.compiled
    assert not any(getattr(kernels, name) is plain[name] for name in names)
    load_compiled()
    kernel_choice.warm()


def test_partitions_for_keys() -> None:
    for load in (False, True):
        if load:
            load_compiled()
        assert [partition_for_key(key, 10) for key in (b"21", b"foobar", b"abc")] == [0, 6, 7]
        assert kernels.scan_records(raw_record(), 1, 5) == (0, 1, 5, 0, 5, 0)


CACHE = """
from headrace.records import kernel_choice
kernel_choice.warm()
from headrace.records import kernels, kernels_columns, kernels_murmur2, kernels_siphash
made = [kernels.scan_records, kernels.find_record, kernels.fill_spans, kernels.produce_run]
made += [kernels_murmur2.murmur2, kernels_murmur2.murmur2_spans]
made.append(kernels_siphash.siphash_spans)
made += [kernels_columns.decode_rows, kernels_columns.gather, kernels_columns.encode_rows]
print(*(sum(each.stats.cache_misses.values()) for each in made))
"""


def test_a_second_process_loads_what_the_first_compiled(tmp_path: Path) -> None:
    first = run(CACHE, NUMBA_CACHE_DIR=str(tmp_path))
    second = run(CACHE, NUMBA_CACHE_DIR=str(tmp_path))
    assert set(first) == {"1"}, "compiled"
    assert set(second) == {"0"}, "loaded"
