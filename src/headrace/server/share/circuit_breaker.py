"""CircuitBreaker: stops a share partition whose group gives up one record after the other.

Where a service behind the members is gone, every record fails, and a whole topic would be given up. After so
many records in a row of which none was accepted, nothing is handed out for a while. Then one record at a time
is tried: when one is accepted everything goes on, and one more that is given up begins the next pause.

A synchronous machine: the time is an argument.
"""

from __future__ import annotations

from collections.abc import Iterable

from headrace.server.share.in_flight_batch import InFlightBatch, RecordState

GIVEN_UP = (RecordState.ARCHIVING, RecordState.ARCHIVED)


class CircuitBreaker:
    """Of one share partition. `records_max` and `pause_ms` are the group's settings; 0 is no breaker."""

    __slots__ = ("_given_up", "closed_until_ms", "is_on_trial")

    def __init__(self) -> None:
        self._given_up = 0
        self.closed_until_ms = 0
        self.is_on_trial = False

    def is_closed(self, now_ms: int) -> bool:
        """Whether nothing is handed out now."""
        return now_ms < self.closed_until_ms

    def note(self, batches: Iterable[InFlightBatch], *, records_max: int, pause_ms: int, now_ms: int) -> bool:
        """What becomes of records; whether that begins a pause."""
        before = self._given_up
        for batch in batches:
            if batch.state_to_be is RecordState.ACKNOWLEDGED:
                before = self._given_up = 0
                self.is_on_trial = False
                self.closed_until_ms = 0
            elif batch.state is RecordState.ACQUIRED and batch.state_to_be in GIVEN_UP:
                self._given_up += len(batch)
        if not records_max or self._given_up < records_max or self._given_up == before:
            return False
        begins = not self.is_closed(now_ms)
        self.is_on_trial, self.closed_until_ms = True, now_ms + pause_ms
        return begins
