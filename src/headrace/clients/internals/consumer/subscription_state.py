"""What a consumer subscribes to, and where it is in each of its partitions: a core without IO.

A partition is read once it has a position. It has none at first (the group's committed offset or the reset
policy gives one) and loses it by a reset. `fetch_offset` runs ahead of the position by what is buffered.
Whatever moves the position from outside (a seek, a reset, a new assignment) makes a new `era`: answers to
fetches of an older one are thrown away. No two eras have one number, whichever state they belong to: a
partition that is lost and comes back has a new state, and must not take what was fetched for the old one.
"""

import itertools
import re
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, TypeAlias

from headrace.base.ids import NO_EPOCH, TopicPartition
from headrace.base.internal_topics import INTERNAL_TOPICS
from headrace.clients.errors import ClientError
from headrace.clients.internals.arguments import check_topic
from headrace.clients.internals.consumer.completed_fetch import CompletedFetch, ConsumerRecord
from headrace.wire.schemas.metadata import MetadataResponseTopic

NO_OFFSET: Final = -1
NO_REPLICA: Final = -1

EARLIEST: Final = -2
LATEST: Final = -1

_ERAS: Final = itertools.count()

NO_END: Final = (1 << 63) - 1


@dataclass(slots=True)
class TopicPartitionState:
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
    chunks: deque[CompletedFetch] = field(default_factory=deque)
    buffered_bytes: int = 0
    rows: list[ConsumerRecord] = field(default_factory=list)
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

    def add(self, chunk: CompletedFetch, end: int, epoch: int) -> None:
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


class PartitionStates:
    """All assigned partitions, in the order in which they are read."""

    def __init__(self) -> None:
        self.states: dict[TopicPartition, TopicPartitionState] = {}

    def __iter__(self) -> Iterator[TopicPartitionState]:
        return iter(self.states.values())

    def __contains__(self, partition: object) -> bool:
        return partition in self.states

    def get(self, partition: TopicPartition) -> TopicPartitionState | None:
        return self.states.get(partition)

    @property
    def partitions(self) -> set[TopicPartition]:
        return set(self.states)

    def replace(self, partitions: Iterable[TopicPartition]) -> None:
        """Assign exactly these; those that stay keep their positions."""
        self.states = {each: self.states.get(each) or TopicPartitionState(each) for each in partitions}

    def add(self, partitions: Iterable[TopicPartition]) -> None:
        for each in partitions:
            self.states.setdefault(each, TopicPartitionState(each))

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


class RebalanceListener:
    """Hears of partitions that come and go: override what is of interest.

    The names of Kafka's ConsumerRebalanceListener (`on_partitions_assigned`, …) are as good, in any class.
    It is called inside `poll` and `close`; the consumer may be used in it. Methods may be coroutines for an
    `AsyncConsumer`.
    """

    def on_assigned(self, partitions: list[TopicPartition]) -> object:
        """These are read from now on; a seek decides from where."""
        return None

    def on_revoked(self, partitions: list[TopicPartition]) -> object:
        """These are given up next; a commit still counts."""
        return None

    def on_lost(self, partitions: list[TopicPartition]) -> object:
        """These are somebody else's already; nothing can be committed for them."""
        return self.on_revoked(partitions)


class ConsumerRebalanceListener(Protocol):
    """The same by the names that Kafka, kafka-python and aiokafka have for it."""

    def on_partitions_assigned(self, assigned: Any, /) -> object:
        """These are read from now on."""
        ...

    def on_partitions_revoked(self, revoked: Any, /) -> object:
        """These are given up next; what is lost is told here too, unless there is `on_partitions_lost`."""
        ...


Listener: TypeAlias = RebalanceListener | ConsumerRebalanceListener


