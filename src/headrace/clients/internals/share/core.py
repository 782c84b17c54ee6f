"""A share consumer's machinery: joins, fetches from leaders, hands records out, sends what is said of them.

Each leader has a session (`leader_session`), in which a fetch waits at the leader while the program works.
Answers go with the next fetch, or alone where the program commits. What a leader holds for this member is
held for a while only: whoever takes longer renews it, or somebody else gets the record.
"""

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from headrace.base.error_codes import RETRIABLE, ErrorCode
from headrace.base.ids import NO_LEADER, NO_TOPIC_ID, TopicPartition
from headrace.clients.config import ClientConfig
from headrace.clients.errors import ClientError, ClosedError, RefusedError, TimedOutError, UnreachableError
from headrace.clients.internals.client_metrics import MetricName
from headrace.clients.internals.client_telemetry_reporter import ClientTelemetryReporter
from headrace.clients.internals.consumer.completed_fetch import Deserializer
from headrace.clients.internals.environment import ClientEnvironment
from headrace.clients.internals.network_client import NetworkClient, Use
from headrace.clients.internals.share.acknowledgements import Answers, Delivered
from headrace.clients.internals.share.acquired_fetch import AcquiredFetch, AcquiredRange
from headrace.clients.internals.share.leader_session import CLOSE, LeaderSession, acknowledge_topics, renews
from headrace.clients.internals.share.share_membership_manager import ShareMembershipManager
from headrace.records.columns.row_fields import Headers
from headrace.wire.schemas.share_acknowledge import ShareAcknowledgeRequest
from headrace.wire.schemas.share_fetch import AcknowledgeType, PartitionData, ShareFetchRequest

logger = logging.getLogger(__name__)

T = TypeVar("T")

_LOST_SESSION: Final = frozenset(
    {
        ErrorCode.SHARE_SESSION_NOT_FOUND,
        ErrorCode.INVALID_SHARE_SESSION_EPOCH,
        ErrorCode.SHARE_SESSION_LIMIT_REACHED,
    }
)
# Another leader has it, or this one is not ready: for a group that begins by_duration, Apache Kafka has no
# offset until there is a record of that time.
_PASSING: Final = (RETRIABLE | {ErrorCode.UNKNOWN_TOPIC_ID}) - {ErrorCode.CORRUPT_MESSAGE}
_ACQUIRE_MODES: Final = {"batch_optimized": 0, "record_limit": 1}


