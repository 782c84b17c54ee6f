"""SharePartitionManager: the share partitions that this node leads, and their way to the state that is kept.

A share partition is loaded when it is first asked for. While it loads, who asks waits for the purgatory's key
that is its own; the same key is told when records are there to be handed out again. A leader of another epoch
loads anew. What changes is written one write after the other: what comes while one is under way goes with the
next, all of it in one.
"""

import asyncio
import logging
import random
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

from headrace.base.clock import Clock
from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.coordinators.drivers.persister import PersistedState, Persister
from headrace.coordinators.group.share.share_group_config import ShareGroupConfig, ShareGroupConfigManager
from headrace.coordinators.share.share_coordinator_shard import UNINITIALIZED, SharePartitionKey
from headrace.coordinators.share.state_batches import StateBatch
from headrace.replication.partition import Partition
from headrace.server.purgatory import Purgatory
from headrace.server.share.acquiring import Limits, LogBatch
from headrace.server.share.acquisition_locks import AcquisitionLocks
from headrace.server.share.circuit_breaker import CircuitBreaker
from headrace.server.share.dead_letter_queue import DeadLetterQueue
from headrace.server.share.in_flight_batch import Acquired, RecordState
from headrace.server.share.key_order import LooksFor
from headrace.server.share.share_partition import Acknowledgement, SharePartition, Transition, changes_of
from headrace.server.share.share_sessions import ShareSessionCache
from headrace.telemetry.metrics.share_group_metrics import ShareGroupMetrics
from headrace.transport.backoff import Backoff

logger = logging.getLogger(__name__)

Done = Callable[[ErrorCode, str | None], None]

# What a leader's clients are told of the coordinator's faults, as in Kafka.
_TOLD: Final = {
    ErrorCode.NOT_COORDINATOR: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NETWORK_EXCEPTION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.GROUP_ID_NOT_FOUND: ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.FENCED_LEADER_EPOCH: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.FENCED_STATE_EPOCH: ErrorCode.NOT_LEADER_OR_FOLLOWER,
}

_DURATION: Final = re.compile(
    r"by_duration:P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:([\d.]+)S)?)?", re.IGNORECASE
)

RETRY_MS: Final = 200


class _Write(NamedTuple):
    changes: list[StateBatch]
    done: Callable[[ErrorCode], None]


class LedSharePartition:
    """A share partition in use: the machine, the partition it reads, and what is to be written."""

    __slots__ = ("breaker", "core", "is_fenced", "lock_timeouts", "partition", "under_way", "waiting")

    def __init__(self, core: SharePartition, partition: Partition) -> None:
        self.core = core
        self.partition = partition
        self.breaker = CircuitBreaker()
        self.is_fenced = False
        self.lock_timeouts = 0  # records whose lock ended without an answer
        self.under_way = False
        self.waiting: list[_Write] = []


