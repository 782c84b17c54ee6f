"""Runs of plain Produce requests: what one read of a socket mostly brings, taken apart in one go.

A producer that is ahead of its replies sends one request behind the other to the same partition. A broker
that serves them as one run pays once for what it would pay for each: looking up the partition, the call that
writes the batches, the reply. The kernel that finds a run checks everything but the batches' CRCs, so that
nothing is left to look at but what depends on the topic's settings.

Plain is: a whole frame, v3 to v13, acks 1 or all, no transaction, one partition with one batch of its own,
which is neither compressed nor control nor transactional, whose header and records are as a producer must
make them, and whose texts are ASCII. Whatever else comes ends the run: it is for others to serve or to
refuse.
"""

from typing import Final, NamedTuple, TypeAlias

from headrace.base.chunks import Buffer
from headrace.records.kernels.notation import INT64_MAX, Bytes, Rows, kernel, signed_at
from headrace.records.kernels.records import scan_records

ROWS_MAX: Final = 128
"""Enough to make the cost of a run small beside that of its requests."""
RUN_FIELDS: Final = 8

VERSION_MIN: Final = 3
VERSION_MAX: Final = 13


class RunHead(NamedTuple):
    """What the requests of a run have in common, and the extremes of what they have not."""

    requests: int  # with 0, nothing else means anything
    end: int  # where the run ends in the buffer
    version: int
    acks: int
    topic_at: int  # where the first request has the topic's name, from v13 on its id
    topic_size: int
    partition: int
    timeout_ms: int  # the shortest
    batch_bytes: int  # of all
    batch_bytes_max: int
    frame_bytes_max: int
    records: int  # of all
    min_timestamp: int  # INT64_MAX where no record has a timestamp
    max_timestamp: int  # -1 where none has
    null_keys: int


RunRow: TypeAlias = list[int]
"""[frame_at, correlation_id, batch_at, batch_size, record_count, max_timestamp, crc, producer_id]"""

Head: TypeAlias = tuple[int, int, int, int, int, int, int, int, int, int, int, int, int, int, int]

NO_RUN: Final = RunHead(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, INT64_MAX, -1, 0)


@kernel
def _compact(data: Bytes, at: int, end: int) -> tuple[int, int]:
    """An unsigned varint of up to 32 bits in its shortest form, and where it ends; -1 for that otherwise."""
    number = 0
    shift = 0
    while at < end and shift < 35:
        byte = data[at]
        at += 1
        number |= (byte & 127) << shift
        if byte < 128:
            return number, at if (byte or not shift) and number <= 0x7FFFFFFF else -1
        shift += 7
    return 0, -1


@kernel
def _is_ascii(data: Bytes, at: int, end: int) -> bool:
    bits = 0
    for index in range(at, end):
        bits |= data[index]
    return bits < 128


@kernel
def _not_plain(at: int) -> tuple[int, int, int, int, int, int, int, int]:
    return -1, 0, 0, 0, 0, 0, 0, 0


@kernel
def _plain_produce(data: Bytes, at: int, end: int) -> tuple[int, int, int, int, int, int, int, int]:
    """The frame of one plain Produce request: its end, version, acks, time-out, topic and its size,
    partition, and where its batch begins."""
    if end - at < 14:
        return _not_plain(at)
    length = signed_at(data, at, 4)
    if length < 10 or length > end - at - 4 or signed_at(data, at + 4, 2) != 0:
        return _not_plain(at)
    frame_end = at + 4 + length
    version = signed_at(data, at + 6, 2)
    client_size = max(signed_at(data, at + 12, 2), 0)
    at += 14
    # Nothing that is plain is shorter than its batch's header: what is read before it lies in the frame.
    if version < 3 or version > 13 or client_size + 16 + 61 > frame_end - at:
        return _not_plain(at)
    if not _is_ascii(data, at, at + client_size):
        return _not_plain(at)
    at += client_size
    limit = frame_end - 61
    if version < 9:
        if signed_at(data, at, 2) != -1 or signed_at(data, at + 8, 4) != 1:
            return _not_plain(at)
        acks, timeout_ms = signed_at(data, at + 2, 2), signed_at(data, at + 4, 4)
        topic_size, topic_at = signed_at(data, at + 12, 2), at + 14
        at = topic_at + topic_size
        if topic_size < 0 or at + 12 > limit or signed_at(data, at, 4) != 1:
            return _not_plain(at)
        partition, size, at = signed_at(data, at + 4, 4), signed_at(data, at + 8, 4), at + 12
        tail = 0
    else:
        if data[at] != 0 or data[at + 1] != 0 or data[at + 8] != 2:
            return _not_plain(at)
        acks, timeout_ms = signed_at(data, at + 2, 2), signed_at(data, at + 4, 4)
        topic_size, topic_at = 17, at + 9
        if version < 13:
            topic_size, topic_at = _compact(data, at + 9, limit)
        topic_size -= 1
        at = topic_at + topic_size
        if topic_at < 0 or topic_size < 0 or at + 6 > limit or data[at] != 2:
            return _not_plain(at)
        partition = signed_at(data, at + 1, 4)
        size, at = _compact(data, at + 5, limit)
        size -= 1
        tail = 3
        if data[frame_end - 1] or data[frame_end - 2] or data[frame_end - 3]:
            return _not_plain(at)
    if at < 0 or size != frame_end - tail - at or size < 61 or (acks != 1 and acks != -1):
        return _not_plain(at)
    if version < 13 and not _is_ascii(data, topic_at, topic_at + topic_size):
        return _not_plain(at)
    return frame_end, version, acks, timeout_ms, topic_at, topic_size, partition, at


