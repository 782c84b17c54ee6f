"""Incremental fetch sessions (KIP-227): what a fetcher asked for is remembered, so that both sides only say
what changed.

A full fetch (epoch 0) names all partitions and opens a session where the cache has room. After it the client
sends the session's id with epochs 1, 2, 3 ...: the partitions it names are added or changed, the forgotten
ones are dropped, the rest stand. The reply only names partitions with something new: records, an error, a
moved high watermark, last stable offset or log start, a preferred replica or a diverging epoch. Epoch -1
closes a session and asks without one. An epoch that is not the expected one means that a request or reply
was lost: the client starts again with a full fetch.

Partitions that gave records move to the end of their session, so that a reply which is full before it reaches
all of them begins with others next time.

The cache is bounded. When it is full, a new session takes the place of one that is unused for longer than the
eviction time; or else of the smallest one that is smaller than itself and has lived for that time.
Followers are privileged: no consumer displaces a follower's session, and a follower displaces a consumer's
of any age.

How the Fetch handler uses it:

    fetch = parts.sessions.begin(request, version, now_ms, follower=is_follower)
    if isinstance(fetch, FetchResponse):
        return fetch                                   # the session is not what the client believes
    for wanted in fetch.partitions:                    # in the order of fairness
        ... read wanted.topic or wanted.topic_id, wanted.partition from wanted.fetch_offset ...
    return fetch.finish([(wanted, PartitionData(...)), ...], now_ms)

`finish` is called once, when the reply leaves: for a fetch that waits that is after other requests came.
Pure data: time comes in with each call, chance with the constructor.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final, TypeAlias

from headrace.base.error_codes import ErrorCode
from headrace.server.long_requests import SLICE_ITEMS, Slices
from headrace.server.request_pieces import split
from headrace.wire.schemas.fetch import (
    TOPIC_ID_SINCE,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    PartitionData,
)

if TYPE_CHECKING:
    from headrace.replication.partition import Partition

NO_SESSION: Final = 0
INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
_INT32_MAX: Final = 2**31 - 1
_UNKNOWN: Final = -1

PartitionKey: TypeAlias = tuple[str | bytes, int]
"""The topic's name or, from v13 on, its id; and the partition."""


def epoch_after(epoch: int) -> int:
    """The epoch that must follow: it grows, and begins again at 1 because 0 opens a session."""
    if epoch < 0:
        return FINAL_EPOCH
    return 1 if epoch == _INT32_MAX else epoch + 1


class CachedPartition:
    """A partition that a fetcher follows: what it asked last, and what it was told last."""

    __slots__ = (
        "current_leader_epoch",
        "fetch_offset",
        "follower_high_watermark",
        "follower_log_start_offset",
        "key",
        "last_fetched_epoch",
        "max_bytes",
        "noted_offset",
        "partition",
        "replica",
        "told_high_watermark",
        "told_last_stable_offset",
        "told_log_start_offset",
        "topic",
        "topic_id",
    )

    def __init__(self, topic: str, topic_id: bytes, key: PartitionKey, wish: FetchPartition) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.partition = wish.partition
        self.key = key
        self.told_high_watermark = _UNKNOWN
        self.told_last_stable_offset = _UNKNOWN
        self.told_log_start_offset = _UNKNOWN
        # Of a follower: the replica it follows; what that has noted of it is in `noted_offset`.
        self.replica: Partition | None = None
        self.fetch_offset = wish.fetch_offset
        self.ask(wish)

    def __repr__(self) -> str:
        return f"<{self.topic or self.topic_id.hex()}-{self.partition} from {self.fetch_offset}>"

    def ask(self, wish: FetchPartition) -> None:
        """Take over what the request says now."""
        self.current_leader_epoch = wish.current_leader_epoch
        if self.replica is not None and self.told_high_watermark > self.fetch_offset:
            # A follower that was told while it had less than that may have kept no more of it than it had.
            self.told_high_watermark = _UNKNOWN
        self.fetch_offset = wish.fetch_offset
        self.last_fetched_epoch = wish.last_fetched_epoch
        self.follower_log_start_offset = wish.log_start_offset
        self.follower_high_watermark = wish.high_watermark
        self.max_bytes = wish.partition_max_bytes
        self.noted_offset = _UNKNOWN

    def is_news(self, data: PartitionData) -> bool:
        """Whether the fetcher would learn something from this."""
        return (
            has_records(data)
            or data.error_code != 0
            or data.high_watermark != self.told_high_watermark
            or data.log_start_offset != self.told_log_start_offset
            or data.last_stable_offset != self.told_last_stable_offset
            or data.preferred_read_replica >= 0
            or _diverges(data)
        )

    def told(self, data: PartitionData) -> None:
        """Remember what the reply says. After an error all counts as new once it is gone, and so it does for
        a log that parts from the leader's: its follower cuts it back and looks at nothing else."""
        unheard = data.error_code or _diverges(data)
        self.told_high_watermark = _UNKNOWN if unheard else data.high_watermark
        self.told_last_stable_offset = data.last_stable_offset
        self.told_log_start_offset = data.log_start_offset