class SharePartitionManager:
    """All share partitions that are in use on this node, and the sessions that use them."""

    def __init__(
        self,
        *,
        persister: Persister,
        dead_letters: DeadLetterQueue,
        configs: ShareGroupConfigManager,
        sessions_max: int,
        clock: Clock,
        loop: asyncio.AbstractEventLoop,
        rng: random.Random,
        purgatory: Purgatory,
    ) -> None:
        self.sessions = ShareSessionCache(sessions_max)
        self.metrics = ShareGroupMetrics()
        self.configs = configs
        self._persister = persister
        self._dead_letters = dead_letters
        self._clock = clock
        self._loop = loop
        self._rng = rng
        self._purgatory = purgatory
        self._led: dict[SharePartitionKey, LedSharePartition] = {}
        self._loading: dict[SharePartitionKey, int] = {}
        self._failed: dict[SharePartitionKey, ErrorCode] = {}
        self._locks: AcquisitionLocks[LedSharePartition] = AcquisitionLocks(self._call_at, self._expire)
        self._stopped = False

    def stop(self) -> None:
        self._stopped = True
        self._locks.clear()
        self._led.clear()

    def __iter__(self) -> Iterator[LedSharePartition]:
        return iter(self._led.values())

    @property
    def loading(self) -> int:
        """How many share partitions are being loaded."""
        return len(self._loading)

    def config_of(self, group_id: str) -> ShareGroupConfig:
        return self.configs.of(group_id)

    # --- loading ---

    def find(self, key: SharePartitionKey, partition: Partition) -> LedSharePartition | None:
        """The share partition; None while it is loading. ApiError where this node does not lead it, or it
        could not be loaded."""
        log = partition.leading_log()
        led = self._led.get(key)
        if led is not None and led.partition is partition and led.core.leader_epoch == partition.leader_epoch:
            led.core.follow_log_start(log.log_start_offset)
            self._follow_settings(led)
            return led
        if key not in self._failed and self._loading.get(key) != partition.leader_epoch:
            self._load(key, partition)
        failed = self._failed.pop(key, None)
        if failed is not None:
            raise ApiError(_TOLD.get(failed, ErrorCode.UNKNOWN_SERVER_ERROR))
        return self._led.get(key)

    def _follow_settings(self, led: LedSharePartition) -> None:
        config = self.configs.of(led.core.key.group_id)
        if config.is_in_key_order or config.delivers_at:
            looks = LooksFor(config.is_in_key_order, config.delivers_at)
            led.core.order_by_key(config.key_order_records, looks)
        elif led.core.order is not None:
            led.core.order_by_key(0)

    def find_loaded(self, key: SharePartitionKey, partition: Partition) -> LedSharePartition:
        """The share partition of somebody who holds records of it, so that it must be loaded."""
        partition.leading_log()
        led = self._led.get(key)
        if led is None or led.partition is not partition or led.core.leader_epoch != partition.leader_epoch:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return led

    def _load(self, key: SharePartitionKey, partition: Partition) -> None:
        epoch = self._loading[key] = partition.leader_epoch
        self._drop(key)
        began = self._loop.time()

        def heard(state: PersistedState | ErrorCode) -> None:
            if self._loading.get(key) != epoch:
                return  # there was another leader meanwhile
            del self._loading[key]
            try:
                if isinstance(state, ErrorCode):
                    raise ApiError(state)
                self._loaded(key, partition, epoch, state)
                self.metrics.partition_load_ms.observe((self._loop.time() - began) * 1000)
            except ApiError as error:
                self._failed[key] = error.code
            self._purgatory.notify(key)

        self._persister.read(key, epoch, heard)

    def _loaded(
        self, key: SharePartitionKey, partition: Partition, epoch: int, state: PersistedState
    ) -> None:
        is_new = state.start_offset == UNINITIALIZED
        start = self._first_offset(key.group_id, partition) if is_new else state.start_offset
        core = SharePartition(
            key,
            leader_epoch=epoch,
            state_epoch=state.state_epoch,
            start_offset=start,
            batches=state.batches,
            delivery_count_limit=self.configs.of(key.group_id).delivery_count_limit,
        )
        core.follow_log_start(partition.leading_log().log_start_offset)
        led = self._led[key] = LedSharePartition(core, partition)
        self._follow_settings(led)
        logger.info(
            "share partition %s of %s begins at offset %d", key, partition.topic_partition, core.start_offset
        )
        self._dead_letters.look_at(self, led)
        if is_new:  # else the next leader might begin elsewhere, and leave records out
            self._write(led, _Write([], lambda error: None))

    def _first_offset(self, group_id: str, partition: Partition) -> int:
        """Where a new share group begins: `share.auto.offset.reset`."""
        log, reset = partition.leading_log(), self.configs.of(group_id).offset_reset
        if reset == "earliest":
            return log.log_start_offset
        if reset != "latest":
            found = log.offset_for_timestamp(self._clock.now_ms() - _milliseconds(reset))
            if found is not None and found.offset < log.high_watermark:
                return found.offset
        return log.high_watermark

    # --- handing out and taking back ---

    def acquire(
        self, led: LedSharePartition, member_id: str, log_batches: Iterable[LogBatch], limits: Limits
    ) -> list[Acquired]:
        acquired = led.core.acquire(member_id, log_batches, limits)
        if acquired:
            self._locks.add(led, limits.lock_until_ms)
        return acquired

    def acknowledge(
        self, led: LedSharePartition, member_id: str, answers: Iterable[Acknowledgement], done: Done
    ) -> None:
        """Take a member's answers; `done` when they are written, or were refused."""
        config = self.configs.of(led.core.key.group_id)
        until_ms = self._clock.monotonic_ms() + config.lock_duration_ms
        answers = list(answers)
        try:
            transition = led.core.acknowledge(
                member_id,
                answers,
                delivery_count_limit=config.delivery_count_limit,
                renew_until_ms=until_ms if config.may_renew else None,
                given_up=self._dead_letters.given_up(led.core.key.group_id),
            )
        except ApiError as error:
            done(error.code, error.message)
            return
        self._let_rest(led, transition)
        for answer in answers:
            self.metrics.note_acknowledged(*answer)
        if not transition:
            self._locks.add(led, until_ms)
            done(ErrorCode.NONE, None)
            return

        def written(error: ErrorCode) -> None:
            if error is ErrorCode.NONE:
                self._note_outcome(led, transition)
                led.core.commit(transition)
                self.watch_rests(led)
                self._purgatory.notify(led.core.key)
                done(ErrorCode.NONE, None)
                self._dead_letters.look_at(self, led)
            else:
                led.core.roll_back(transition)
                for batch in transition:
                    batch.not_before_ms = 0
                self._locks.add(led, self._clock.monotonic_ms())
                told = _TOLD.get(error, ErrorCode.UNKNOWN_SERVER_ERROR)
                done(told, f"the share coordinator answers {error.name}")

        self._write(led, _Write(changes_of(transition), written))

    def may_acquire(self, led: LedSharePartition) -> bool:
        """Whether a fetch may be given records."""
        if led.breaker.is_closed(self._clock.monotonic_ms()):
            return False
        return led.core.may_acquire(self.configs.of(led.core.key.group_id).record_locks_max)

    def watch_rests(self, led: LedSharePartition) -> None:
        """Records of it may have begun to wait for their times."""
        if led.core.order is not None and led.core.order.looks.times:
            deadline_ms = led.core.next_deadline_ms()
            if deadline_ms is not None:
                self._locks.add(led, deadline_ms)

    def look_again(self, led: LedSharePartition) -> None:
        """Have whoever waits try once more, when he waits."""
        self._loop.call_soon(self._purgatory.notify, led.core.key)

    def _note_outcome(self, led: LedSharePartition, transition: Transition) -> None:
        """Before it takes effect: a group that gives up everything is stopped for a while."""
        key, now_ms = led.core.key, self._clock.monotonic_ms()
        config = self.configs.of(key.group_id)
        records_max, pause_ms = config.breaker_records, config.breaker_pause_ms
        if led.breaker.note(transition, records_max=records_max, pause_ms=pause_ms, now_ms=now_ms):
            logger.warning(
                "share group %s gives up one record of %s after the other: nothing is handed out for %d ms. "
                "Look at what its members need",
                key.group_id,
                led.partition.topic_partition,
                pause_ms,
            )
        if led.breaker.is_closed(now_ms):
            self._locks.add(led, led.breaker.closed_until_ms)

    def _let_rest(self, led: LedSharePartition, transition: Transition) -> None:
        """Before records are handed out again they rest, longer each time, where the group wants that. All
        that come back together rest as long, and stay together."""
        config = self.configs.of(led.core.key.group_id)
        backoff = Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms, self._rng)
        until_ms: dict[int, int] = {}
        for batch in transition:
            if batch.next_state is RecordState.AVAILABLE and config.retry_backoff_ms > 0:
                count = batch.delivery_count
                if count not in until_ms:
                    until_ms[count] = self._clock.monotonic_ms() + int(backoff.wait_ms(count))
                    self._locks.add(led, until_ms[count])
                batch.not_before_ms = until_ms[count]

    def release_session(self, group_id: str, member_id: str, keys: Iterable[SharePartitionKey]) -> None:
        """A member is gone: what it holds goes to others."""
        limit, given_up = self._end_of_deliveries(group_id)
        for key in keys:
            led = self._led.get(key)
            if led is not None:
                self._take_back(led, led.core.release(member_id, limit, given_up))

    def _end_of_deliveries(self, group_id: str) -> tuple[int, RecordState]:
        """How often a record is handed out, and what becomes of it after that."""
        return self.configs.of(group_id).delivery_count_limit, self._dead_letters.given_up(group_id)

    def close_session(self, group_id: str, member_id: str) -> None:
        """End a session, and release what its member holds."""
        session = self.sessions.remove(group_id, member_id)
        if session is not None:
            keys = [SharePartitionKey(group_id, *each) for each in session.ever_read]
            self.release_session(group_id, member_id, keys)
        if not self.sessions.has_group(group_id):
            for led in [each for key, each in self._led.items() if key.group_id == group_id]:
                self._maybe_forget(led)

    def close_sessions_of(self, connection: object) -> None:
        """A connection is gone, and the sessions that were opened by it."""
        for session in self.sessions.of_connection(connection):
            self.close_session(session.group_id, session.member_id)

    def _expire(self, led: LedSharePartition) -> None:
        if led.is_fenced or self._stopped:
            return
        limit, given_up = self._end_of_deliveries(led.core.key.group_id)
        expired = led.core.expire(self._clock.monotonic_ms(), limit, given_up)
        led.lock_timeouts += sum(map(len, expired))
        self._let_rest(led, expired)
        self._take_back(led, expired)
        if led.core.end_rests(self._clock.monotonic_ms()) or led.breaker.is_on_trial:
            self._purgatory.notify(led.core.key)
        deadline_ms = led.core.next_deadline_ms()
        if deadline_ms is not None:
            self._locks.add(led, max(deadline_ms, self._clock.monotonic_ms() + 1))

    def _take_back(self, led: LedSharePartition, transition: Transition) -> None:
        """At once: who writes it down later is told of the count alone. In order by key what is given up
        counts when that is written: it must not come back behind the next of its key."""
        if led.core.order is not None:
            given_up = [batch for batch in transition if batch.next_state is RecordState.ARCHIVED]
            transition = [batch for batch in transition if batch.next_state is not RecordState.ARCHIVED]
            if given_up:
                self._give_up(led, given_up)
        if transition:
            changes = changes_of(transition)
            self._note_outcome(led, transition)
            led.core.commit(transition)
            self.watch_rests(led)
            self._purgatory.notify(led.core.key)
            self._write(led, _Write(changes, lambda error: None))
            self._dead_letters.look_at(self, led)

    def _give_up(self, led: LedSharePartition, transition: Transition) -> None:
        """Let go of records that nobody holds any more, as soon as that is written."""

        def written(error: ErrorCode) -> None:
            if error is ErrorCode.NONE:
                self._note_outcome(led, transition)
                led.core.commit(transition)
                self.watch_rests(led)
                self._purgatory.notify(led.core.key)
            elif not led.is_fenced and not self._stopped:
                self._call_at(self._clock.monotonic_ms() + RETRY_MS, write)

        def write() -> None:
            self._write(led, _Write(changes_of(transition), written))

        write()

    def archive(self, led: LedSharePartition, first: int, last: int) -> "asyncio.Future[None]":
        """The dead letters of these records are written: let them go. ApiError where that cannot be kept."""
        over: asyncio.Future[None] = self._loop.create_future()
        transition = led.core.archive(first, last)

        def written(error: ErrorCode) -> None:
            if error is ErrorCode.NONE:
                led.core.commit(transition)
                self.watch_rests(led)
                self._purgatory.notify(led.core.key)
            else:
                led.core.roll_back(transition)
            if over.done():
                return  # the node stops
            if error is ErrorCode.NONE:
                over.set_result(None)
            else:
                over.set_exception(ApiError(error))

        self._write(led, _Write(changes_of(transition), written))
        return over

    def _call_at(self, at_ms: int, action: Callable[[], None]) -> None:
        delay_s = max(0, at_ms - self._clock.monotonic_ms()) / 1000
        self._loop.call_later(delay_s, action)

    # --- writing ---

    def _write(self, led: LedSharePartition, write: _Write) -> None:
        led.waiting.append(write)
        if not led.under_way:
            self._write_waiting(led)

    def _write_waiting(self, led: LedSharePartition) -> None:
        writes, led.waiting = led.waiting, []
        if led.is_fenced:
            for write in writes:
                write.done(ErrorCode.FENCED_LEADER_EPOCH)
            return
        led.under_way = True
        changes = [each for write in writes for each in write.changes]

        def written(error: ErrorCode) -> None:
            led.under_way = False
            if error not in (
                ErrorCode.NONE,
                ErrorCode.COORDINATOR_NOT_AVAILABLE,
                ErrorCode.NETWORK_EXCEPTION,
            ):
                # Somebody else leads, or the state was begun anew: what is known here is not true any more.
                logger.warning("share partition %s is loaded anew: a write got %s", led.core.key, error.name)
                self._drop(led.core.key, led)
            for write in writes:
                write.done(error)
            if led.waiting and not led.under_way:
                self._write_waiting(led)
            self._maybe_forget(led)

        self._persister.write(led.core.key, led.core.to_write(changes), written)

    def _maybe_forget(self, led: LedSharePartition) -> None:
        """Nobody of the group reads here any more: who comes back finds what is kept, which administrators
        may have changed meanwhile."""
        key = led.core.key
        if led.under_way or led.waiting or self.sessions.has_group(key.group_id):
            return
        if led.core.first_archiving() is not None:
            return  # letters are written yet
        if self._led.get(key) is led:
            led.is_fenced = True
            del self._led[key]

    def _drop(self, key: SharePartitionKey, only: LedSharePartition | None = None) -> None:
        led = self._led.get(key)
        if led is not None and only in (None, led):
            led.is_fenced = True
            del self._led[key]
            self._purgatory.notify(key)

    def drop_not_led(self) -> None:
        """Leadership changed: forget what others lead now."""
        for key, led in list(self._led.items()):
            if not led.partition.is_leader or led.partition.leader_epoch != led.core.leader_epoch:
                self._drop(key, led)


def _milliseconds(reset: str) -> int:
    """How far back `by_duration:` goes."""
    match = _DURATION.fullmatch(reset)
    if match is None:
        return 0
    days, hours, minutes, seconds = (float(each or 0) for each in match.groups())
    return int((((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1000)
