"""Committed records on their way to those who follow the metadata log, and the answers that wait for them.

A leader has what it wrote in memory until it is committed; what earlier epochs or other leaders wrote is read
from the log. Either way everybody gets every batch once, in the log's order, before whoever appended it is
answered.
"""

import asyncio
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from headrace.base.errors import ApiError
from headrace.raft.metadata_log import MetadataLog
from headrace.raft.records import read_data
from headrace.raft.snapshots import Snapshot

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


class Subscriber(Protocol):
    """Who follows the metadata log. Calls come on the loop, in the log's order."""

    def load_snapshot(self, snapshot: Snapshot) -> None:
        """Forget everything, and begin with this."""
        ...

    def commit(self, commit: Commit) -> None: ...

    def follow_leader(self, leader_id: int, epoch: int) -> None:
        """The quorum has another leader, or none that is known (-1). The leader itself is told once all
        that was written before its time has been handed over."""
        ...


@dataclass(slots=True)
class _Waiting:
    """An appended batch that is not committed yet."""

    commit: Commit
    answer: "asyncio.Future[int] | None"


class Delivery:
    """Who is told, and how far they were."""

    def __init__(self, log: MetadataLog) -> None:
        self._log = log
        self._subscribers: list[Subscriber] = []
        self._waiting: deque[_Waiting] = deque()
        self._told: tuple[int, int] | None = None
        self.delivered = 0
        """Everything below this offset was handed over."""

    def subscribe(self, subscriber: Subscriber) -> None:
        self._subscribers.append(subscriber)

    def begin(self) -> None:
        """Hand over what the log starts with."""
        if self._log.loaded is not None:
            self.load(self._log.loaded)
        else:
            self.delivered = self._log.log.log_start_offset

    def load(self, snapshot: Snapshot) -> None:
        self.delivered = snapshot.id.end_offset
        for subscriber in self._subscribers:
            subscriber.load_snapshot(snapshot)

    def expect(self, commit: Commit, answer: "asyncio.Future[int] | None" = None) -> None:
        """A batch was appended by this node; `answer` is for when it is committed."""
        self._waiting.append(_Waiting(commit, answer))

    def deliver(self, committed_to: int) -> list[Commit]:
        """Hand over everything below an offset, then answer those who wait for it."""
        handed: list[Commit] = []
        in_memory = self._waiting[0].commit.first_offset if self._waiting else committed_to
        for commit in self._read(min(in_memory, committed_to)):
            self._hand_over(commit)
            handed.append(commit)
        while self._waiting and self._waiting[0].commit.last_offset < committed_to:
            waiting = self._waiting.popleft()
            self._hand_over(waiting.commit)
            handed.append(waiting.commit)
            if waiting.answer is not None and not waiting.answer.done():
                waiting.answer.set_result(waiting.commit.last_offset)
        return handed

    def tell_leader(self, leader_id: int, epoch: int) -> None:
        """Say who leads, unless that is known."""
        if self._told != (leader_id, epoch):
            self._told = (leader_id, epoch)
            for subscriber in self._subscribers:
                subscriber.follow_leader(leader_id, epoch)

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
        for subscriber in self._subscribers:
            subscriber.commit(commit)
