"""The oracle of runs of plain Produce requests, made of the codecs of the wire."""

from typing import Final, NamedTuple

from headrace.base.chunks import Buffer
from headrace.base.errors import InvalidBytesError
from headrace.records.header import HEADER_BYTES, LOG_OVERHEAD, MAGIC, BatchHeader, read_header
from headrace.records.kernels.produce import (
    NO_RUN,
    ROWS_MAX,
    VERSION_MAX,
    VERSION_MIN,
    RunHead,
    RunRow,
)
from headrace.wire.apis import ApiKey
from headrace.wire.codec import encode, reader
from headrace.wire.framing import RequestHeader, read_request_header
from headrace.wire.schemas.produce import TOPIC_ID_SINCE, ProduceRequest
from tests.records.oracles.records import scan_records

_FLEXIBLE_FROM: Final = 9
_LENGTH_BYTES: Final = 4
_TAIL_TAGS: Final = 3  # of the partition, the topic and the request


class _Plain(NamedTuple):
    head: RunHead
    topic: bytes
    row: RunRow


def produce_run(data: Buffer, at: int, end: int) -> tuple[RunHead, list[RunRow]]:
    """The run at the start of the received bytes `at` to `end`: its head, and a row for each request."""
    view = memoryview(data)
    first = _plain_request(view, at, end)
    if first is None:
        return NO_RUN, []
    head, topic, row = first
    rows = [row]
    while len(rows) < ROWS_MAX:
        following = _plain_request(view, head.end, end)
        if following is None or following.topic != topic or _differs(following.head, head):
            break
        head = _joined(head, following.head)
        rows.append(following.row)
    return head, rows


def _differs(one: RunHead, other: RunHead) -> bool:
    return (one.version, one.acks, one.partition) != (other.version, other.acks, other.partition)


def _joined(head: RunHead, following: RunHead) -> RunHead:
    return head._replace(
        requests=head.requests + 1,
        end=following.end,
        timeout_ms=min(head.timeout_ms, following.timeout_ms),
        batch_bytes=head.batch_bytes + following.batch_bytes,
        batch_bytes_max=max(head.batch_bytes_max, following.batch_bytes_max),
        frame_bytes_max=max(head.frame_bytes_max, following.frame_bytes_max),
        records=head.records + following.records,
        min_timestamp=min(head.min_timestamp, following.min_timestamp),
        max_timestamp=max(head.max_timestamp, following.max_timestamp),
        null_keys=head.null_keys + following.null_keys,
    )


def _plain_request(view: memoryview, at: int, end: int) -> _Plain | None:
    begin = at + _LENGTH_BYTES
    if begin > end:
        return None
    length = int.from_bytes(view[at:begin], "big", signed=True)
    if length <= 0 or begin + length > end:
        return None
    frame = view[begin : begin + length]
    try:
        header = read_request_header(frame)
        if not _is_plain_header(header):
            return None
        request: ProduceRequest = reader(ProduceRequest, header.api_version)(frame, header.body_at)[0]
    except InvalidBytesError:
        return None
    if not _has_one_batch(request) or encode(request, header.api_version) != frame[header.body_at :]:
        return None
    return _taken_apart(header, request, at, begin + length)


def _is_plain_header(header: RequestHeader) -> bool:
    if header.api_key != ApiKey.PRODUCE or not VERSION_MIN <= header.api_version <= VERSION_MAX:
        return False
    text = header.client_id or ""
    tags = 1 if header.api_version >= _FLEXIBLE_FROM else 0
    return text.isascii() and header.body_at == 10 + len(text) + tags


def _has_one_batch(request: ProduceRequest) -> bool:
    topics = request.topic_data
    return (
        request.transactional_id is None
        and request.acks in (1, -1)
        and len(topics) == 1
        and topics[0].name.isascii()
        and len(topics[0].partition_data) == 1
        and topics[0].partition_data[0].records is not None
    )


def _taken_apart(header: RequestHeader, request: ProduceRequest, at: int, end: int) -> _Plain | None:
    version = header.api_version
    topic = request.topic_data[0]
    data = topic.partition_data[0]
    batch = data.records
    assert batch is not None, "a request without a batch is not plain"
    if len(batch) < HEADER_BYTES or not _is_plain_batch(found := read_header(batch), len(batch)):
        return None
    scan = scan_records(batch[HEADER_BYTES:], found.record_count, found.base_timestamp)
    flaw, _, max_timestamp, _, min_timestamp, null_keys = scan
    if flaw or max_timestamp != found.max_timestamp:
        return None
    name = bytes(topic.topic_id) if version >= TOPIC_ID_SINCE else topic.name.encode()
    head = RunHead(
        requests=1,
        end=end,
        version=version,
        acks=request.acks,
        topic_at=at + _LENGTH_BYTES + header.body_at + _before_topic(version, len(name)),
        topic_size=len(name),
        partition=data.index,
        timeout_ms=request.timeout_ms,
        batch_bytes=len(batch),
        batch_bytes_max=len(batch),
        frame_bytes_max=end - at - _LENGTH_BYTES,
        records=found.record_count,
        min_timestamp=min_timestamp,
        max_timestamp=max_timestamp,
        null_keys=null_keys,
    )
    batch_at = end - len(batch) - (_TAIL_TAGS if version >= _FLEXIBLE_FROM else 0)
    row = [at, header.correlation_id, batch_at, len(batch), found.record_count]
    return _Plain(head, name, [*row, max_timestamp, found.crc, found.producer_id])


def _before_topic(version: int, name_size: int) -> int:
    """Bytes of a body in front of the topic's name or id: transaction, acks, time-out, count, length."""
    if version < _FLEXIBLE_FROM:
        return 2 + 2 + 4 + 4 + 2
    length = 0 if version >= TOPIC_ID_SINCE else (6 + (name_size + 1).bit_length()) // 7
    return 1 + 2 + 4 + 1 + length


def _is_plain_batch(header: BatchHeader, size: int) -> bool:
    return (
        header.base_offset == 0
        and header.length == size - LOG_OVERHEAD
        and header.magic == MAGIC
        and header.attributes == 0
        and header.record_count > 0
        and header.last_offset_delta == header.record_count - 1
        and (header.producer_id < 0 or header.base_sequence >= 0)
    )