def _diverges(data: PartitionData) -> bool:
    return data.diverging_epoch is not None and data.diverging_epoch.epoch >= 0


Answer: TypeAlias = tuple[CachedPartition, PartitionData]


def has_records(data: PartitionData) -> bool:
    """Whether there are bytes of records; a list of chunks counts by its bytes."""
    records = data.records
    if records is None:
        return False
    if isinstance(records, list):
        return any(map(len, records))
    return len(records) > 0


class FetchSession:
    """What one fetcher follows, and which of its requests comes next."""

    __slots__ = (
        "created_ms",
        "epoch",
        "id",
        "on_next_request",
        "partitions",
        "privileged",
        "used_ms",
        "uses_topic_ids",
    )

    def __init__(
        self,
        session_id: int,
        partitions: dict[PartitionKey, CachedPartition],
        *,
        privileged: bool,
        uses_topic_ids: bool,
        now_ms: int,
    ) -> None:
        self.id = session_id
        self.epoch = 1
        self.partitions = partitions
        self.privileged = privileged
        self.uses_topic_ids = uses_topic_ids
        self.created_ms = now_ms
        self.used_ms = now_ms
        self.on_next_request: Callable[[], object] | None = None

    @property
    def worth(self) -> tuple[bool, int]:
        """The least of these goes first: a consumer's before a follower's, a small one before a large one."""
        return self.privileged, len(self.partitions)

    def update(self, request: FetchRequest) -> None:
        """Take over what an incremental request adds, changes and forgets."""
        partitions = self.partitions
        for topic in request.topics:
            name: str | bytes = topic.topic_id if self.uses_topic_ids else topic.topic
            for wish in topic.partitions:
                key = (name, wish.partition)
                known = partitions.get(key)
                if known is None:
                    partitions[key] = CachedPartition(topic.topic, topic.topic_id, key, wish)
                else:
                    known.ask(wish)
        for forgotten in request.forgotten_topics_data:
            name = forgotten.topic_id if self.uses_topic_ids else forgotten.topic
            for index in forgotten.partitions:
                partitions.pop((name, index), None)


class FetchContext:
    """A fetch that stands alone: all that it wants is in its request, and all of it is answered."""

    __slots__ = ("_wanted", "partitions")

    def __init__(self, wanted: dict[PartitionKey, CachedPartition]) -> None:
        self._wanted = wanted
        self.partitions = list(wanted.values())
        """What to read, in the order in which it should get its share of the reply."""

    def on_next_request(self, act: Callable[[], object]) -> None:
        """Have `act` called before the session's next request is taken in, if that comes before the reply."""

    def finish(self, answers: Sequence[Answer], now_ms: int) -> FetchResponse:
        """The reply, with the partitions that have something to say."""
        return FetchResponse(responses=_by_topic(answers))

    def throttled(self, throttle_ms: int) -> FetchResponse:
        """An empty reply in place of `finish`: the client asks for the same again when the time is over."""
        return FetchResponse(throttle_time_ms=throttle_ms)


