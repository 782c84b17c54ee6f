"""Remote segments as records of `__remote_log_metadata`, in Kafka's formats.

A new copy is told whole, every later state by an update that names the segment. Values are framed like those
of the metadata log; keys are null. RemotePartitionDeleteMetadataRecord says that a whole partition is going:
nothing depends on it here, because each of its segments says so itself.
"""

from headrace.base.chunks import Buffer
from headrace.base.errors import InvalidBytesError
from headrace.base.ids import TopicId, TopicPartition
from headrace.records.kernels.choice import partition_for_key
from headrace.tiered.segment_metadata import (
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemoteLogSegmentState,
    TopicIdPartition,
)
from headrace.wire.record_frames import (
    REMOTE_LOG,
    UnknownRecordError,
    decode_metadata_record,
    encode_metadata_record,
)
from headrace.wire.schemas.remote_log_records import (
    RemoteLogSegmentIdEntry,
    RemoteLogSegmentMetadataRecord,
    RemoteLogSegmentMetadataUpdateRecord,
    RemotePartitionDeleteMetadataRecord,
    SegmentLeaderEpochEntry,
    TopicIdPartitionEntry,
)


def encode_segment(segment: RemoteLogSegmentMetadata) -> bytes:
    """The value that tells all of a segment."""
    return encode_metadata_record(
        RemoteLogSegmentMetadataRecord(
            remote_log_segment_id=_segment_id(segment.partition, segment.segment_id),
            start_offset=segment.start_offset,
            end_offset=segment.end_offset,
            broker_id=segment.broker_id,
            max_timestamp_ms=segment.max_timestamp,
            event_timestamp_ms=segment.event_ms,
            segment_leader_epochs=[SegmentLeaderEpochEntry(epoch, start) for epoch, start in segment.epochs],
            segment_size_in_bytes=segment.size,
            custom_metadata=segment.custom_metadata,
            remote_log_segment_state=segment.state,
            txn_index_empty=not segment.has_aborted,
        )
    )


def encode_update(update: RemoteLogSegmentMetadataUpdate) -> bytes:
    """The value that tells a segment's new state."""
    return encode_metadata_record(
        RemoteLogSegmentMetadataUpdateRecord(
            remote_log_segment_id=_segment_id(update.partition, update.segment_id),
            broker_id=update.broker_id,
            event_timestamp_ms=update.event_ms,
            custom_metadata=update.custom_metadata,
            remote_log_segment_state=update.state,
        )
    )


def encode_record(record: RemoteLogSegmentMetadata | RemoteLogSegmentMetadataUpdate) -> bytes:
    return encode_segment(record) if isinstance(record, RemoteLogSegmentMetadata) else encode_update(record)


def decode_record(value: Buffer) -> RemoteLogSegmentMetadata | RemoteLogSegmentMetadataUpdate | None:
    """What a value says; None where it says nothing of a segment. InvalidBytesError where it cannot be
    read, UnknownRecordError for a kind that a later version may write.
    """
    message = decode_metadata_record(value, REMOTE_LOG)
    if isinstance(message, RemotePartitionDeleteMetadataRecord):
        return None
    if not isinstance(message, RemoteLogSegmentMetadataRecord | RemoteLogSegmentMetadataUpdateRecord):
        raise UnknownRecordError(f"a {type(message).__name__} does not belong into this topic")
    try:
        state = RemoteLogSegmentState(message.remote_log_segment_state)
    except ValueError as error:
        raise InvalidBytesError(str(error)) from None
    entry = message.remote_log_segment_id.topic_id_partition
    partition = TopicIdPartition(TopicId(entry.id), TopicPartition(entry.name, entry.partition))
    segment_id = message.remote_log_segment_id.id
    if isinstance(message, RemoteLogSegmentMetadataUpdateRecord):
        return RemoteLogSegmentMetadataUpdate(
            partition,
            segment_id,
            state,
            message.broker_id,
            message.event_timestamp_ms,
            message.custom_metadata,
        )
    epochs = tuple((each.leader_epoch, each.offset) for each in message.segment_leader_epochs)
    if not epochs or message.end_offset < message.start_offset:
        raise InvalidBytesError(f"a segment of {partition} without epochs or offsets: {message}")
    return RemoteLogSegmentMetadata(
        partition,
        segment_id,
        message.start_offset,
        message.end_offset,
        message.max_timestamp_ms,
        message.segment_size_in_bytes,
        epochs,
        state,
        message.broker_id,
        message.event_timestamp_ms,
        message.custom_metadata,
        has_aborted=not message.txn_index_empty,
    )


def known_record(value: Buffer | None) -> RemoteLogSegmentMetadata | RemoteLogSegmentMetadataUpdate | None:
    """The same for who reads beside brokers: a kind that only a later version knows tells nothing, as brokers
    pass it over too.
    """
    try:
        return None if value is None else decode_record(value)
    except UnknownRecordError:
        return None


def _segment_id(partition: TopicIdPartition, segment_id: bytes) -> RemoteLogSegmentIdEntry:
    topic, number = partition.topic_partition
    return RemoteLogSegmentIdEntry(TopicIdPartitionEntry(topic, partition.topic_id, number), segment_id)


def metadata_partition_of(partition: TopicIdPartition, count: int) -> int:
    """The partition of `__remote_log_metadata` that holds a partition's records, chosen as Kafka's
    RemoteLogMetadataTopicPartitioner does: murmur2 of what Java's `Objects.hash` makes of the topic's id, not
    its name, and the partition's number.
    """
    most, least = (int.from_bytes(partition.topic_id[at : at + 8], "big") for at in (0, 8))
    mixed = 1
    for part in (least ^ (least >> 32), most ^ (most >> 32), partition.topic_partition.partition):
        mixed = (31 * mixed + part) & 0xFFFFFFFF
    return partition_for_key(mixed.to_bytes(4, "big"), count)
