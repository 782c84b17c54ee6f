"""Records as Arrow columns: what is seen, what is left out, and what hostile bytes bring forth."""

import subprocess
import sys
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.base.errors import InvalidBytesError
from headrace.records.batch import Record, build_batch, build_txn_marker
from headrace.records.codecs import UnpackedTooLargeError
from headrace.records.columns import decode
from headrace.records.columns.decode import arrow_from_batches, read_columns
from headrace.records.columns.schema import COLUMNS, column_schema
from headrace.records.columns.sections import AbortedTransaction
from headrace.records.kernels import columns as kernels_columns
from tests.records.column_cases import hostile_logs, logs
from tests.records.oracles import columns as oracle
from tests.records.raw_batches import raw_batch, raw_record


def read(log: Any, **options: Any) -> Any:
    rows = arrow_from_batches(log, topic="t", partition=3, **options)
    rows.validate(full=True)
    return rows


def rows_of(batch: Any) -> list[Record]:
    found = []
    for row in batch.to_pylist():
        headers = tuple((each["key"], each["value"]) for each in row["headers"])
        found.append(Record(row["offset"], _ms(row["timestamp"]), row["key"], row["value"], headers))
    return found


def _ms(when: datetime) -> int:
    delta = when - datetime(1970, 1, 1, tzinfo=UTC)
    return delta.days * 86_400_000 + delta.seconds * 1000 + delta.microseconds // 1000


@given(log=logs(), from_offset=st.integers(0, 30))
def test_columns_are_the_records(log: tuple[bytes, list[Record]], from_offset: int) -> None:
    data, expected = log
    found = read(data, from_offset=from_offset)
    assert rows_of(found) == [row for row in expected if row.offset >= from_offset]
    assert found.schema == column_schema()
    assert set(found.column("topic").to_pylist()) <= {"t"}
    assert set(found.column("partition").to_pylist()) <= {3}


@given(log=logs(), parts=st.integers(1, 3), cut=st.integers(0, 60))
def test_several_buffers_and_a_cut_off_end(log: tuple[bytes, list[Record]], parts: int, cut: int) -> None:
    data, expected = log
    whole = build_batch([Record(0, 5, None, b"last")], base_offset=1000)
    buffers = [data] * (parts - 1) + [data + whole[: len(whole) - 1 - cut]]
    assert rows_of(read(buffers)) == expected * parts
    assert rows_of(read([memoryview(bytearray(each)) for each in buffers])) == expected * parts


@settings(max_examples=300)
@given(log=hostile_logs() | st.binary(max_size=200), from_offset=st.integers(-5, 50))
def test_hostile_bytes_are_refused_alike_by_both_twins(log: bytes, from_offset: int) -> None:
    outcomes = []
    for kernels in (None, oracle):
        with pytest.MonkeyPatch.context() as patch:
            if kernels is not None:
                patch.setattr(decode, "column_kernels", lambda: oracle)
            try:
                found = read_columns(
                    log, topic="t", partition=0, from_offset=from_offset, aborted=[AbortedTransaction(1, 0)]
                )
                found.rows.validate(full=True)
                outcomes.append((found.rows.to_pydict() if _is_shown(found.rows) else 0, found.next_offset))
            except InvalidBytesError as error:
                outcomes.append((str(error), 0))
    assert outcomes[0] == outcomes[1]


def _is_shown(rows: Any) -> bool:
    """Whether Python's calendar has all the times."""
    times = rows.column("timestamp").cast(pa.int64()).to_pylist()
    return all(abs(each) < 60_000_000_000_000 for each in times)


def test_chosen_columns_in_the_order_asked_for() -> None:
    log = build_batch([Record(0, 5, b"k", None)], base_offset=9)
    assert read(log, columns=["value", "offset"]).to_pydict() == {"value": [None], "offset": [9]}
    assert read(log, columns=["topic"], plain_topic=True).to_pydict() == {"topic": ["t"]}
    assert read(log).schema.names == list(COLUMNS)
    with pytest.raises(ValueError, match="there is no column 'other'; there are topic, partition"):
        read(log, columns=["other"])


def test_timestamps_in_other_units() -> None:
    log = raw_batch(raw_record(), base_timestamp=2**62, max_timestamp=5)
    log += build_batch([Record(0, 1234, None, b"")], base_offset=1, append_time_ms=99)
    assert read(log).column("timestamp").cast(pa.int64()).to_pylist() == [2**62, 99]
    found = read(log, timestamp_unit="us")
    assert found.schema.field("timestamp").type == pa.timestamp("us", "UTC")
    most = (2**63 - 1) // 1000 * 1000
    assert found.column("timestamp").cast(pa.int64()).to_pylist() == [most, 99_000]
    assert found.column("timestamp_type").to_pylist() == [0, 1]
    with pytest.raises(ValueError, match="timestamps can be in ms, us, ns, not in 's'"):
        read(log, timestamp_unit="s")


def transaction(producer_id: int, offset: int, value: bytes) -> bytearray:
    return build_batch(
        [Record(0, 1, None, value)],
        base_offset=offset,
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=0,
        transactional=True,
    )


def marker(producer_id: int, offset: int, *, commit: bool) -> bytearray:
    return build_txn_marker(
        commit=commit,
        producer_id=producer_id,
        producer_epoch=0,
        coordinator_epoch=0,
        timestamp_ms=1,
        base_offset=offset,
    )