class FullFetchContext(FetchContext):
    """A full fetch that opens a session, if the cache has room for it when the reply leaves."""

    __slots__ = ("_privileged", "_sessions", "_uses_topic_ids")

    def __init__(
        self,
        wanted: dict[PartitionKey, CachedPartition],
        sessions: FetchSessionCache,
        *,
        privileged: bool,
        uses_topic_ids: bool,
    ) -> None:
        super().__init__(wanted)
        self._sessions = sessions
        self._privileged = privileged
        self._uses_topic_ids = uses_topic_ids

    def finish(self, answers: Sequence[Answer], now_ms: int) -> FetchResponse:
        for wanted, data in answers:
            wanted.told(data)
        session_id = self._sessions.open(
            self._wanted, privileged=self._privileged, uses_topic_ids=self._uses_topic_ids, now_ms=now_ms
        )
        return FetchResponse(session_id=session_id, responses=_by_topic(answers))


class IncrementalFetchContext(FetchContext):
    """A fetch within a session: answered with what is new."""

    __slots__ = ("_epoch", "_session")

    def __init__(self, session: FetchSession) -> None:
        super().__init__(session.partitions)
        self._session = session
        self._epoch = session.epoch

    def on_next_request(self, act: Callable[[], object]) -> None:
        self._session.on_next_request = act

    def finish(self, answers: Sequence[Answer], now_ms: int) -> FetchResponse:
        session = self._session
        if session.epoch != self._epoch:
            # The client went on without this reply: what it would be told now, it has been told already.
            return FetchResponse(error_code=ErrorCode.INVALID_FETCH_SESSION_EPOCH, session_id=session.id)
        news: list[Answer] = []
        partitions = session.partitions
        for answer in answers:
            wanted, data = answer
            if wanted.is_news(data):
                wanted.told(data)
                news.append(answer)
                if has_records(data) and partitions.pop(wanted.key, None) is not None:
                    partitions[wanted.key] = wanted
        return FetchResponse(session_id=session.id, responses=_by_topic(news))

    def throttled(self, throttle_ms: int) -> FetchResponse:
        session = self._session
        code = 0 if session.epoch == self._epoch else ErrorCode.INVALID_FETCH_SESSION_EPOCH
        return FetchResponse(throttle_time_ms=throttle_ms, error_code=code, session_id=session.id)


def _by_topic(answers: Sequence[Answer]) -> list[FetchableTopicResponse]:
    """Neighbours of one topic under one heading; the order of the partitions stays."""
    topics: list[FetchableTopicResponse] = []
    last: str | bytes | None = None
    for wanted, data in answers:
        name = wanted.key[0]
        if name != last or not topics:
            topics.append(FetchableTopicResponse(topic=wanted.topic, topic_id=wanted.topic_id))
            last = name
        topics[-1].partitions.append(data)
    return topics


def _wanted(request: FetchRequest, by_id: bool) -> dict[PartitionKey, CachedPartition]:
    """What a full fetch asks for."""
    return {
        (key := (topic.topic_id if by_id else topic.topic, wish.partition)): CachedPartition(
            topic.topic, topic.topic_id, key, wish
        )
        for topic in request.topics
        for wish in topic.partitions
    }


