"""Remote segments for tests."""

from headrace.base.ids import TopicId, TopicPartition
from headrace.tiered.remote_segment import RemoteSegment, SegmentState, TopicIdPartition

PARTITION = TopicIdPartition(TopicId(bytes(range(16))), TopicPartition("rows", 3))


def remote_segment(
    number: int,
    start: int,
    end: int,
    *epochs: tuple[int, int],
    state: SegmentState = SegmentState.COPY_FINISHED,
    partition: TopicIdPartition = PARTITION,
    max_timestamp: int = 1_000,
    size: int = 100,
) -> RemoteSegment:
    """A segment with offsets `start` to `end`; of epoch 0 unless told otherwise."""
    return RemoteSegment(
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
