"""InFlightBatch: a range of offsets of a share partition's window, and what became of it."""

from __future__ import annotations

from enum import IntEnum
from typing import Final, NamedTuple


class RecordState(IntEnum):
    """The numbers are those of the state records."""

    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVING = 3  # given up, and its dead letter is not written yet (KIP-1191)
    ARCHIVED = 4


_AVAILABLE: Final = RecordState.AVAILABLE  # windows of thousands of ranges are looked through
TERMINAL: Final = (RecordState.ACKNOWLEDGED, RecordState.ARCHIVED)
NOBODY: Final = ""
UNTIL_ITS_TURN: Final = 1 << 62
"""Nobody gets it before those of its key that come before it are done with, see `key_order`."""


class Acquired(NamedTuple):
    first_offset: int
    last_offset: int
    delivery_count: int


class InFlightBatch:
    """A range of offsets in one state; `next_state` while that is being written. `together` is what it was a
    part of when it was first handed out."""

    __slots__ = (
        "deadline_ms",
        "delivery_count",
        "first",
        "last",
        "member_id",
        "next_state",
        "not_before_ms",
        "state",
        "together",
        "was_rejected",
    )

    def __init__(self, first: int, last: int, state: RecordState, delivery_count: int) -> None:
        self.first = first
        self.last = last
        self.state = state
        self.delivery_count = delivery_count
        self.member_id = NOBODY
        self.deadline_ms = 0
        self.next_state: RecordState | None = None
        self.together: range | None = None
        self.was_rejected = False
        self.not_before_ms = 0  # nobody gets it before; 0 where there is nothing to wait for

    def __repr__(self) -> str:
        return f"<{self.first}-{self.last} {self.state.name} x{self.delivery_count} {self.member_id}>"

    def __len__(self) -> int:
        return self.last - self.first + 1

    @property
    def is_free(self) -> bool:
        return not self.not_before_ms and self.next_state is None and self.state is _AVAILABLE

    @property
    def is_paused(self) -> bool:
        """It came back, and rests before it is handed out again; or it waits its turn."""
        return self.not_before_ms > 0 and self.state is _AVAILABLE

    @property
    def waits_its_turn(self) -> bool:
        """Others of its key come first, or it is not known yet whether there are any."""
        return self.not_before_ms == UNTIL_ITS_TURN

    @property
    def state_to_be(self) -> RecordState:
        return self.state if self.next_state is None else self.next_state

    def acquire(self, member_id: str, deadline_ms: int) -> Acquired:
        self.state, self.member_id, self.deadline_ms = RecordState.ACQUIRED, member_id, deadline_ms
        self.delivery_count += 1
        self.together = self.together or range(self.first, self.last + 1)
        return Acquired(self.first, self.last, self.delivery_count)

    def grow(self, last: int) -> None:
        """Hand out more with it."""
        assert self.together is not None
        self.last = last
        self.together = range(self.together.start, max(self.together.stop, last + 1))

    def end_lock(self, state: RecordState) -> None:
        self.state, self.next_state = state, None
        if state is not RecordState.ARCHIVING:  # the letter says who had it last
            self.member_id = NOBODY

    def says_same(self, other: InFlightBatch) -> bool:
        """Whether the two could be one: nobody holds them, and they are alike."""
        return (
            self.next_state is None
            and other.next_state is None
            and self.state is other.state is not RecordState.ACQUIRED
            and (self.state in TERMINAL or self._came_back_as(other))
        )

    def _came_back_as(self, other: InFlightBatch) -> bool:
        return self._history() == other._history()

    def _history(self) -> tuple[object, ...]:
        return self.delivery_count, self.together, self.was_rejected, self.member_id, self.not_before_ms
