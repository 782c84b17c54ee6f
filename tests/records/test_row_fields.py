"""The fields of records as lists: both ways of getting them, and hostile bytes."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.base.errors import InvalidBytesError
from headrace.records.batch import Record, batches, build_batch
from headrace.records.columns import row_fields, schema
from headrace.records.columns.row_fields import RowFields
from tests.records.column_cases import hostile_logs, logs


@pytest.fixture(params=["in a run", "batch by batch"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the kernels for columns and without them."""
    schema.column_kernels()
    if request.param == "batch by batch":
        monkeypatch.setattr(schema, "_loaded", None)
    assert row_fields.takes_runs() == (request.param == "in a run")


def read(log: bytes, from_offset: int) -> RowFields:
    data = [(at, header) for at, header in batches(log) if not header.is_control]
    if not data:
        return RowFields((), [], None, None, None)
    return row_fields.row_fields(log, data, from_offset=from_offset, limit_bytes=1 << 20)


def columns_of(found: RowFields) -> list[list[Any]]:
    """All five, with the nulls that are left out."""
    count = len(found.offsets)
    keys, values = found.keys or [None] * count, found.values or [None] * count
    return [list(found.offsets), found.timestamps, keys, values, list(found.headers or [()] * count)]


@pytest.mark.usefixtures("way")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(log=logs(), from_offset=st.integers(0, 30))
def test_fields_are_the_records(log: tuple[bytes, list[Record]], from_offset: int) -> None:
    data, expected = log
    wanted = [row for row in expected if row.offset >= from_offset]
    found = columns_of(read(data, from_offset))
    assert [Record(*row) for row in zip(*found, strict=True)] == wanted


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("size", [1, 100, 70_000])
def test_values_of_one_size(size: int) -> None:
    rows = [Record(number, 5, b"%03d" % number, bytes([number]) * size, ()) for number in range(100)]
    log = bytes(build_batch(rows[:70])) + bytes(build_batch(rows[70:], base_offset=70))
    found = read(log, 10)
    assert [(type(key), type(value)) for key, value in zip(*found[2:4], strict=True)] == [(bytes, bytes)] * 90
    assert found.keys == [row.key for row in rows[10:]]
    assert found.values == [row.value for row in rows[10:]]


@pytest.mark.usefixtures("way")
@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(log=hostile_logs(), from_offset=st.integers(-5, 50))
def test_hostile_bytes_are_refused_or_read(log: bytes, from_offset: int) -> None:
    try:
        found = read(log, from_offset)
    except InvalidBytesError:
        return
    assert len({len(column) for column in columns_of(found)}) == 1
