"""Batches for the tests of columns: good ones, and hostile ones around records with any flaw."""

from hypothesis import strategies as st

from headrace.records.batch import Record, build_batch, build_txn_marker, encode_record
from headrace.records.kernels.notation import INT64_MAX, INT64_MIN
from tests.records.raw_batches import raw_batch

optional_bytes = st.none() | st.binary(max_size=40)
records = st.builds(
    Record,
    st.just(0),
    st.integers(-1, 2**41),
    optional_bytes,
    optional_bytes,
    st.lists(st.tuples(st.text(max_size=4), optional_bytes), max_size=3).map(tuple),
)
numbers = st.integers(INT64_MIN, INT64_MAX) | st.sampled_from([INT64_MIN, INT64_MAX, -1, 0])


@st.composite
def logs(draw: st.DrawFn) -> tuple[bytes, list[Record]]:
    """A partition's bytes, and the records that a reader should see, with gaps between offsets."""
    log, seen = b"", []
    offset = draw(st.integers(0, 5))
    for _ in range(draw(st.integers(0, 4))):
        rows = draw(st.lists(records, min_size=1, max_size=6))
        append_time = draw(st.none() | st.integers(0, 2**41))
        log += build_batch(
            rows,
            base_offset=offset,
            codec=draw(st.sampled_from([0, 0, 1, 2, 3, 4])),
            append_time_ms=append_time,
        )
        for index, row in enumerate(rows):
            timestamp = row.timestamp if append_time is None else append_time
            seen.append(row._replace(offset=offset + index, timestamp=timestamp))
        offset += len(rows) + draw(st.integers(0, 3))
        if draw(st.booleans()):
            log += build_txn_marker(
                commit=True,
                producer_id=7,
                producer_epoch=0,
                coordinator_epoch=0,
                timestamp_ms=1,
                base_offset=offset,
            )
            offset += 1
    return log, seen


@st.composite
def hostile_logs(draw: st.DrawFn) -> bytes:
    """Batches whose CRC is right and whose content may be anything."""
    log = bytearray()
    for _ in range(draw(st.integers(1, 3))):
        rows = draw(st.lists(records, max_size=4))
        section = bytearray(
            b"".join(
                encode_record(
                    row, offset_delta=draw(st.just(at) | st.integers(-3, 9)), timestamp_delta=row.timestamp
                )
                for at, row in enumerate(rows)
            )
        )
        for at, byte in draw(st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), max_size=3)):
            if section:
                section[at % len(section)] = byte
        cut = draw(st.just(0) | st.integers(0, 20))
        log += raw_batch(
            bytes(section[: len(section) - cut]),
            base_offset=draw(st.integers(0, 100) | numbers),
            attributes=draw(st.sampled_from([0, 0, 0, 1, 2, 3, 4, 7, 8, 0x10, 0x20, 0x30])),
            count=draw(st.just(len(rows)) | st.integers(-1, 9) | st.just(2**31 - 1)),
            last_offset_delta=draw(st.just(len(rows) - 1) | st.integers(-(2**31), 2**31 - 1)),
            base_timestamp=draw(st.integers(-1, 2**41) | numbers),
            max_timestamp=draw(numbers),
            producer_id=draw(st.integers(-1, 2)),
        )
    for at, byte in draw(st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), max_size=1)):
        log[at % len(log)] = byte
    return bytes(log[: len(log) - draw(st.just(0) | st.integers(0, 80))])
