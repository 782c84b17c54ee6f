"""Work on remote segments, step by step: what blocks, and what is told.

Copying and removing are generators that run on the event loop. They yield `Work` for a thread, and get back
how many bytes it moved, or the error it raised thrown in; and they yield `Tell`, a record for
`__remote_log_metadata`, and get back whether it took effect: True once it was read back, False where this
node has no say any more and nobody knows. A crash between any two steps leaves something that the records
name.

Before many bytes are moved `Room` is asked for. That may take long, and where this node has no say any more
by then, the work ends there: it is asked for only while nothing was begun that somebody must remove.
"""

from collections.abc import Callable, Generator
from dataclasses import dataclass, replace

from headrace.tiered.remote_log import SegmentUpdate
from headrace.tiered.remote_segment import RemoteSegment, SegmentState
from headrace.tiered.segment_mark import GIVEN_UP

Work = Callable[[], int]


@dataclass(frozen=True, slots=True)
class Tell:
    """A record to be written and read back."""

    record: RemoteSegment | SegmentUpdate


@dataclass(frozen=True, slots=True)
class Room:
    """So many bytes are to be moved: wait until the bound on bytes per second has room for them."""

    size: int


Steps = Generator[Work | Tell | Room, int, bool]
"""Returns whether what was to be done is done."""


@dataclass(frozen=True, slots=True)
class Teller:
    """Who tells, and by which clock."""

    broker_id: int
    now_ms: Callable[[], int]

    def finish(self, copied: RemoteSegment) -> Tell:
        """All of a copy is there; its store's note came after it was announced."""
        custom_metadata = None if copied.note is None else copied.custom_metadata
        return Tell(
            replace(self._update(copied, SegmentState.COPY_FINISHED), custom_metadata=custom_metadata)
        )

    def update(self, segment: RemoteSegment, state: SegmentState, mark: bytes | None = None) -> Tell:
        return Tell(replace(self._update(segment, state), custom_metadata=mark))

    def give_up(self, copied: RemoteSegment) -> Tell:
        """Another leader's copy can no longer be finished: its announcement once more, with a mark."""
        again = copied.moved_to(SegmentState.COPY_STARTED, broker_id=self.broker_id, event_ms=self.now_ms())
        return Tell(replace(again, custom_metadata=GIVEN_UP))

    def _update(self, segment: RemoteSegment, state: SegmentState) -> SegmentUpdate:
        return SegmentUpdate(segment.partition, segment.segment_id, state, self.broker_id, self.now_ms())
