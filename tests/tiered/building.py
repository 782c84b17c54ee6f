"""Remote segments for tests."""

from headrace.base.ids import TopicId, TopicPartition
from headrace.tiered.segment_metadata import RemoteLogSegmentMetadata, RemoteLogSegmentState, TopicIdPartition

PARTITION = TopicIdPartition(TopicId(bytes(range(16))), TopicPartition("rows", 3))


def remote_segment(
    number: int,
    start: int,
    end: int,
    *epochs: tuple[int, int],
    state: RemoteLogSegmentState = RemoteLogSegmentState.COPY_FINISHED,
    partition: TopicIdPartition = PARTITION,
    max_timestamp: int = 1_000,
    size: int = 100,
) -> RemoteLogSegmentMetadata:
    """A segment with offsets `start` to `end`; of epoch 0 unless told otherwise."""
    return RemoteLogSegmentMetadata(
        partition,
        number.to_bytes(16, "big"),
        start,
        end,
        max_timestamp,
        size,
        epochs or ((0, start),),
        state,
        broker_id=1,
        event_ms=5,
    )