def test_aborted_transactions_are_seen_by_who_asks_for_everything_only() -> None:
    log = (
        transaction(1, 0, b"one aborts")
        + transaction(2, 1, b"two commits")
        + build_batch([Record(0, 1, None, b"no transaction")], base_offset=2)
        + marker(1, 3, commit=False)
        + transaction(1, 4, b"one again")
        + marker(2, 5, commit=True)
        + marker(1, 6, commit=True)
        + transaction(2, 7, b"two aborts")
    )
    everything = [b"one aborts", b"two commits", b"no transaction", b"one again", b"two aborts"]
    assert read(log).column("value").to_pylist() == everything
    assert read(log, aborted=[]).column("value").to_pylist() == everything
    aborted = [AbortedTransaction(2, 7), AbortedTransaction(1, 0)]
    decoded = read_columns(log, topic="t", partition=0, aborted=aborted)
    assert decoded.rows.column("value").to_pylist() == [b"two commits", b"no transaction", b"one again"]
    assert decoded.next_offset == 8
    later = read_columns(log, topic="t", partition=0, aborted=aborted, from_offset=2)
    assert later.rows.column("value").to_pylist() == [b"no transaction", b"one again"]


def test_nothing_to_read() -> None:
    for log in (b"", build_batch([Record(0, 1)])[:-1], marker(1, 0, commit=True)):
        found = read(log)
        assert (found.num_rows, found.schema) == (0, column_schema())
    assert read_columns(b"", topic="t", partition=0, from_offset=7).next_offset == 7
    assert read_columns(marker(1, 8, commit=True), topic="t", partition=0).next_offset == 9
    assert read([]).num_rows == 0


def test_a_wrong_crc_is_refused() -> None:
    log = build_batch([Record(0, 1, b"k", b"v")], base_offset=17)
    log[-1] ^= 1
    with pytest.raises(InvalidBytesError, match="the batch of offset 17 does not match its CRC"):
        read(log)
    assert read(log, from_offset=18).num_rows == 0


def test_a_flaw_is_named_with_its_place() -> None:
    log = build_batch([Record(0, 1)]) + raw_batch(raw_record(key_size=99), base_offset=41)
    with pytest.raises(InvalidBytesError, match="offset 41: record 0 of the batch: its key does not fit"):
        read(log)


def test_no_more_than_the_limit_at_once() -> None:
    rows = [Record(0, 1, None, bytes(1000))] * 10
    log = b"".join(build_batch(rows, base_offset=10 * number, codec=4) for number in range(4))
    first = read_columns(log, topic="t", partition=0, bytes_max=25_000)
    assert (first.rows.num_rows, first.next_offset, first.is_whole) == (20, 20, False)
    second = read_columns(log, topic="t", partition=0, from_offset=20, bytes_max=25_000)
    assert (second.rows.num_rows, second.next_offset, second.is_whole) == (20, 40, True)
    for limit in (5000, 25_000):
        with pytest.raises(UnpackedTooLargeError):
            read(log, bytes_max=limit)
    with pytest.raises(UnpackedTooLargeError):
        read(build_batch(rows), bytes_max=5000)
    with pytest.raises(ValueError, match="at most"):
        read(log, bytes_max=2**31)


def test_batches_behind_the_end_are_not_looked_at() -> None:
    rows = [Record(0, 1, None, b"v")] * 10
    log = b"".join(build_batch(rows, base_offset=10 * number) for number in range(3))
    for until, count in ((1, 10), (10, 10), (11, 20), (30, 30)):
        found = read_columns(log, topic="t", partition=0, until_offset=until)
        assert (found.rows.num_rows, found.next_offset, found.is_whole) == (count, count, True)
    last = build_batch(rows, base_offset=30)
    broken = log + last[:-1] + bytes([last[-1] ^ 1])
    assert read_columns(broken, topic="t", partition=0, until_offset=30).rows.num_rows == 30
    with pytest.raises(InvalidBytesError):
        read_columns(broken, topic="t", partition=0, until_offset=31)


def test_header_keys_that_are_no_text() -> None:
    log = raw_batch(raw_record(headers=[(b"\xff\xfe", None), (b"good", b"")]))
    assert read(log).column("headers").to_pylist() == [
        [{"key": "\ufffd\ufffd", "value": None}, {"key": "good", "value": b""}]
    ]


def test_without_pyarrow_it_says_what_to_install() -> None:
    code = """
import sys
sys.modules["pyarrow"] = None
from headrace.records.columns.decode import arrow_from_batches
try:
    arrow_from_batches(b"", topic="t", partition=0)
except ImportError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install 'headrace[arrow]'" in done.stdout


def test_brokers_do_not_load_what_columns_need() -> None:
    code = """
import sys
from headrace.records.kernels.choice import load_compiled
load_compiled()
print(*(name for name in sys.modules if "pyarrow" in name or "columns" in name and "headrace" in name))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_a_second_process_loads_what_the_first_compiled() -> None:
    """This one has compiled them by now, if nobody had before."""
    assert kernels_columns.decode_rows(*_no_rows()) == (0, 0, 0, 0)
    code = """
from headrace.records.kernels import columns as made
kernels = (made.decode_rows, made.decode_headers, made.gather, made.encode_rows)
print(*(sum(each.stats.cache_misses.values()) for each in kernels))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["0"] * 4


def _no_rows() -> tuple[Any, ...]:
    longs, ints, octets = np.empty(0, np.int64), np.empty(1, np.int32), np.empty(0, np.uint8)
    places = (longs, ints, octets)
    return octets, longs.reshape(0, 7), 0, 1, longs, longs, ints, *places, *places, longs, ints
