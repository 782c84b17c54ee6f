"""Following one leader node: what to ask of it next, and what its answers mean. A core: no clock, no socket.

One fetcher asks for all partitions that a node leads and this one follows, in one fetch session (KIP-227):
the leader remembers what was asked, and only what changed is said. Each wish carries the leader epoch that
this node knows and the epoch of its last record, so that a leader that is none any more refuses, and one
whose log is another says where they part (KIP-320, KIP-595).

    asked = fetcher.next_request(now_ms)                   # None: nothing to ask now; see due_ms
    fetcher.take(asked, response, now_ms, wall_ms)         # or fetcher.failed(asked, now_ms)

A second Fetch may follow one that is under way, if partitions came meanwhile: a leader of ours answers the
first at once then, and nobody waits for a long poll that was begun without them.

A partition that fails is left out for a while, which grows; the others go on. One whose offset the leader
does not have is asked about (`resuming`). What the remote store must tell is in `tails_wanted`; the driver
brings it (`take_tail`). Answers to what is no longer so (another epoch, another end of the log) are dropped.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final, NamedTuple

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.base.ids import TopicId
from headrace.replication.fetch_session import FetchSession, Key, Wish
from headrace.replication.following import cut_back, start_behind_remote, take_records
from headrace.replication.partition import Partition
from headrace.replication.questions import Answer, Need, Request, Response, answers_in, question
from headrace.replication.resuming import NoTails, TailFinder, is_empty_and_tiered, learn
from headrace.tiered.remote_segment import RemoteSegment
from headrace.tiered.tails import Tail
from headrace.wire.schemas.fetch import FetchRequest, FetchResponse, PartitionData, ReplicaState

logger = logging.getLogger(__name__)

# After a failure; it doubles with each. A leader may hear of its election a moment after its followers do.
FIRST_PAUSE_MS: Final = 10
# For a partition whose throttle is used up.
THROTTLED_PAUSE_MS: Final = 100

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


class Followed:
    """A partition that follows the node, in one leader epoch."""

    __slots__ = (
        "failures",
        "key",
        "leader_epoch",
        "leader_start",
        "need",
        "not_before_ms",
        "partition",
        "tail",
        "tail_epoch",
        "tail_offset",
    )

    def __init__(self, partition: Partition) -> None:
        self.partition = partition
        self.key = key_of(partition)
        self.leader_epoch = partition.leader_epoch
        self.leader_start = -1
        self.need: Need | None = None
        self.failures = 0
        self.not_before_ms = 0
        # Where to start behind the remote tier, the epoch of the record before, and the segment that has it.
        self.tail_offset = 0
        self.tail_epoch = -1
        self.tail: RemoteSegment | None = None

    @property
    def is_current(self) -> bool:
        """Whether an answer in this epoch can still be taken."""
        log = self.partition.log
        return self.partition.leader_epoch == self.leader_epoch and log is not None and log.failure is None


class Asked(NamedTuple):
    """A request, its number among those of its fetcher, the session and the partitions it is about."""

    request: Request
    number: int
    session: FetchSession
    about: tuple[Followed, ...] = ()


class Throttle:
    """What bounds the fetcher besides its limits: by default nothing."""

    def allows(self, partition: Partition, now_ms: int) -> bool:
        """Whether more of this partition may be fetched now."""
        return True

    def note(self, partition: Partition, size: int, now_ms: int) -> None:
        """So many bytes of it came."""


def key_of(partition: Partition) -> Key:
    return partition.topic_id, partition.topic_partition.partition


class Fetcher:
    """All that this node follows of one other."""

    def __init__(
        self,
        *,
        node_id: int,
        limits: FetchLimits,
        throttle: Throttle | None = None,
        tails: TailFinder | None = None,
    ) -> None:
        self._node_id = node_id
        self._limits = limits
        self._throttle = throttle or Throttle()
        self._tails = tails or NoTails()
        self.tails_wanted: list[Followed] = []
        self.broker_epoch = -1
        self._followed: dict[Key, Followed] = {}
        self._paused: dict[Key, Followed] = {}
        self._to_ask: dict[Key, Followed] = {}
        self._session = FetchSession()
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
        self._followed[key] = Followed(partition)
        if self._limits.starts_behind_tiered() and is_empty_and_tiered(partition):
            self._followed[key].need = Need.PENDING_UPLOAD
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

    def next_request(self, now_ms: int) -> Asked | None:
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
                if each.need is not None:
                    self._to_ask[key] = each
        return self._next_question() or self._next_fetch()

    def _next_question(self) -> Asked | None:
        need = next((each.need for each in self._to_ask.values()), None)
        if need is None:
            return None
        about = tuple(each for each in self._to_ask.values() if each.need is need)
        for each in about:
            del self._to_ask[each.key]
        request = question(need, about, node_id=self._node_id)
        return Asked(request, self._next_number(), self._session, about)

    def _next_fetch(self) -> Asked | None:
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
            request, self._followed, self._wish, number=number, partition_bytes=limits.partition_bytes
        ):
            return None
        self._came = False
        self._under_way.add(number)
        return Asked(request, number, session)

    def _wish(self, key: Key) -> Wish | None:
        """What to ask of a partition now; None where it cannot take anything, or should not."""
        followed = self._followed.get(key)
        if followed is None or followed.need is not None or key in self._paused:
            return None
        partition = followed.partition
        log = partition.log
        if log is None or log.failure is not None or partition.owes_flush:
            return None
        if not self._throttle.allows(partition, self._now_ms):
            followed.not_before_ms = self._now_ms + THROTTLED_PAUSE_MS
            self._paused[key] = followed
            return None
        return Wish(log.log_end_offset, log.epochs.latest, followed.leader_epoch, log.log_start_offset)

    def _next_number(self) -> int:
        self._numbers += 1
        return self._numbers

    # -- answers ---------------------------------------------------------------------------------------------

    def failed(self, asked: Asked, now_ms: int) -> None:
        """No answer, and there will be none: the connection is gone, and the session with it."""
        if asked.about:
            self._ask_again(asked.about)
        self._under_way.discard(asked.number)
        if asked.session is self._session:
            self._begin_session()
            self._pause_all(now_ms)

    def take(self, asked: Asked, response: Response, now_ms: int, wall_ms: int) -> None:
        """An answer. `wall_ms` is the time of day, which logs keep."""
        self._now_ms = now_ms
        if not isinstance(response, FetchResponse):
            for followed, answer in answers_in(response, asked.about):
                if followed.is_current and self._followed.get(followed.key) is followed:
                    self._learn(followed, answer, wall_ms)
            return
        self._under_way.discard(asked.number)
        if asked.session is not self._session:
            return
        if response.error_code:
            was_open = self._session.is_open
            self._begin_session()
            # A session that is lost is opened again at once; one that cannot even be opened, after a while.
            if not was_open or ErrorCode(response.error_code) not in SESSION_ERRORS:
                self._pause_all(now_ms)
            return
        self._failures = 0
        if not self._session.is_open:
            self._session.opened(response.session_id)
        for topic in response.responses:
            for data in topic.partitions:
                self._take_partition(
                    asked.number, (TopicId(topic.topic_id), data.partition_index), data, wall_ms
                )

    def _take_partition(self, number: int, key: Key, data: PartitionData, wall_ms: int) -> None:
        followed, sent = self._followed.get(key), self._session.sent.get(key)
        if followed is None or sent is None or sent.number > number or not followed.is_current:
            return
        log = followed.partition.local_log()
        if log.log_end_offset != sent.wish.offset or followed.leader_epoch != sent.wish.leader_epoch:
            return
        code = ErrorCode(data.error_code)
        if code is ErrorCode.OFFSET_OUT_OF_RANGE:
            followed.need = Need.LOG_START
        elif code is ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE:
            followed.need, followed.leader_start = Need.LOCAL_START, data.log_start_offset
        if code is not ErrorCode.NONE:
            logger.info("%s: the leader answers %s", followed.partition.topic_partition, code.name)
            self._pause(followed)
            return
        try:
            self._go_on(followed, data, wall_ms)
            if log.log_start_offset != sent.wish.log_start:
                self._session.look_at(key)  # DeleteRecords waits to hear that it is done here too
        except ApiError as error:
            logger.error("%s cannot follow its leader: %s", followed.partition.topic_partition, error)
            self._pause(followed)

    def _go_on(self, followed: Followed, data: PartitionData, wall_ms: int) -> None:
        """Take what the leader sent; ApiError where that cannot be."""
        partition = followed.partition
        diverging, records = data.diverging_epoch, data.records
        if diverging is not None:
            logger.info("%s parts from its leader after %s", partition.topic_partition, diverging)
            cut_back(partition, epoch=diverging.epoch, end_offset=diverging.end_offset, now_ms=wall_ms)
            self._session.look_at(followed.key)
            return
        if records is None:
            records = b""
        assert isinstance(records, bytes | memoryview), "records that came by the wire are one piece"
        size = len(records)
        take_records(
            partition,
            records,
            high_watermark=data.high_watermark,
            log_start_offset=data.log_start_offset,
            now_ms=wall_ms,
        )
        followed.failures = 0
        if size:
            self._session.look_at(followed.key)
            self._throttle.note(partition, size, self._now_ms)

    def _learn(self, followed: Followed, answer: Answer, wall_ms: int) -> None:
        """The answer to a question about a partition whose offset the leader does not have."""
        try:
            learn(followed, answer, self._tails, wall_ms=wall_ms)
            if followed.need is Need.TAIL:
                self.tails_wanted.append(followed)
            elif followed.need is not None:
                self._to_ask[followed.key] = followed
        except ApiError as error:
            logger.info("%s does not know where to go on: %s", followed.partition.topic_partition, error)
            self._pause(followed)
        self._session.look_at(followed.key)
        self._came = True

    def take_tail(self, followed: Followed, tail: Tail | None, now_ms: int, wall_ms: int) -> None:
        """What was wanted of the remote store; None where it could not be had."""
        if self._followed.get(followed.key) is not followed or not followed.is_current:
            return
        self._now_ms = now_ms
        followed.need = None
        try:
            if tail is None:
                followed.need = Need.LOCAL_START
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

    def _pause(self, followed: Followed) -> None:
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
        self._session = FetchSession()

    def _ask_again(self, about: tuple[Followed, ...]) -> None:
        for each in about:
            if self._followed.get(each.key) is each and each.need is not None:
                self._to_ask[each.key] = each