class ShareRecord(NamedTuple):
    """A record, where it was read, and how often it has been handed out, this time included."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: Any
    value: Any
    headers: Headers
    delivery_count: int


Outcome = dict[TopicPartition, ClientError | None]
"""What became of answers: None where they were taken."""


class _HeldColumns(Protocol):
    """What is read of a fetch as columns (`tables.HeldColumns`, which needs pyarrow)."""

    @property
    def batches(self) -> list[Any]: ...
    @property
    def offsets(self) -> list[int]: ...
    @property
    def gaps(self) -> set[int]: ...


ReadColumns = Callable[[AcquiredFetch], _HeldColumns]
OnCommit = Callable[[Mapping[TopicPartition, ClientError | None]], object]


class _NotHandedOutError(ClientError):
    """The next record cannot be handed out; the poll that says so passes it over."""

    def __init__(self, text: str, pass_over: Callable[[], object]) -> None:
        super().__init__(text)
        self.pass_over = pass_over


class ShareConsumerCore:
    """Lives on its environment's loop."""

    def __init__(
        self,
        environment: ClientEnvironment,
        config: ClientConfig,
        *,
        key_deserializer: Deserializer | None,
        value_deserializer: Deserializer | None,
    ) -> None:
        self._client = NetworkClient(environment, config)
        self._metrics = self._client.metrics
        self.reporter = ClientTelemetryReporter(self._client, self.metrics)
        self._environment = environment
        self._config = config
        self._key, self._value = key_deserializer, value_deserializer
        self._is_explicit = config.str("share.acknowledgement.mode") == "explicit"
        self.membership = ShareMembershipManager(
            self._client, on_change=self._assignment_changed, on_failure=self._fail
        )
        self.delivered = Delivered()
        self.on_commit: OnCommit | None = None
        self.lock_timeout_ms: int | None = None
        """How long a record is held for this member, as the leader said last."""
        self._records_max = config.int("max.poll.records")  # of the last poll: what else came would be held
        self._sessions: dict[int, LeaderSession] = {}
        self._given_by: dict[TopicPartition, int] = {}
        """The leader that records of a partition came from last."""
        self._waiting: deque[AcquiredFetch] = deque()
        self._failure: ClientError | None = None
        self._is_old = False  # the picture of who leads
        self._news = asyncio.Event()
        self._is_closed = False

    # What programs call

    def subscribe(self, topics: tuple[str, ...]) -> None:
        self._check_open()
        self.membership.subscribe(topics)

    async def poll(self, timeout_ms: float, max_records: int | None) -> list[ShareRecord]:
        """Records that are held for this member from now on."""
        count = self._records_max = max_records or self._config.int("max.poll.records")
        return await self._poll(timeout_ms, lambda: self._hand_out(count))

    async def poll_batches(self, timeout_ms: float, read: ReadColumns) -> list[Any]:
        """All that has arrived, as `read` makes it of each fetch."""
        self._records_max = self._config.int("max.poll.records")
        return await self._poll(timeout_ms, lambda: self._hand_out_columns(read))

    async def _poll(self, timeout_ms: float, hand_out: Callable[[], list[T]]) -> list[T]:
        self._check_open()
        if not self.membership.topics:
            raise ClientError("nothing is subscribed to: call subscribe([...]) before poll()")
        self._answer_for_the_last()
        self.membership.polled()
        deadline = self._environment.now_ms() + timeout_ms
        while True:
            if (failure := self._failure) is not None:
                self._failure = None
                raise failure
            if found := hand_out():
                return found
            self._news.clear()
            await self._fetch_everywhere()
            left_ms = deadline - self._environment.now_ms()
            if left_ms <= 0:
                return []
            if not self._waiting and self._failure is None:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._news.wait(), left_ms / 1000)

    def acknowledge(self, places: Mapping[TopicPartition, Sequence[int]], kind: AcknowledgeType) -> None:
        """All of these, or none where one is not held."""
        self._check_open()
        if not self._is_explicit:
            message = "acknowledge() is for share.acknowledgement.mode=explicit: now the next poll accepts"
            raise ClientError(message)
        self.delivered.answer(places, kind)

    async def commit(self) -> Outcome:
        """Send what was answered, and what the leaders say of it."""
        self._check_open()
        if not self._is_explicit:
            self.delivered.answer_all(AcknowledgeType.ACCEPT)
        return await self._send_answers()

    def metrics(self) -> dict[MetricName, float]:
        values = self._metrics.of_share_consumer(self._environment.now_ms())
        return self._client.read_metrics("consumer-share-metrics", values)

    async def close(self, timeout_ms: int) -> None:
        """Send what was answered, give back the rest, leave."""
        if self._is_closed:
            return
        if not self._is_explicit:
            self.delivered.answer_all(AcknowledgeType.ACCEPT)
        self._is_closed = True
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await self._send_answers()
                for session in self._sessions.values():
                    await self._close_session(session)
                await self.membership.leave()
                await self.reporter.push_last()
        except (TimeoutError, ClientError) as error:
            logger.warning("the share group goes on without this member when its session ends: %s", error)
        finally:
            self.reporter.close()
            for session in self._sessions.values():
                if session.fetching is not None:
                    session.fetching.cancel()
            self._client.close()

    def _check_open(self) -> None:
        if self._is_closed:
            raise ClosedError("the share consumer is closed: make another one")

    # Records

    def _answer_for_the_last(self) -> None:
        """What the program was given before is done, unless it says what is."""
        if not self._is_explicit:
            self.delivered.answer_all(AcknowledgeType.ACCEPT)
        elif self.delivered.is_any_open:
            raise ClientError(
                "records of the last poll are not acknowledged: with share.acknowledgement.mode=explicit "
                "every record needs an acknowledge() before the next poll()"
            )

    def _hand_out(self, count: int) -> list[ShareRecord]:
        rows: list[ShareRecord] = []
        while self._waiting and len(rows) < count:
            try:
                row = self._next_row(self._waiting[0])
            except _NotHandedOutError as error:
                if rows:
                    break  # with the next poll
                error.pass_over()
                raise
            if row is None:
                self._waiting.popleft()
            else:
                rows.append(row)
        self._metrics.records_consumed += len(rows)
        return rows

    def _next_row(self, fetch: AcquiredFetch) -> ShareRecord | None:
        """None where the program has all of a fetch."""
        try:
            self.delivered.answer_gaps(fetch.partition, fetch.decode())
        except ClientError as error:
            raise _NotHandedOutError(str(error), self._waiting.popleft) from error
        assert fetch.rows is not None, "it was decoded"
        if not fetch.rows:
            return None
        record, delivery_count = fetch.rows[0]
        try:
            key = record.key if self._key is None or record.key is None else self._key(record.key)
            value = record.value if self._value is None or record.value is None else self._value(record.value)
        except Exception as error:
            what = f"the record at offset {record.offset} of {fetch.partition}"
            told = f"{what} cannot be deserialized, and is released: {error}"
            raise _NotHandedOutError(told, lambda: self._release_first(fetch)) from error
        fetch.rows.popleft()
        self.delivered.give(fetch.partition, [record.offset])
        return ShareRecord(*record[:4], key, value, record.headers, delivery_count)

    def _release_first(self, fetch: AcquiredFetch) -> None:
        assert fetch.rows, "it has a row that cannot be handed out"
        self.delivered.release_undelivered(fetch.partition, fetch.rows.popleft()[0].offset)

    def _hand_out_columns(self, read: ReadColumns) -> list[Any]:
        batches: list[Any] = []
        while self._waiting:
            fetch = self._waiting[0]
            try:
                columns = read(fetch)
            except ClientError:
                if batches:
                    break  # with the next poll
                self._waiting.popleft()
                raise
            self._waiting.popleft()
            self.delivered.give(fetch.partition, columns.offsets)
            self._metrics.records_consumed += len(columns.offsets)
            self.delivered.answer_gaps(fetch.partition, columns.gaps)
            batches += columns.batches
        return batches

    def _take_records(self, partition: TopicPartition, data: PartitionData) -> None:
        """Records of an answer, by the ranges that were acquired."""
        ranges = [
            AcquiredRange(each.first_offset, each.last_offset, each.delivery_count)
            for each in data.acquired_records
        ]
        if ranges:
            records: Any = data.records  # read as a view of the frame
            self._metrics.bytes_consumed += len(records)
            checks_crc = self._config.bool("check.crcs")
            self._waiting.append(AcquiredFetch(partition, records, ranges, checks_crc=checks_crc))

    # Fetching

    async def _fetch_everywhere(self) -> None:
        """A fetch at every leader of what is assigned, where none is under way."""
        if self._is_old:
            self._is_old = False
            await self._learn_leaders()
        by_node = self._wanted()
        for node in by_node:
            session = self._sessions.setdefault(node, LeaderSession(node))
            if session.fetching is None:
                session.fetching = self._environment.loop.create_task(self._fetch(session))

    def _wanted(self) -> dict[int, set[TopicPartition]]:
        """What is assigned, by leader; what has none is looked for with the next round."""
        metadata = self._client.metadata
        by_node: dict[int, set[TopicPartition]] = {}
        for each in self.membership.assigned:
            leader = metadata.leader(each).node
            if leader == NO_LEADER or metadata.topic_id(each.topic) == NO_TOPIC_ID:
                self._is_old = True
            else:
                by_node.setdefault(leader, set()).add(each)
        return by_node

    async def _learn_leaders(self) -> None:
        topics = {each.topic for each in self.membership.assigned} | set(self.membership.topics)
        try:
            await self._client.refresh(sorted(topics))
        except (UnreachableError, TimedOutError) as error:
            logger.debug("who leads is asked again: %s", error)
            self._is_old = True
            await self._client.pause(self._client.retry.wait_ms(1))

    async def _fetch(self, session: LeaderSession) -> None:
        """One fetch, and what came of it; the program is woken whatever that is."""
        try:
            async with session.turn:
                await self._fetch_in_turn(session)
        except ClientError as error:
            self._fail(error)
        finally:
            session.fetching = None
            self._news.set()

    async def _fetch_in_turn(self, session: LeaderSession) -> None:
        wanted = self._wanted().get(session.node, set())
        answers = self._answers_for(session, wanted | session.known)
        if session.is_new and answers:
            self._tell(dict.fromkeys(answers, _lost(ErrorCode.SHARE_SESSION_NOT_FOUND)))
            answers = {}
        request = self._fetch_request(session, wanted, answers)
        sent_ms = self._environment.now_ms()
        try:
            reply = await self._client.call(request, node=session.node, use=Use.FETCH)
        except (UnreachableError, TimedOutError) as error:
            self._lose(session, answers, error)
            await self._client.pause(self._client.retry.wait_ms(1))
            return
        code = ErrorCode(reply.error_code)
        if code is not ErrorCode.NONE:
            await self._refused(session, answers, RefusedError(code, "cannot fetch", reply.error_message))
            return
        self._metrics.fetches.note(self._environment.now_ms() - sent_ms)
        session.went_on()
        session.known = set(wanted)
        self.lock_timeout_ms = reply.acquisition_lock_timeout_ms or self.lock_timeout_ms
        self._take_reply(session, reply, answers)
        if self._is_old:
            self._news.set()  # what came of other partitions need not wait
            await self._client.pause(self._client.retry.wait_ms(1))

    def _fetch_request(
        self, session: LeaderSession, wanted: set[TopicPartition], answers: Answers
    ) -> ShareFetchRequest:
        config = self._config
        topics, forgotten = session.fetch_topics(wanted, answers, self._client.metadata)
        is_renewal = renews(answers)  # then nothing may be asked for
        return ShareFetchRequest(
            group_id=self.membership.group_id,
            member_id=self.membership.member_id,
            share_session_epoch=session.epoch,
            max_wait_ms=0 if is_renewal else config.int("fetch.max.wait.ms"),
            min_bytes=0 if is_renewal else config.int("fetch.min.bytes"),
            max_bytes=0 if is_renewal else config.int("fetch.max.bytes"),
            max_records=0 if is_renewal else self._records_max,
            batch_size=self._records_max,
            share_acquire_mode=_ACQUIRE_MODES[config.str("share.acquire.mode")],
            is_renew_ack=is_renewal,
            topics=topics,
            forgotten_topics_data=forgotten,
        )

    def _take_reply(self, session: LeaderSession, reply: Any, answers: Answers) -> None:
        metadata = self._client.metadata
        metadata.learn_endpoints((each.node_id, each.host, each.port) for each in reply.node_endpoints)
        outcome: Outcome = dict.fromkeys(answers)
        refused: ClientError | None = None
        for topic in reply.responses:
            name = metadata.names.get(topic.topic_id, "")
            for data in topic.partitions:
                partition = TopicPartition(name, data.partition_index)
                if data.acknowledge_error_code:
                    told = data.acknowledge_error_message
                    outcome[partition] = RefusedError(
                        data.acknowledge_error_code, f"acknowledge {partition}", told
                    )
                if data.acquired_records:
                    self._given_by[partition] = session.node
                refused = self._take_partition(partition, data) or refused
        self._count(answers, outcome)
        self._tell(outcome)
        if refused is not None:
            raise refused

    def _take_partition(self, partition: TopicPartition, data: PartitionData) -> ClientError | None:
        """What the program must hear of it, once the others of the reply are taken."""
        code = ErrorCode(data.error_code)
        if code is ErrorCode.NONE:
            self._take_records(partition, data)
        elif code in _PASSING:
            self._is_old = True
        else:
            return RefusedError(code, f"cannot fetch {partition}", data.error_message)
        return None

    async def _refused(self, session: LeaderSession, answers: Answers, error: RefusedError) -> None:
        self._lose(session, answers, error)
        if error.code not in _LOST_SESSION and not error.retriable:
            raise error
        await self._client.pause(self._client.retry.wait_ms(1))

    def _lose(self, session: LeaderSession, answers: Answers, error: ClientError) -> None:
        """What the leader held is free again, and what was to be said of it may not have been heard."""
        session.reset()
        self._is_old = True
        outcome: Outcome = dict.fromkeys(answers, error)
        self._count(answers, outcome)
        self._tell(outcome)

    def _assignment_changed(self) -> None:
        self._is_old = True
        self._news.set()

    def _fail(self, error: ClientError) -> None:
        self._failure = error
        self._news.set()

    # Answers

    async def _send_answers(self) -> Outcome:
        """ShareAcknowledge to every leader that waits for answers."""
        outcome: Outcome = {}
        for session in list(self._sessions.values()):
            async with session.turn:
                answers = self._answers_for(session, session.known)
                if answers:
                    told = await self._acknowledge(session, answers)
                    self._count(answers, told)
                    outcome |= told
        lost = self.delivered.take(self.delivered.answered)
        outcome |= dict.fromkeys(lost, _lost(ErrorCode.SHARE_SESSION_NOT_FOUND))
        self._tell(outcome)
        return outcome

    async def _acknowledge(self, session: LeaderSession, answers: Answers) -> Outcome:
        request = ShareAcknowledgeRequest(
            group_id=self.membership.group_id,
            member_id=self.membership.member_id,
            share_session_epoch=session.epoch,
            is_renew_ack=renews(answers),
            topics=acknowledge_topics(answers, self._client.metadata),
        )
        try:
            reply = await self._client.call(request, node=session.node, use=Use.FETCH)
            if reply.error_code:
                raise RefusedError(reply.error_code, "cannot acknowledge", reply.error_message)
        except ClientError as error:
            session.reset()
            self._is_old = True
            return dict.fromkeys(answers, error)
        session.went_on()
        return self._outcome_of(reply, answers)

    def _outcome_of(self, reply: Any, answers: Answers) -> Outcome:
        outcome: Outcome = dict.fromkeys(answers)
        for topic in reply.responses:
            name = self._client.metadata.names.get(topic.topic_id, "")
            for data in topic.partitions:
                if data.error_code:
                    partition = TopicPartition(name, data.partition_index)
                    told = data.error_message
                    outcome[partition] = RefusedError(data.error_code, f"acknowledge {partition}", told)
        return outcome

    def _answers_for(self, session: LeaderSession, partitions: set[TopicPartition]) -> Answers:
        """What is to be said of these partitions' records. One that led before has nothing to say of what
        the next one gave, though its session still knows the partition."""

        def is_for_another(partition: TopicPartition) -> bool:
            other = self._sessions.get(self._given_by.get(partition, session.node))
            return other is not None and other is not session and partition in other.known

        found = self.delivered.answered & partitions
        return self.delivered.take({each for each in found if not is_for_another(each)})

    def _count(self, answers: Answers, outcome: Outcome) -> None:
        for partition, of_records in answers.items():
            self._metrics.acknowledgements_sent += len(of_records)
            if outcome[partition] is not None:
                self._metrics.acknowledgement_errors += len(of_records)

    def _tell(self, outcome: Outcome) -> None:
        """Nothing is silent: whoever does not listen reads of it in the log."""
        if not outcome:
            return
        if self.on_commit is not None:
            self.on_commit(outcome)
            return
        for partition, error in outcome.items():
            if error is not None:
                logger.warning(
                    "%s: acknowledgements were not taken, its records are handed out again: %s",
                    partition,
                    error,
                )

    async def _close_session(self, session: LeaderSession) -> None:
        """Whatever the leader still holds for this member is free at once."""
        fetching = session.fetching
        if fetching is not None:
            fetching.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await fetching
        if session.is_new:
            return
        request = ShareAcknowledgeRequest(
            group_id=self.membership.group_id, member_id=self.membership.member_id, share_session_epoch=CLOSE
        )
        with contextlib.suppress(ClientError):  # the connection's end says the same
            await self._client.call(request, node=session.node, use=Use.FETCH)
        session.reset()


def _lost(code: ErrorCode) -> ClientError:
    return RefusedError(code, "the session with the leader was lost, and what it held with it")
