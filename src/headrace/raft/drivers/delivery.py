"""Committed records on their way to those who follow the metadata log, and the answers that wait for them.

A leader has what it wrote in memory until it is committed; what earlier epochs or other leaders wrote is read
from the log. Either way everybody gets every batch once, in the log's order, before whoever appended it is
answered.

A snapshot comes in slices, which the listeners prepare beside what they have; when they have all of them
they change over at once, so that nobody ever sees half of it. What must be read from the log comes in slices
of whole batches.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

from headrace.base.errors import ApiError
from headrace.raft.metadata_log import MetadataLog
from headrace.raft.records import read_data
from headrace.raft.snapshots import Snapshot

logger = logging.getLogger(__name__)

Record = Any
"""One of the classes in `wire.schemas.metadata_records`."""


@dataclass(frozen=True, slots=True)
class Commit:
    """A committed batch of metadata records. `size` is what it takes on disk. One that has none is the
    quorum's own, and tells the kraft.version that is in force after it."""

    first_offset: int
    last_offset: int
    epoch: int
    timestamp_ms: int
    records: Sequence[Record]
    size: int
    kraft_version: int | None = None


SLICE_RECORDS: Final = 500
"""Records of a snapshot, or about as many of the log, that are handed over in one turn of the loop: some ten
milliseconds."""


class RaftListener(Protocol):
    """Who follows the metadata log. Calls come on the loop, in the log's order."""

    def prepare(self, snapshot: Snapshot, records: Sequence[Record]) -> None:
        """A slice of a snapshot that is about to be loaded, the first one empty. Another snapshot's means
        that the one before will not be."""
        ...

    def handle_load_snapshot(self, snapshot: Snapshot) -> None:
        """Forget everything, and begin with this, all of which was prepared."""
        ...

    def handle_commit(self, commit: Commit) -> None: ...

    def handle_leader_change(self, leader_id: int, epoch: int) -> None:
        """The quorum has another leader, or none that is known (-1). The leader itself is told once all
        that was written before its time has been handed over."""
        ...


@dataclass(slots=True)
class _UncommittedBatch:
    """An appended batch that is not committed yet."""

    commit: Commit
    answer: "asyncio.Future[int] | None"


class CommitDelivery:
    """Who is told, and how far they were."""

    def __init__(self, log: MetadataLog) -> None:
        self._log = log
        self._listeners: list[RaftListener] = []
        self._waiting: deque[_UncommittedBatch] = deque()
        self._told: tuple[int, int] | None = None
        self.delivered = 0
        """Everything below this offset was handed over."""
        self._loading: tuple[Snapshot, Iterator[list[Record]]] | None = None

    def register_listener(self, listener: RaftListener) -> None:
        self._listeners.append(listener)

    @property
    def loading(self) -> bool:
        """Whether a snapshot is being prepared. Nothing else is handed over meanwhile."""
        return self._loading is not None

    def begin(self) -> None:
        """Start with what the log starts with."""
        if self._log.loaded is not None:
            self.load(self._log.loaded)
        else:
            self.delivered = self._log.log.log_start_offset

    def load(self, snapshot: Snapshot) -> None:
        """Begin anew with a snapshot; each `deliver` hands over a slice of it."""
        self._loading = snapshot, snapshot.slices(SLICE_RECORDS)
        self._prepare(snapshot, ())

    def _prepare(self, snapshot: Snapshot, records: Sequence[Record]) -> None:
        for listener in self._listeners:
            listener.prepare(snapshot, records)

    def _load_slice(self, snapshot: Snapshot, left: Iterator[list[Record]]) -> None:
        records = next(left, None)
        if records is not None:
            self._prepare(snapshot, records)
            return
        self._loading = None
        self.delivered = snapshot.id.end_offset
        for listener in self._listeners:
            listener.handle_load_snapshot(snapshot)
        snapshot.forget_records()

    def expect(self, commit: Commit, answer: "asyncio.Future[int] | None" = None) -> None:
        """A batch was appended by this node; `answer` is for when it is committed."""
        self._waiting.append(_UncommittedBatch(commit, answer))

    def deliver(self, committed_to: int) -> bool:
        """Hand over what is below an offset, then answer those who wait for it. Where a snapshot or much of
        the log is to be read, that is a slice of it: True says that there is more."""
        if self._loading is not None:
            self._load_slice(*self._loading)
            return True
        in_memory = self._waiting[0].commit.first_offset if self._waiting else committed_to
        count = 0
        for commit in self._read(min(in_memory, committed_to)):
            self._hand_over(commit)
            count += len(commit.records)
            if count >= SLICE_RECORDS:
                return True
        while self._waiting and self._waiting[0].commit.last_offset < committed_to:
            waiting = self._waiting.popleft()
            self._hand_over(waiting.commit)
            if waiting.answer is not None and not waiting.answer.done():
                waiting.answer.set_result(waiting.commit.last_offset)
        return False

    def tell_leader(self, leader_id: int, epoch: int) -> None:
        """Say who leads, unless that is known."""
        if self._told != (leader_id, epoch):
            self._told = (leader_id, epoch)
            if leader_id >= 0:
                logger.info("node %d leads the quorum in epoch %d", leader_id, epoch)
            else:
                logger.info("nobody leads the quorum yet in epoch %d", epoch)
            for listener in self._listeners:
                listener.handle_leader_change(leader_id, epoch)

    def refuse(self, error: ApiError) -> None:
        """Nobody knows any more whether what waits will be committed."""
        while self._waiting:
            answer = self._waiting.popleft().answer
            if answer is not None and not answer.done():
                answer.set_exception(error)

    def _read(self, end: int) -> Iterator[Commit]:
        """Committed batches that are not in memory."""
        for header, batch in self._log.batches_between(self.delivered, end):
            yield Commit(
                header.base_offset,
                header.last_offset,
                header.leader_epoch,
                header.max_timestamp,
                () if header.is_control else read_data(batch),
                size=header.size,
            )

    def _hand_over(self, commit: Commit) -> None:
        self.delivered = commit.last_offset + 1
        if not commit.records:
            commit = replace(commit, kraft_version=self._log.history.at(self.delivered)[0])
        for listener in self._listeners:
            listener.handle_commit(commit)
