"""Batches of the metadata log, from records and back.

A data batch holds framed metadata records without keys. A control batch holds what the quorum says about
itself: who was elected, who votes, which version of the protocol is spoken, where a snapshot begins and
ends.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from headrace.base.chunks import Buffer
from headrace.base.errors import InvalidBytesError
from headrace.records.batch import (
    ControlType,
    Record,
    batches,
    build_batch,
    control_record,
    control_type_of,
    join_batch,
    read_header,
    read_records,
)
from headrace.records.varints import encode_varint
from headrace.wire.codec import decode, encode
from headrace.wire.notation import schema_of
from headrace.wire.record_frames import ApiMessageAndVersion, decode_metadata_record, encode_metadata_record
from headrace.wire.schemas.quorum_records import (
    KRaftVersionRecord,
    LeaderChangeMessage,
    LeaderChangeMessageVoter,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    VotersRecord,
)

BATCH_BYTES_MAX: Final = 8 * 1024 * 1024
BATCH_RECORDS_MAX: Final = 10_000
"""Kafka's bounds on a batch of this log: larger changes are written as several. All that one request of a
client may write fits one, so no crash leaves half of it.
"""

_NO_TIME_DELTA: Final = b"\0\0"  # behind the attributes, of which a record has none
_NO_KEY: Final = b"\x01"
_NO_HEADERS: Final = b"\0"

_CONTROL_CLASSES: Final[dict[ControlType, type[Any]]] = {
    ControlType.LEADER_CHANGE: LeaderChangeMessage,
    ControlType.SNAPSHOT_HEADER: SnapshotHeaderRecord,
    ControlType.SNAPSHOT_FOOTER: SnapshotFooterRecord,
    ControlType.KRAFT_VERSION: KRaftVersionRecord,
    ControlType.KRAFT_VOTERS: VotersRecord,
}
_CONTROL_TYPES: Final = {cls: control_type for control_type, cls in _CONTROL_CLASSES.items()}


def data_batches(
    entries: Sequence[ApiMessageAndVersion], *, now_ms: int
) -> Iterator[tuple[bytearray, Sequence[ApiMessageAndVersion]]]:
    """One batch, or as many as the bound demands, each with its records."""
    values = [encode_metadata_record(entry.record, entry.version) for entry in entries]
    start = size = 0
    for at, value in enumerate(values):
        if (size + len(value) > BATCH_BYTES_MAX or at - start == BATCH_RECORDS_MAX) and at > start:
            yield _data_batch(values[start:at], now_ms), entries[start:at]
            start, size = at, 0
        size += len(value)
    if start < len(values):
        yield _data_batch(values[start:], now_ms), entries[start:]


def _data_batch(values: Sequence[bytes], now_ms: int) -> bytearray:
    """What `build_batch` makes of values without keys and headers, at a third of the time: a broker that is
    fenced may mean a hundred thousand of them.
    """
    parts: list[bytes] = []
    for delta, value in enumerate(values):
        head = _NO_TIME_DELTA + encode_varint(delta) + _NO_KEY + encode_varint(len(value))
        parts += (encode_varint(len(head) + len(value) + 1), head, value, _NO_HEADERS)
    empty = read_header(build_batch([Record(timestamp=now_ms)]))
    header = empty._replace(last_offset_delta=len(values) - 1, record_count=len(values))
    return join_batch(header, b"".join(parts))


def control_batch(
    messages: Sequence[Any], *, now_ms: int, base_offset: int = 0, epoch: int = -1
) -> bytearray:
    """One batch of control records."""
    rows = [
        control_record(_CONTROL_TYPES[type(message)], encode(message, 0), timestamp_ms=now_ms)
        for message in messages
    ]
    return build_batch(rows, control=True)


def leader_change(leader_id: int, voters: Sequence[int], granted_by: Sequence[int]) -> LeaderChangeMessage:
    """The first record of a leader's epoch."""
    return LeaderChangeMessage(
        leader_id=leader_id,
        voters=[LeaderChangeMessageVoter(voter_id=voter) for voter in voters],
        granting_voters=[LeaderChangeMessageVoter(voter_id=voter) for voter in granted_by],
    )


def read_data(batch: Buffer) -> list[Any]:
    """The metadata records of a data batch."""
    return list(read_records_of(batch))


def read_records_of(batch: Buffer) -> Iterator[Any]:
    """The same, one by one."""
    for record in read_records(batch):
        if record.value is None:
            raise InvalidBytesError(
                f"the metadata log has a record without a value at offset {record.offset}"
            )
        yield decode_metadata_record(record.value)


def read_control(batch: Buffer) -> list[Any]:
    """The control records of a batch; kinds that this release does not know are left out."""
    messages = []
    for record in read_records(batch):
        control_type = control_type_of(record)
        cls = None if control_type is None else _CONTROL_CLASSES.get(control_type)
        if cls is not None and record.value is not None:
            messages.append(decode(cls, _version_of(cls, record.value), record.value))
    return messages


def _version_of(cls: type[Any], value: bytes) -> int:
    """A control record's first field is the version it is written in; one that is newer only adds fields."""
    return min(int.from_bytes(value[:2], "big", signed=True), schema_of(cls).versions[-1])


def by_epoch(data: Buffer, epoch: int) -> Iterator[Buffer]:
    """Batches that lie one behind the other and go on in `epoch`, cut where an epoch begins and behind its
    first batch. What cannot be read is left at the end of the last piece, for whoever writes it to complain
    of."""
    view = memoryview(data)
    begin, is_first = 0, False
    try:
        for at, header in batches(view):
            begins = header.leader_epoch != epoch
            if at > begin and (begins or is_first):
                yield view[begin:at]
                begin = at
            epoch, is_first = header.leader_epoch, begins
    except InvalidBytesError:
        pass
    yield view[begin:]