class _AnyListener(RebalanceListener):
    """Calls a listener by whichever of the two names its methods have."""

    def __init__(self, listener: Listener) -> None:
        calls = {what: self._method(listener, what) for what in ("assigned", "revoked", "lost")}
        if not any(calls.values()):
            raise ClientError(
                f"{type(listener).__name__} is no rebalance listener: it has none of on_assigned, on_revoked "
                "and on_lost, nor of on_partitions_assigned, on_partitions_revoked and on_partitions_lost"
            )
        self._assigned = calls["assigned"] or super().on_assigned
        self._revoked = calls["revoked"] or super().on_revoked
        self._lost = calls["lost"] or self._revoked

    @staticmethod
    def _method(listener: Listener, what: str) -> Callable[[list[TopicPartition]], object] | None:
        own = getattr(listener, f"on_partitions_{what}", None) or getattr(listener, f"on_{what}", None)
        # A class of ours that overrides on_partitions_revoked means it for what is lost too.
        is_default = getattr(own, "__func__", None) is getattr(RebalanceListener, f"on_{what}")
        return own if callable(own) and not is_default else None

    def on_assigned(self, partitions: list[TopicPartition]) -> object:
        return self._assigned(partitions)

    def on_revoked(self, partitions: list[TopicPartition]) -> object:
        return self._revoked(partitions)

    def on_lost(self, partitions: list[TopicPartition]) -> object:
        return self._lost(partitions)


def _listener(given: Listener | None) -> RebalanceListener:
    if given is None or type(given) is RebalanceListener:
        return RebalanceListener()
    return given if isinstance(given, _AnyListener) else _AnyListener(given)


class SubscriptionState:
    """What a consumer wants to read: topics by name, by a pattern, or partitions that it was told.

    A pattern is matched by the coordinator where the group's protocol lets it (`wanted`, in RE2's syntax),
    else here, against the names in the metadata, by Python's own rules.
    """

    def __init__(self) -> None:
        self.topics: set[str] = set()
        self.pattern: re.Pattern[str] | None = None
        self.wanted: str | None = None
        self.listener: RebalanceListener = RebalanceListener()
        self.is_manual = False

    @property
    def is_group(self) -> bool:
        """Whether a group decides which partitions are read."""
        return bool(self.topics) or self.pattern is not None or self.wanted is not None

    def to_names(self, names: Iterable[str], listener: Listener | None) -> None:
        self._refuse_manual()
        wanted = set(names)
        for name in wanted:
            check_topic(name, "a pattern is given by pattern=")
        self.topics, self.pattern, self.wanted = wanted, None, None
        self.listener = _listener(listener)

    def to_pattern(self, pattern: str | re.Pattern[str], listener: Listener | None) -> None:
        self._refuse_manual()
        self.topics, self.pattern, self.wanted = set(), re.compile(pattern), None
        self.listener = _listener(listener)

    def to_coordinators_pattern(self, pattern: str, listener: Listener | None) -> None:
        self._refuse_manual()
        self.topics, self.pattern, self.wanted = set(), None, pattern
        self.listener = _listener(listener)

    def match_here(self) -> None:
        """The coordinator is too old to match a pattern."""
        assert self.wanted is not None
        try:
            self.to_pattern(self.wanted, self.listener)
        except re.error as error:
            what = f"{self.wanted!r} cannot be matched by an older coordinator, nor here"
            raise ClientError(f"{what}: {error}") from None

    def to_partitions(self) -> None:
        if self.is_group:
            raise ClientError("a consumer that subscribes cannot be assigned partitions: unsubscribe first")
        self.is_manual = True

    def clear(self) -> None:
        self.topics, self.pattern, self.wanted, self.is_manual = set(), None, None, False
        self.listener = RebalanceListener()

    def match(self, topics: Mapping[str, MetadataResponseTopic], *, excludes_internal: bool) -> bool:
        """Find the topics of the pattern; whether that changed anything."""
        if self.pattern is None:
            return False
        found = {
            name
            for name, topic in topics.items()
            if self.pattern.fullmatch(name)
            and not (excludes_internal and (topic.is_internal or name in INTERNAL_TOPICS))
        }
        changed, self.topics = found != self.topics, found
        return changed

    def _refuse_manual(self) -> None:
        if self.is_manual:
            raise ClientError("a consumer with assigned partitions cannot subscribe: unsubscribe first")
