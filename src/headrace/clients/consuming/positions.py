"""Where a consumer is in each of its partitions: a core without IO.

A partition is read once it has a position. It has none at first (the group's committed offset or the reset
policy gives one) and loses it by a reset. `fetch_offset` runs ahead of the position by what is buffered.
Whatever moves the position from outside (a seek, a reset, a new assignment) makes a new `era`: answers to
fetches of an older one are thrown away. No two eras have one number, whichever state they belong to: a
partition that is lost and comes back has a new state, and must not take what was fetched for the old one.
"""

import itertools
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Final

from headrace.base.ids import NO_EPOCH, TopicPartition
from headrace.clients.consuming.records import Chunk, ConsumedRecord

NO_OFFSET: Final = -1
NO_REPLICA: Final = -1

EARLIEST: Final = -2
LATEST: Final = -1

_ERAS: Final = itertools.count()

NO_END: Final = (1 << 63) - 1


@dataclass(slots=True)
class PartitionState:
    """One assigned partition."""

    partition: TopicPartition
    position: int = NO_OFFSET
    position_epoch: int = NO_EPOCH  # leader epoch of the record before the position
    fetch_offset: int = NO_OFFSET
    fetch_epoch: int = NO_EPOCH
    fetch_until: int = NO_END  # nothing is fetched from here on: for who reads a range
    leader_epoch: int = NO_EPOCH  # for which the position was validated (KIP-320)
    reset_to: int | None = None  # a time, EARLIEST or LATEST: the position is to be found there
    must_validate: bool = False
    is_paused: bool = False
    era: int = field(default_factory=_ERAS.__next__)
    retry_at_ms: float = 0.0
    failures: int = 0
    high_watermark: int = NO_OFFSET
    last_stable_offset: int = NO_OFFSET
    log_start_offset: int = NO_OFFSET
    preferred_replica: int = NO_REPLICA
    preferred_until_ms: float = 0.0
    chunks: deque[Chunk] = field(default_factory=deque)
    buffered_bytes: int = 0
    rows: list[ConsumedRecord] = field(default_factory=list)
    rows_at: int = 0
    rows_end: int = NO_OFFSET  # the position behind the last of the rows
    rows_epoch: int = NO_EPOCH
    # The sync face takes rows in its caller's thread. All else happens on the loop; what would pull the rest
    # away from under a taker holds this.
    lock: AbstractContextManager[Any] = field(default_factory=threading.RLock, repr=False, compare=False)

    @property
    def has_position(self) -> bool:
        return self.position != NO_OFFSET and self.reset_to is None

    @property
    def has_data(self) -> bool:
        return bool(self.chunks) or self.rows_at < len(self.rows)

    def seek(self, offset: int, epoch: int = NO_EPOCH) -> None:
        """Go on reading here."""
        with self.lock:
            self.discard()
            self.position = self.fetch_offset = offset
            self.position_epoch = self.fetch_epoch = epoch
            self.reset_to = None
        self.must_validate = epoch != NO_EPOCH
        self.leader_epoch = NO_EPOCH
        self.retry_at_ms, self.failures = 0.0, 0

    def reset(self, to: int) -> None:
        """Find the position anew: at a time, the beginning or the end."""
        with self.lock:
            self.discard()
            self.reset_to = to
        self.retry_at_ms, self.failures = 0.0, 0

    def discard(self) -> None:
        """Drop what was fetched ahead; answers that are under way will be ignored."""
        with self.lock:
            self.era = next(_ERAS)
            self.chunks.clear()
            self.buffered_bytes = 0
            self.rows, self.rows_at = [], 0
            self.fetch_offset, self.fetch_epoch = self.position, self.position_epoch

    def add(self, chunk: Chunk, end: int, epoch: int) -> None:
        """Something was fetched, up to the offset `end`."""
        chunk.end, chunk.epoch = end, epoch
        with self.lock:
            self.chunks.append(chunk)
            self.buffered_bytes += chunk.size
            self.fetch_offset, self.fetch_epoch = end, epoch

    def chunk_done(self) -> None:
        """The first chunk is read. Under the lock where that is not done on the loop."""
        self.buffered_bytes -= self.chunks.popleft().size
        if not self.chunks and self.rows_at >= len(self.rows):
            # Control batches and aborted ones at the end are passed without a record.
            self.position, self.position_epoch = self.fetch_offset, self.fetch_epoch


class Positions:
    """All assigned partitions."""

    def __init__(self) -> None:
        self.states: dict[TopicPartition, PartitionState] = {}

    def __iter__(self) -> Iterator[PartitionState]:
        return iter(self.states.values())

    def __contains__(self, partition: object) -> bool:
        return partition in self.states

    def get(self, partition: TopicPartition) -> PartitionState | None:
        return self.states.get(partition)

    @property
    def partitions(self) -> set[TopicPartition]:
        return set(self.states)

    def replace(self, partitions: Iterable[TopicPartition]) -> None:
        """Assign exactly these; those that stay keep their positions."""
        self.states = {each: self.states.get(each) or PartitionState(each) for each in partitions}

    def add(self, partitions: Iterable[TopicPartition]) -> None:
        for each in partitions:
            self.states.setdefault(each, PartitionState(each))

    def remove(self, partitions: Iterable[TopicPartition]) -> None:
        for each in partitions:
            self.states.pop(each, None)

    def rotate(self, partition: TopicPartition) -> None:
        """Put a partition that was just read behind the others, so that all get their turn."""
        state = self.states.pop(partition, None)
        if state is not None:
            self.states[partition] = state

    def buffered_bytes(self) -> int:
        return sum(state.buffered_bytes for state in self.states.values())