@kernel
def _is_same(data: Bytes, one: int, other: int, size: int) -> bool:
    differences = 0
    for index in range(size):
        differences |= data[one + index] ^ data[other + index]
    return differences == 0


@kernel
def _is_plain_batch(data: Bytes, at: int, size: int) -> bool:
    count = signed_at(data, at + 57, 4)
    return (
        signed_at(data, at, 8) == 0
        and signed_at(data, at + 8, 4) == size - 12
        and data[at + 16] == 2
        and signed_at(data, at + 21, 2) == 0
        and count > 0
        and signed_at(data, at + 23, 4) == count - 1
        and (signed_at(data, at + 43, 8) < 0 or signed_at(data, at + 53, 4) >= 0)
    )


@kernel
def fill_run(data: Bytes, at: int, end: int, rows: Rows) -> Head:
    """The run at the start of the received bytes `at` to `end`: `RunHead` as plain numbers, and its rows."""
    version, acks, topic_at, topic_size, partition, timeout_ms = 0, 0, 0, 0, 0, 0
    batch_bytes, batch_max, frame_max, record_count, null_keys = 0, 0, 0, 0, 0
    min_timestamp, max_timestamp = INT64_MAX, -1
    count = 0
    while count < len(rows):
        found = _plain_produce(data, at, end)
        frame_end, batch_at = found[0], found[7]
        if frame_end < 0:
            break
        if count == 0:
            version, acks, timeout_ms, topic_at, topic_size, partition = found[1:7]
        elif (
            found[1] != version
            or found[2] != acks
            or found[5] != topic_size
            or found[6] != partition
            or not _is_same(data, found[4], topic_at, topic_size)
        ):
            break
        batch_end = frame_end - (3 if version >= 9 else 0)
        size = batch_end - batch_at
        if not _is_plain_batch(data, batch_at, size):
            break
        records = signed_at(data, batch_at + 57, 4)
        scan = scan_records(data[batch_at + 61 : batch_end], records, signed_at(data, batch_at + 27, 8))
        if scan[0] or scan[2] != signed_at(data, batch_at + 35, 8):
            break
        rows[count, 0] = at
        rows[count, 1] = signed_at(data, at + 8, 4)
        rows[count, 2] = batch_at
        rows[count, 3] = size
        rows[count, 4] = records
        rows[count, 5] = scan[2]
        rows[count, 6] = signed_at(data, batch_at + 17, 4) & 0xFFFFFFFF
        rows[count, 7] = signed_at(data, batch_at + 43, 8)
        timeout_ms = min(timeout_ms, found[3])
        batch_bytes += size
        record_count += records
        batch_max, frame_max = max(batch_max, size), max(frame_max, frame_end - at - 4)
        max_timestamp, min_timestamp = max(max_timestamp, scan[2]), min(min_timestamp, scan[4])
        null_keys += scan[5]
        count += 1
        at = frame_end
    spread = (batch_bytes, batch_max, frame_max, record_count, min_timestamp, max_timestamp, null_keys)
    return (count, at, version, acks, topic_at, topic_size, partition, timeout_ms) + spread  # noqa: RUF005 - numba


def produce_run(data: Buffer, at: int, end: int) -> tuple[RunHead, list[RunRow]]:
    """The run at the start of the received bytes `at` to `end`: its head, and a row for each request."""
    rows = memoryview(bytearray(8 * ROWS_MAX * RUN_FIELDS)).cast("q", (ROWS_MAX, RUN_FIELDS))
    head = fill_run(memoryview(data), at, end, rows)
    count = head[0]
    if not count:
        return NO_RUN, []
    found: list[RunRow] = rows.tolist()[:count]  # type: ignore[assignment] # of two dimensions
    return RunHead._make(head), found
