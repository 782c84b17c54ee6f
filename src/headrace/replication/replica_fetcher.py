"""What one leader node is asked next, and what its answers mean: Kafka's ReplicaFetcherThread as a core,
without
clock and socket.

One fetcher asks for all partitions that a node leads and this one follows, in one fetch session (KIP-227):
the leader remembers what was asked, and only what changed is said. Each partition carries the leader epoch
that this node knows and the epoch of its last record, so that a leader that is none any more refuses, and one
whose log is another says where they part (KIP-320, KIP-595).

    asked = fetcher.next_request(now_ms)                   # None: nothing to ask now; see due_ms
    fetcher.take(asked, response, now_ms, wall_ms)         # or fetcher.failed(asked, now_ms)

A second Fetch may follow one that is under way, if partitions came meanwhile: a leader of ours answers the
first at once then, and nobody waits for a long poll that was begun without them.

A partition that fails is left out for a while, which grows; the others go on. One whose offset the leader
does not have is asked about (`follower_log`). What the remote store must tell is in `tails_wanted`; the
driver brings it (`take_tail`). Answers to what is no longer so (another epoch, another end of the log) are
dropped.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import closing
from typing import Final, NamedTuple

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.base.ids import TopicId
from headrace.base.large_memory import LARGE_BYTES
from headrace.replication.follower_log import (
    NoTails,
    Slices,
    TailFinder,
    fetch_offset_and_truncate,
    is_empty_and_tiered,
    process_large_partition_data,
    process_partition_data,
    start_behind_remote,
    truncate_to_leader,
)
from headrace.replication.leader_endpoint import (
    Lookup,
    LookupResult,
    PartitionFetchState,
    Request,
    Response,
    key_of,
    lookup_request,
    lookup_results,
)
from headrace.replication.partition import Partition
from headrace.replication.replica_fetch_session import FetchPosition, Key, ReplicaFetchSession
from headrace.replication.replication_quotas import ReplicaQuota
from headrace.tiered.aux_state import RemoteLogAuxState
from headrace.wire.schemas.fetch import FetchRequest, FetchResponse, PartitionData, ReplicaState

logger = logging.getLogger(__name__)

# After a failure; it doubles with each. A leader may hear of its election a moment after its followers do.
FIRST_PAUSE_MS: Final = 10
# For a partition whose throttle is used up.
THROTTLED_PAUSE_MS: Final = 100

# Of a replica that cannot go on every so many attempts are told: with the longest pause, one every minute.
TELL_FAILURES: Final = 60

SESSION_ERRORS: Final = frozenset(
    {
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
    }
)


class FetchLimits(NamedTuple):
    """Kafka's replica.fetch.* settings; `pause_ms` is how long a partition that fails is left out at most."""

    wait_ms: int = 500
    min_bytes: int = 1
    partition_bytes: int = 1 << 20
    response_bytes: int = 10 << 20
    pause_ms: int = 1_000
    starts_behind_tiered: Callable[[], bool] = bool
    """follower.fetch.last.tiered.offset.enable, which can change while a node runs. By default not."""


class PendingFetch(NamedTuple):
    """A request, its number among those of its fetcher, the session and the partitions it is about."""

    request: Request
    number: int
    session: ReplicaFetchSession
    about: tuple[PartitionFetchState, ...] = ()


