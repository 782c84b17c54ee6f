"""Runs of Produce requests: the kernel and its oracle, which reads them with the wire's own codecs, agree on
any bytes; and what is in a run is what was sent."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.records.batch import Record, build_batch, read_header
from headrace.records.kernels.produce import ROWS_MAX, RunHead, RunRow
from headrace.wire.framing import request_frame
from headrace.wire.schemas.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.records.kernel_forms import COMPILED, ORACLE, WRITTEN

TOPIC_ID = bytes(range(16))


def frame(
    *,
    version: int = 12,
    topic: str = "orders",
    partition: int = 0,
    acks: int = 1,
    batch: bytes | bytearray | None = None,
    timeout_ms: int = 5000,
    client_id: str | None = "c",
    correlation_id: int = 7,
    transactional_id: str | None = None,
) -> bytes:
    batch = build_batch([Record(0, 1000, None, b"v", ())]) if batch is None else batch
    data = [PartitionProduceData(partition, batch)]
    request = ProduceRequest(transactional_id, acks, timeout_ms, [TopicProduceData(topic, TOPIC_ID, data)])
    return b"".join(map(bytes, request_frame(request, version, correlation_id, client_id)))


def both(data: bytes, at: int = 0) -> tuple[RunHead, list[RunRow]]:
    """The answer of the kernel, as it is written and compiled, and of its oracle."""
    expected: tuple[RunHead, list[RunRow]] = ORACLE.produce_run(data, at, len(data))
    for form in (WRITTEN, COMPILED):
        assert form.produce_run(data, at, len(data)) == expected
    return expected


names = st.sampled_from(["orders", "o", "", "x" * 126, "x" * 127, "x" * 200, "ö"])
records = st.builds(
    Record,
    st.just(0),
    st.integers(-1, 2**41),
    st.none() | st.binary(max_size=5),
    st.none() | st.binary(max_size=200),
    st.lists(st.tuples(st.text(max_size=3), st.none() | st.binary(max_size=3)), max_size=2).map(tuple),
)
batches = st.builds(
    build_batch,
    st.lists(records, min_size=1, max_size=5),
    base_offset=st.sampled_from([0, 0, 0, 1]),
    codec=st.sampled_from([0, 0, 0, 4]),
    producer_id=st.sampled_from([-1, 5]),
    producer_epoch=st.sampled_from([-1, 0]),
    base_sequence=st.sampled_from([-1, 0, 9]),
    transactional=st.sampled_from([False, False, True]),
)
frames = st.builds(
    frame,
    version=st.sampled_from([3, 7, 8, 9, 12, 13]),
    topic=names,
    partition=st.integers(-1, 2),
    acks=st.sampled_from([1, 1, 1, -1, 0, 2]),
    batch=batches,
    timeout_ms=st.integers(-(2**31), 2**31 - 1),
    client_id=st.sampled_from([None, "", "c", "ü"]),
    correlation_id=st.integers(-(2**31), 2**31 - 1),
    transactional_id=st.sampled_from([None, None, None, "t"]),
)


@settings(max_examples=400)
@given(st.lists(frames, max_size=3), st.binary(max_size=30))
def test_twins_agree_on_requests(parts: list[bytes], rest: bytes) -> None:
    both(b"".join(parts) + rest)


@settings(max_examples=400)
@given(
    frames,
    st.integers(1, 3),
    st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), min_size=1, max_size=3),
    st.integers(0, 40),
)
def test_twins_agree_on_broken_requests(
    one: bytes, count: int, changes: list[tuple[int, int]], cut: int
) -> None:
    data = bytearray(one * count)
    for at, byte in changes:
        data[at % min(len(data), 120)] = byte
    both(bytes(data[: len(data) - cut]))


@pytest.mark.parametrize("version", range(3, 14))
def test_a_run_is_what_was_sent(version: int) -> None:
    sizes = (1, 500, 40)
    made = [
        build_batch([Record(0, 1000 + size, None, b"v" * size, ())] * size, producer_id=3, base_sequence=0)
        for size in sizes
    ]
    data = b"junk" + b"".join(
        frame(version=version, batch=batch, correlation_id=9 + number, timeout_ms=100 * (3 - number))
        for number, batch in enumerate(made)
    )
    head, rows = both(data, at=4)
    assert (head.requests, head.end, head.version, head.acks, head.partition) == (3, len(data), version, 1, 0)
    topic = data[head.topic_at : head.topic_at + head.topic_size]
    assert topic == (TOPIC_ID if version == 13 else b"orders")
    assert (head.timeout_ms, head.records, head.null_keys) == (100, 541, 541)
    assert (head.min_timestamp, head.max_timestamp) == (1001, 1500)
    assert (head.batch_bytes, head.batch_bytes_max) == (sum(map(len, made)), max(map(len, made)))
    for number, (batch, row) in enumerate(zip(made, rows, strict=True)):
        _, correlation_id, at, size, count, max_timestamp, crc, producer_id = row
        assert data[at : at + size] == batch
        assert (correlation_id, count, max_timestamp) == (9 + number, sizes[number], 1000 + sizes[number])
        assert (crc, producer_id) == (read_header(batch).crc, 3)


@pytest.mark.parametrize(
    "other",
    [
        {"topic": "others"},
        {"topic": "order"},
        {"partition": 1},
        {"acks": -1},
        {"version": 11},
        {"acks": 0},
        {"transactional_id": "t"},
        {"batch": build_batch([Record(0, 1, None, b"v", ())], codec=3)},
        {"batch": b""},
    ],
    ids=str,
)
def test_another_kind_of_request_ends_a_run(other: dict[str, object]) -> None:
    head, rows = both(frame() * 2 + frame(**other) + frame())  # type: ignore[arg-type]
    assert head.requests == len(rows) == 2
    assert head.end == 2 * len(frame())


def test_a_run_has_an_end() -> None:
    head, rows = both(frame() * (ROWS_MAX + 1))
    assert head.requests == len(rows) == ROWS_MAX