class FetchSessionCache:
    """The cache of sessions. Settings: max.incremental.fetch.session.cache.slots and Kafka's eviction
    time.
    """

    def __init__(self, rng: random.Random, *, slots: int = 1000, eviction_ms: int = 120_000) -> None:
        self._rng = rng
        self._slots = slots
        self._eviction_ms = eviction_ms
        self._sessions: dict[int, FetchSession] = {}  # the longest unused first

    def __len__(self) -> int:
        return len(self._sessions)

    def begin(
        self,
        request: FetchRequest,
        version: int,
        now_ms: int,
        *,
        follower: bool = False,
        wanted: dict[PartitionKey, CachedPartition] | None = None,
    ) -> FetchContext | FetchResponse:
        """Place a request in its session. A response means that the session is not what the client
        believes. `wanted` is what a full fetch asks for, where that was gathered before.
        """
        by_id = version >= TOPIC_ID_SINCE
        if request.session_epoch not in (INITIAL_EPOCH, FINAL_EPOCH):
            return self._go_on(request, by_id, now_ms)
        # A full fetch ends whatever session it names, whatever its epoch is.
        self._sessions.pop(request.session_id, None)
        if wanted is None:
            wanted = _wanted(request, by_id)
        if request.session_epoch == FINAL_EPOCH:
            return FetchContext(wanted)
        return FullFetchContext(wanted, self, privileged=follower, uses_topic_ids=by_id)

    def begin_in_slices(
        self, request: FetchRequest, version: int, now_ms: int
    ) -> Slices[FetchContext | FetchResponse]:
        """The same for a consumer that names many partitions."""
        by_id = version >= TOPIC_ID_SINCE
        if request.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            wanted: dict[PartitionKey, CachedPartition] = {}
            for piece, _ in split(request, ("topics", "partitions"), SLICE_ITEMS):
                wanted.update(_wanted(piece, by_id))
                yield
            return self.begin(request, version, now_ms, wanted=wanted)
        session = self._session(request, by_id)
        if isinstance(session, FetchResponse):
            return session
        for piece, _ in split(
            replace(request, forgotten_topics_data=[]), ("topics", "partitions"), SLICE_ITEMS
        ):
            session.update(piece)
            yield
        return self.begin(replace(request, topics=[]), version, now_ms)

    def _session(self, request: FetchRequest, by_id: bool) -> FetchSession | FetchResponse:
        session = self._sessions.get(request.session_id)
        if session is None:
            return FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if session.epoch != request.session_epoch:
            return FetchResponse(error_code=ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if session.uses_topic_ids != by_id:
            # The client changed its version within a session (the cluster was up- or downgraded).
            return FetchResponse(error_code=ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        return session

    def _go_on(self, request: FetchRequest, by_id: bool, now_ms: int) -> FetchContext | FetchResponse:
        session = self._session(request, by_id)
        if isinstance(session, FetchResponse):
            return session
        if session.on_next_request is not None:
            hurry, session.on_next_request = session.on_next_request, None
            hurry()
        session.update(request)
        del self._sessions[session.id]
        if not session.partitions:
            return FetchContext({})
        self._sessions[session.id] = session
        session.used_ms = now_ms
        session.epoch = epoch_after(session.epoch)
        return IncrementalFetchContext(session)

    def open(
        self,
        partitions: dict[PartitionKey, CachedPartition],
        *,
        privileged: bool,
        uses_topic_ids: bool,
        now_ms: int,
    ) -> int:
        """A new session's id, or NO_SESSION where the cache is full of better ones."""
        worth = (privileged, len(partitions))
        if len(self._sessions) >= self._slots and not self._evict_for(worth, now_ms):
            return NO_SESSION
        session_id = NO_SESSION
        while session_id == NO_SESSION or session_id in self._sessions:
            session_id = self._rng.randint(1, _INT32_MAX)
        self._sessions[session_id] = FetchSession(
            session_id, partitions, privileged=privileged, uses_topic_ids=uses_topic_ids, now_ms=now_ms
        )
        return session_id

    def _evict_for(self, worth: tuple[bool, int], now_ms: int) -> bool:
        """Make room for a session of this worth."""
        stalest = next(iter(self._sessions.values()), None)
        if stalest is None:
            return False
        if now_ms - stalest.used_ms <= self._eviction_ms:
            privileged = worth[0]
            old = [
                session
                for session in self._sessions.values()
                if now_ms - session.created_ms > self._eviction_ms or (privileged and not session.privileged)
            ]
            stalest = min(old, key=lambda session: (session.worth, session.id), default=None)
            if stalest is None or stalest.worth >= worth:
                return False
        del self._sessions[stalest.id]
        return True