class ReplicaFetcher:
    """All that this node follows of one other."""

    def __init__(
        self,
        *,
        node_id: int,
        limits: FetchLimits,
        throttle: ReplicaQuota | None = None,
        tails: TailFinder | None = None,
    ) -> None:
        self._node_id = node_id
        self._limits = limits
        self._throttle = throttle or ReplicaQuota()
        self._tails = tails or NoTails()
        self.tails_wanted: list[PartitionFetchState] = []
        self.broker_epoch = -1
        self._followed: dict[Key, PartitionFetchState] = {}
        self._paused: dict[Key, PartitionFetchState] = {}
        self._to_ask: dict[Key, PartitionFetchState] = {}
        self._session = ReplicaFetchSession()
        self._numbers = 0
        self._under_way: set[int] = set()
        self._came = False
        self._not_before_ms = 0
        self._failures = 0
        self._now_ms = 0

    def __len__(self) -> int:
        return len(self._followed)

    # -- whom to follow --------------------------------------------------------------------------------------

    def follow(self, partition: Partition) -> None:
        """Begin with a partition, or go on with it in a new epoch."""
        key = key_of(partition)
        known = self._followed.get(key)
        same = known is not None and known.partition is partition
        if same and known is not None and known.leader_epoch == partition.leader_epoch:
            return
        self.leave(partition)
        self._followed[key] = PartitionFetchState(partition)
        if self._limits.starts_behind_tiered() and is_empty_and_tiered(partition):
            self._followed[key].lookup = Lookup.PENDING_UPLOAD
            self._to_ask[key] = self._followed[key]
        self._session.look_at(key)
        self._came = True
        self._not_before_ms = 0

    def leave(self, partition: Partition) -> None:
        """Do not follow it any more."""
        key = key_of(partition)
        if self._followed.pop(key, None) is not None:
            self._paused.pop(key, None)
            self._to_ask.pop(key, None)
            self._session.look_at(key)

    def look_again(self, partition: Partition) -> None:
        """It may be able to go on: its log was synced, or its throttle is gone."""
        key = key_of(partition)
        if key in self._followed:
            self._session.look_at(key)
            self._came = True

    # -- asking ----------------------------------------------------------------------------------------------

    def due_ms(self) -> int | None:
        """When there may be something to ask although nothing comes in; None: never."""
        if self._not_before_ms:
            return self._not_before_ms
        return min((each.not_before_ms for each in self._paused.values()), default=None)

    def next_request(self, now_ms: int) -> PendingFetch | None:
        """What to ask next, if anything: questions about single partitions first, then a Fetch."""
        if now_ms < self._not_before_ms:
            return None
        self._not_before_ms = 0
        self._now_ms = now_ms
        for key, each in list(self._paused.items()):
            if each.not_before_ms <= now_ms:
                del self._paused[key]
                self._came = True
                self._session.look_at(key)
                if each.lookup is not None:
                    self._to_ask[key] = each
        return self._next_question() or self._next_fetch()

    def _next_question(self) -> PendingFetch | None:
        lookup = next((each.lookup for each in self._to_ask.values()), None)
        if lookup is None:
            return None
        about = tuple(each for each in self._to_ask.values() if each.lookup is lookup)
        for each in about:
            del self._to_ask[each.key]
        request = lookup_request(lookup, about, node_id=self._node_id)
        return PendingFetch(request, self._next_number(), self._session, about)

    def _next_fetch(self) -> PendingFetch | None:
        session, limits = self._session, self._limits
        if self._under_way and not (len(self._under_way) == 1 and self._came and session.is_open):
            return None
        # An opening is answered at once: what is added while it waits would have to wait too.
        waits = session.is_open or session.is_refused
        request = FetchRequest(
            replica_state=ReplicaState(self._node_id, self.broker_epoch),
            max_wait_ms=limits.wait_ms if waits else 0,
            min_bytes=limits.min_bytes,
            max_bytes=limits.response_bytes,
        )
        number = self._next_number()
        if not session.fill(
            request, self._followed, self._position, number=number, partition_bytes=limits.partition_bytes
        ):
            return None
        self._came = False
        self._under_way.add(number)
        return PendingFetch(request, number, session)

    def _position(self, key: Key) -> FetchPosition | None:
        """What to ask of a partition now; None where it cannot take anything, or should not."""
        followed = self._followed.get(key)
        if followed is None or followed.lookup is not None or key in self._paused:
            return None
        partition = followed.partition
        log = partition.log
        if log is None or log.failure is not None or partition.owes_flush:
            return None
        if not self._throttle.allows(partition, self._now_ms):
            followed.not_before_ms = self._now_ms + THROTTLED_PAUSE_MS
            self._paused[key] = followed
            return None
        return FetchPosition(
            log.log_end_offset,
            log.leader_epoch_cache.latest_epoch,
            followed.leader_epoch,
            log.log_start_offset,
        )

    def _next_number(self) -> int:
        self._numbers += 1
        return self._numbers

    # -- answers ---------------------------------------------------------------------------------------------

    def failed(self, asked: PendingFetch, now_ms: int) -> None:
        """No answer, and there will be none: the connection is gone, and the session with it."""
        if asked.about:
            self._ask_again(asked.about)
        self._under_way.discard(asked.number)
        if asked.session is self._session:
            self._begin_session()
            self._pause_all(now_ms)

    def take(self, asked: PendingFetch, response: Response, now_ms: int, wall_ms: int) -> Slices | None:
        """An answer. `wall_ms` is the time of day, which logs keep. What is large is left for slices: it is
        not asked for again before they are done, or given up."""
        self._now_ms = now_ms
        if not isinstance(response, FetchResponse):
            for followed, answer in lookup_results(response, asked.about):
                if followed.is_current and self._followed.get(followed.key) is followed:
                    self._learn(followed, answer, wall_ms)
            return None
        self._under_way.discard(asked.number)
        if asked.session is not self._session:
            return None
        if response.error_code:
            was_open = self._session.is_open
            self._begin_session()
            # A session that is lost is opened again at once; one that cannot even be opened, after a while.
            if not was_open or ErrorCode(response.error_code) not in SESSION_ERRORS:
                self._pause_all(now_ms)
            return None
        self._failures = 0
        if not self._session.is_open:
            self._session.opened(response.session_id)
        large = []
        for topic in response.responses:
            for data in topic.partitions:
                key = (TopicId(topic.topic_id), data.partition_index)
                if data.records is not None and len(data.records) > LARGE_BYTES:
                    large.append((key, data))
                else:
                    for _ in self._take_partition(asked.number, key, data, wall_ms):
                        raise AssertionError("what is not large is done at once")
        return self._take_large(asked.number, large, wall_ms) if large else None

    def _take_large(self, number: int, large: list[tuple[Key, PartitionData]], wall_ms: int) -> Slices:
        self._under_way.add(number)  # else it would be asked for again meanwhile
        try:
            for key, data in large:
                yield from self._take_partition(number, key, data, wall_ms)
        finally:
            self._under_way.discard(number)

    def _take_partition(self, number: int, key: Key, data: PartitionData, wall_ms: int) -> Slices:
        followed, sent = self._followed.get(key), self._session.sent.get(key)
        if followed is None or sent is None or sent.number > number or not followed.is_current:
            return
        log = followed.partition.local_log()
        if log.log_end_offset != sent.position.offset or followed.leader_epoch != sent.position.leader_epoch:
            return
        code = ErrorCode(data.error_code)
        if code is ErrorCode.OFFSET_OUT_OF_RANGE:
            followed.lookup = Lookup.LOG_START
        elif code is ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE:
            followed.lookup, followed.leader_start = Lookup.LOCAL_START, data.log_start_offset
        if code is not ErrorCode.NONE:
            logger.info("%s: the leader answers %s", followed.partition.topic_partition, code.name)
            self._pause(followed)
            return
        try:
            yield from self._go_on(followed, data, wall_ms)
            if log.log_start_offset != sent.position.log_start:
                self._session.look_at(key)  # DeleteRecords waits to hear that it is done here too
        except ApiError as error:
            if self._followed.get(key) is followed:
                self._tell_failure(followed, error)
                self._pause(followed)

    def _tell_failure(self, followed: PartitionFetchState, error: ApiError) -> None:
        """Once, and then again after every so many attempts."""
        if followed.failures % TELL_FAILURES:
            return
        partition = followed.partition
        end = -1 if partition.log is None else partition.log.log_end_offset
        text = "%s cannot follow its leader, node %d, behind offset %d: %s"
        if error.code is ErrorCode.CORRUPT_MESSAGE:
            text += (
                ". The leader's log is damaged there, or the way to it is. This replica goes on asking; "
                "if it stays so, let another replica lead."
            )
        logger.error(text, partition.topic_partition, partition.leader_id, end, error)

    def _go_on(self, followed: PartitionFetchState, data: PartitionData, wall_ms: int) -> Slices:
        """Take what the leader sent; ApiError where that cannot be."""
        partition = followed.partition
        diverging, records = data.diverging_epoch, data.records
        if diverging is not None:
            logger.info("%s parts from its leader after %s", partition.topic_partition, diverging)
            truncate_to_leader(
                partition, epoch=diverging.epoch, end_offset=diverging.end_offset, now_ms=wall_ms
            )
            self._session.look_at(followed.key)
            return
        if records is None:
            records = b""
        assert isinstance(records, bytes | memoryview), "records that came by the wire are one piece"
        size = len(records)
        leaders_word = {"high_watermark": data.high_watermark, "log_start_offset": data.log_start_offset}
        if size <= LARGE_BYTES:
            process_partition_data(partition, records, now_ms=wall_ms, **leaders_word)
        else:
            slices = process_large_partition_data(partition, records, now_ms=wall_ms, **leaders_word)
            with closing(slices):
                for _ in slices:
                    yield
                    if self._followed.get(followed.key) is not followed or not followed.is_current:
                        return
        if followed.failures:
            logger.info("%s follows its leader again", partition.topic_partition)
        followed.failures = 0
        if size:
            self._session.look_at(followed.key)
            self._throttle.note(partition, size, self._now_ms)

    def _learn(self, followed: PartitionFetchState, answer: LookupResult, wall_ms: int) -> None:
        """The answer to a question about a partition whose offset the leader does not have."""
        try:
            fetch_offset_and_truncate(followed, answer, self._tails, wall_ms=wall_ms)
            if followed.lookup is Lookup.TAIL:
                self.tails_wanted.append(followed)
            elif followed.lookup is not None:
                self._to_ask[followed.key] = followed
        except ApiError as error:
            logger.info("%s does not know where to go on: %s", followed.partition.topic_partition, error)
            self._pause(followed)
        self._session.look_at(followed.key)
        self._came = True

    def take_tail(
        self, followed: PartitionFetchState, tail: RemoteLogAuxState | None, now_ms: int, wall_ms: int
    ) -> None:
        """What was wanted of the remote store; None where it could not be had."""
        if self._followed.get(followed.key) is not followed or not followed.is_current:
            return
        self._now_ms = now_ms
        followed.lookup = None
        try:
            if tail is None:
                followed.lookup = Lookup.LOCAL_START
                self._pause(followed)
            else:
                partition = followed.partition
                start_behind_remote(partition, tail, log_start_offset=followed.leader_start, now_ms=wall_ms)
                logger.info(
                    "%s starts at %d, behind the remote tier", partition.topic_partition, tail.next_offset
                )
        except ApiError as error:
            logger.error("%s cannot start: %s", followed.partition.topic_partition, error)
            self._pause(followed)
        self._session.look_at(followed.key)
        self._came = True

    # -- failures --------------------------------------------------------------------------------------------

    def _pause(self, followed: PartitionFetchState) -> None:
        """Leave a partition out for a while; the others go on."""
        pause_ms = min(FIRST_PAUSE_MS << min(followed.failures, 10), self._limits.pause_ms)
        followed.failures += 1
        followed.not_before_ms = self._now_ms + pause_ms
        self._paused[followed.key] = followed
        self._session.look_at(followed.key)

    def _pause_all(self, now_ms: int) -> None:
        pause_ms = min(FIRST_PAUSE_MS << min(self._failures, 10), self._limits.pause_ms)
        self._failures += 1
        self._not_before_ms = now_ms + pause_ms

    def _begin_session(self) -> None:
        self._session = ReplicaFetchSession()

    def _ask_again(self, about: tuple[PartitionFetchState, ...]) -> None:
        for each in about:
            if self._followed.get(each.key) is each and each.lookup is not None:
                self._to_ask[each.key] = each
