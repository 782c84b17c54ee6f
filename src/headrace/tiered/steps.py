"""Work on remote segments, step by step: what blocks, and what is told.

Copying and removing are generators that run on the event loop. They yield `Work` for a thread, and get back
how many bytes it moved, or the error it raised thrown in; and they yield `Tell`, a record for
`__remote_log_metadata`, and get back whether it took effect: True once it was read back, False where this
node has no say any more and nobody knows. A crash between any two steps leaves something that the records
name.
"""

from collections.abc import Callable, Generator
from dataclasses import dataclass

from headrace.tiered.remote_log import SegmentUpdate
from headrace.tiered.remote_segment import RemoteSegment, SegmentState

Work = Callable[[], int]


@dataclass(frozen=True, slots=True)
class Tell:
    """A record to be written and read back."""

    record: RemoteSegment | SegmentUpdate


Steps = Generator[Work | Tell, int, bool]
"""Returns whether what was to be done is done."""


@dataclass(frozen=True, slots=True)
class Teller:
    """Who tells, and by which clock."""

    broker_id: int
    now_ms: Callable[[], int]

    def update(self, segment: RemoteSegment, state: SegmentState) -> Tell:
        return Tell(
            SegmentUpdate(segment.partition, segment.segment_id, state, self.broker_id, self.now_ms())
        )
