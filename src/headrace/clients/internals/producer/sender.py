"""Sends batches: one pass over what is ready whenever something changes, on the producer's loop.

There is no task that waits: `wake` plans a pass, an answer plans a pass, and a timer plans one for the next
batch whose time comes. A pass gives up batches that are too old, takes one ready batch of each partition for
every leader that has room for a request, and sends them as one Produce. Answers are judged by `Sequences`;
what has to be sent again goes back to the front of its queue with a pause, and metadata is asked for anew
where the error says that the leader is another. Errors of Produce may name the new leader at once (KIP-951).
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, Final

from headrace.base.error_codes import ErrorCode
from headrace.base.ids import NO_LEADER, TopicPartition
from headrace.base.producer_id_and_epoch import ProducerIdAndEpoch
from headrace.clients.config import ClientConfig
from headrace.clients.errors import ClientError, RefusedError, TimedOutError, UnreachableError, raise_for
from headrace.clients.internals.broker_channel import BrokerChannel
from headrace.clients.internals.metadata import LeaderAndEpoch
from headrace.clients.internals.network_client import NetworkClient
from headrace.clients.internals.producer.producer_batch import ProducerBatch
from headrace.clients.internals.producer.record_accumulator import RecordAccumulator
from headrace.clients.internals.producer.sequences import Sequences, Verdict
from headrace.clients.internals.producer.transaction_manager import TransactionManager
from headrace.clients.internals.producer.transaction_state import CONCURRENT_PAUSE_MS, PRODUCE_EXPLICIT
from headrace.records.codecs import Codec
from headrace.wire.schemas.init_producer_id import InitProducerIdRequest
from headrace.wire.schemas.produce import (
    TOPIC_ID_SINCE,
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)

# For so long after a request the sender looks by itself.
_BUSY_MS: Final = 50
_ACKS: Final = {"0": 0, "1": 1, "all": -1, "-1": -1}


class Sender:
    """Moves batches from an accumulator to their leaders."""

    def __init__(
        self,
        client: NetworkClient,
        accumulator: RecordAccumulator,
        *,
        on_decided: Callable[[ProducerBatch], None],
    ) -> None:
        config = client.config
        self._client = client
        self._metrics = client.metrics
        self._environment = client.environment
        self._batches = accumulator
        self._on_decided = on_decided
        self._acks = _ACKS[config.str("acks")]
        self._in_flight_max = config.int("max.in.flight.requests.per.connection")
        self._request_bytes_max = config.int("max.request.size")
        self._retries = config.int("retries")
        self.codec = Codec[config.str("compression.type").upper()]
        self.level = compression_level(config, self.codec)
        is_transactional = config.get("transactional.id") is not None
        self.sequences = Sequences(
            is_idempotent=config.bool("enable.idempotence"),
            in_flight_max=self._in_flight_max,
            is_transactional=is_transactional,
        )
        self.transactions = (
            TransactionManager(client, self.sequences, on_failure=self.drop_waiting)
            if is_transactional
            else None
        )
        self._is_adding = False
        self._in_flight: dict[int, int] = {}
        self._sent_ms = -_BUSY_MS
        self._planned = False
        self._timer: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._connecting: set[int] = set()
        self._identifying = False
        self._refreshing = False
        self._failed_refreshes = 0
        self._refreshed_ms = self._environment.now_ms()
        self._topics: dict[str, None] = {}
        self.failure: ClientError | None = None  # nothing can be sent any more
        self._is_closed = False

    # Planning

    def wake(self) -> None:
        """Look soon at what is ready. On the loop."""
        if not self._planned and not self._is_closed:
            self._planned = True
            self._environment.loop.call_soon(self._pass)

    def close(self, error: ClientError) -> None:
        """Give up whatever is left."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        for task in self._tasks:
            task.cancel()
        for batch in self._batches.undecided():
            self._fail(batch, error)

    def drop_waiting(self, error: ClientError) -> None:
        """Give up what is not on the wire."""
        for batch in self._batches.waiting():
            self._fail(batch, error)

    def know(self, topic: str) -> None:
        """Keep the metadata of this topic fresh."""
        self._topics[topic] = None

    def _pass(self) -> None:
        self._planned = False
        if self._is_closed:
            return
        # A batch that another thread begins once this pass has looked must wake us: the timer will move.
        self._batches.looked_at_ms = float("inf")
        now_ms = self._environment.now_ms()
        self._give_up_late(now_ms)
        if self.sequences.needs_identity:
            if self.transactions is None:
                self._identify()
            next_ms = float("inf")
        else:
            for partition in self.sequences.needing_epoch():
                self.sequences.maybe_bump_epoch(partition)
            ready = self._batches.ready(lambda each: self._client.metadata.leader(each).node, now_ms)
            if ready.unled:
                self._refresh()
            next_ms = ready.next_ms
            for node, partitions in ready.nodes.items():
                next_ms = min(next_ms, self._send_to(node, partitions))
            self._add_partitions()
        if now_ms - self._refreshed_ms >= self._client.config.int("metadata.max.age.ms"):
            self._refresh()
        linger_ms = self._batches.linger_ms
        if linger_ms >= 1 and now_ms - self._sent_ms < _BUSY_MS:
            # Batches that begin meanwhile need not wake us: we look before they have lingered.
            next_ms = min(next_ms, now_ms + linger_ms)
        self._plan_at(min(next_ms, self._batches.first_deadline_ms()))

    def _plan_at(self, at_ms: float) -> None:
        self._batches.looked_at_ms = at_ms
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if at_ms != float("inf"):
            wait_s = max(0.0, at_ms - self._environment.now_ms()) / 1000
            self._timer = self._environment.loop.call_later(wait_s + 0.0001, self.wake)

    def _give_up_late(self, now_ms: float) -> None:
        for batch in self._batches.expired(now_ms):
            what = f"a record for {batch.partition} was not written within delivery.timeout.ms"
            self._fail(batch, TimedOutError(what), is_unwritten=not batch.attempts)

    # Sending

    def _send_to(self, node: int, partitions: list[TopicPartition]) -> float:
        """Send what can be sent; when to look again where the broker throttles this client."""
        if self._in_flight.get(node, 0) >= self._in_flight_max:
            return float("inf")
        try:
            channel = self._client.channel(node)
        except UnreachableError:
            self._refresh()
            return float("inf")
        if not channel.is_ready:
            self._connect(node, channel)
            return float("inf")
        if throttle_ms := channel.throttle_ms:
            # What waits here grows into larger batches; what is handed over is not in our hands any more.
            return self._environment.now_ms() + throttle_ms
        taken, is_more = self._batches.take(partitions, self._may_send, self._request_bytes_max)
        if taken:
            self._send(node, channel, taken)
            self._sent_ms = self._environment.now_ms()
            if is_more and self._in_flight.get(node, 0) < self._in_flight_max:
                self.wake()
        return float("inf")

    def _may_send(self, batch: ProducerBatch) -> bool:
        if self.transactions is not None and not self.transactions.admits(batch.partition):
            return False
        return self.sequences.may_send(batch)

    def _send(self, node: int, channel: BrokerChannel, batches: list[ProducerBatch]) -> None:
        for batch in batches:
            batch.is_in_transaction = self.transactions is not None
            batch.seal(self.codec, self.level)
            self.sequences.sent(batch)
        request, at_most = self._request(batches)
        try:
            if self._acks == 0:
                channel.tell(request, at_most=at_most)
                for batch in batches:
                    self._take_back(batch)
                    self._write(batch, -1, -1)
                return
            asked = channel.ask_now(request, timeout_ms=self._client.timeout_ms, at_most=at_most)
        except ClientError as error:  # the broker has no version of Produce in common with us
            for batch in batches:
                self._take_back(batch)
                self._fail(batch, error, is_unwritten=True)
            return
        self._in_flight[node] = self._in_flight.get(node, 0) + 1
        sent_ms = self._environment.now_ms()
        asked.add_done_callback(lambda done: self._answered(node, batches, done, sent_ms))

    def _request(self, batches: list[ProducerBatch]) -> tuple[ProduceRequest, int | None]:
        metadata = self._client.metadata
        topics: dict[str, TopicProduceData] = {}
        for batch in batches:
            name, number = batch.partition
            topic = topics.get(name)
            if topic is None:
                topic = topics[name] = TopicProduceData(name=name, topic_id=metadata.topic_id(name))
            encoded = batch.encoded()
            self._metrics.bytes_sent += len(encoded)
            topic.partition_data.append(PartitionProduceData(index=number, records=encoded))
        self._metrics.batches += len(batches)
        request = ProduceRequest(
            acks=self._acks, timeout_ms=self._client.timeout_ms, topic_data=list(topics.values())
        )
        if self.transactions is not None:
            request.transactional_id = self.transactions.id
            if not self.transactions.is_implicit:
                return request, PRODUCE_EXPLICIT
        return request, None if metadata.has_ids(topics) else TOPIC_ID_SINCE - 1

    # Answers

    def _answered(
        self, node: int, batches: list[ProducerBatch], done: "asyncio.Future[Any]", sent_ms: float
    ) -> None:
        self._in_flight[node] -= 1
        self._metrics.produces.note(self._environment.now_ms() - sent_ms)
        for batch in batches:
            self._take_back(batch)
        failure = done.exception() if not done.cancelled() else ConnectionError("cancelled")
        if failure is None:
            self._take_in(done.result(), {batch.partition: batch for batch in batches})
        else:
            self._refresh()
            for batch in batches:
                error = UnreachableError(f"the connection to broker {node} was lost: {failure}")
                self._retry(batch, error)
        self.wake()

    def _take_back(self, batch: ProducerBatch) -> None:
        self.sequences.back(batch)

    def _take_in(self, response: Any, waiting: dict[TopicPartition, ProducerBatch]) -> None:
        metadata = self._client.metadata
        metadata.learn_endpoints((each.node_id, each.host, each.port) for each in response.node_endpoints)
        for topic in response.responses:
            name = metadata.name_of(topic.name, topic.topic_id)
            for result in topic.partition_responses:
                batch = waiting.pop(TopicPartition(name, result.index), None)
                if batch is not None:
                    self._judge(batch, result)
        for batch in waiting.values():  # the topic's id changed under us, or the broker left it out
            self._refresh()
            self._retry(batch, RefusedError(ErrorCode.UNKNOWN_TOPIC_ID, f"cannot write to {batch.partition}"))

    def _judge(self, batch: ProducerBatch, result: Any) -> None:
        verdict = self.sequences.judge(batch, result.error_code, result.log_start_offset)
        if verdict is Verdict.WRITTEN:
            offset = result.base_offset if not result.error_code else -1
            self._write(batch, offset, result.log_append_time_ms)
            return
        detail = result.error_message
        if result.record_errors:
            detail = result.record_errors[0].batch_index_error_message or detail
        error = RefusedError(result.error_code, f"cannot write to {batch.partition}", detail)
        if verdict is Verdict.FAILED:
            if result.error_code == ErrorCode.MESSAGE_TOO_LARGE and batch.count > 1 and not batch.is_done:
                self._split(batch)
            else:
                self._fail(batch, error, is_unwritten=True)
            return
        hint = result.current_leader
        leads = hint is not None and hint.leader_id != NO_LEADER
        if not (
            leads
            and self._client.metadata.learn_leader(
                batch.partition, LeaderAndEpoch(hint.leader_id, hint.leader_epoch)
            )
        ):
            self._refresh()
        self._retry(batch, error)

    def _split(self, batch: ProducerBatch) -> None:
        """The topic takes less in one batch than we made: send halves, until one record is too large."""
        parts = batch.split()
        self.sequences.split(batch, parts)
        self._batches.replace(batch, parts, self._environment.now_ms())

    def _write(self, batch: ProducerBatch, base_offset: int, append_time_ms: int) -> None:
        self._metrics.records_sent += batch.count
        self.sequences.written(batch, base_offset)
        batch.written(base_offset, append_time_ms)
        if self._acks:
            batch.let_go()
        self._batches.decided(batch)
        self._on_decided(batch)

    def _retry(self, batch: ProducerBatch, error: ClientError) -> None:
        if batch.is_done:  # its time was up while it was on the wire
            self.sequences.given_up(batch, is_unwritten=False)
        elif batch.attempts > self._retries or (self.transactions and self.transactions.is_aborting):
            self._fail(batch, error)
        else:
            pause_ms = self._client.retry.wait_ms(batch.attempts)
            if isinstance(error, RefusedError) and error.code == ErrorCode.CONCURRENT_TRANSACTIONS:
                pause_ms = CONCURRENT_PAUSE_MS
            self._metrics.record_retries += batch.count
            self._batches.put_back(batch, self._environment.now_ms() + pause_ms)

    def _fail(self, batch: ProducerBatch, error: ClientError, *, is_unwritten: bool = False) -> None:
        if self.transactions is not None:
            self.transactions.batch_failed(error, was_sent=batch.attempts > 0)
        if not batch.is_on_wire:
            self.sequences.given_up(batch, is_unwritten=is_unwritten)
        self._batches.decided(batch)  # first, so that it takes no more rows
        batch.seal(Codec.NONE, None)
        self._metrics.record_errors += batch.count
        batch.resolve(error)
        self._on_decided(batch)

    # What is done beside

    def _begin(self, work: Any) -> None:
        task = self._environment.loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _connect(self, node: int, channel: BrokerChannel) -> None:
        async def connect() -> None:
            try:
                await channel.ready()
            except ClientError:
                self._refresh()
            finally:
                self._connecting.discard(node)
                self.wake()

        if node not in self._connecting:
            self._connecting.add(node)
            self._begin(connect())

    def _refresh(self) -> None:
        """Ask for metadata soon, once at a time, with a pause after a failure."""

        async def refresh() -> None:
            try:
                await self._client.pause(self._client.retry.wait_ms(self._failed_refreshes))
                await self._client.refresh(self._known_topics())
                lacks = any(not self._client.metadata.partition_count(each) for each in self._topics)
                self._failed_refreshes = self._failed_refreshes + 1 if lacks or self._has_unled() else 0
            except ClientError:
                self._failed_refreshes += 1
            finally:
                self._refreshing = False
                self._refreshed_ms = self._environment.now_ms()
                self.wake()

        if not self._refreshing and not self._is_closed:
            self._refreshing = True
            self._begin(refresh())

    def _known_topics(self) -> Iterable[str]:
        return list(self._topics)

    def _has_unled(self) -> bool:
        return any(leader.node == NO_LEADER for leader in self._client.metadata.leaders.values())

    def _add_partitions(self) -> None:
        """Tell the coordinator of partitions that wait for it, once at a time."""
        transactions = self.transactions
        if transactions is None or self._is_adding or not transactions.wants_partitions:
            return

        async def add() -> None:
            try:
                await transactions.add_partitions()
            finally:
                self._is_adding = False
                self.wake()

        self._is_adding = True
        self._begin(add())

    def _identify(self) -> None:
        """Get a producer id; a broker that refuses for good ends this producer."""

        async def identify() -> None:
            async def ask() -> ProducerIdAndEpoch:
                request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=2**31 - 1)
                response = await self._client.call(request)
                raise_for(response.error_code, "cannot get a producer id")
                return ProducerIdAndEpoch(response.producer_id, response.producer_epoch)

            try:
                self.sequences.identity = await self._client.patiently(ask)
            except (UnreachableError, TimedOutError):
                await self._client.pause(self._client.retry.most_ms)
            except ClientError as error:
                if isinstance(error, RefusedError) and error.retriable:
                    return  # it passes: batches have their own time, delivery.timeout.ms
                self.failure = error
                for batch in self._batches.undecided():
                    self._fail(batch, error)
            finally:
                self._identifying = False
                self.wake()

        if not self._identifying and self.failure is None:
            self._identifying = True
            self._begin(identify())


def compression_level(config: ClientConfig, codec: Codec) -> int | None:
    """The level that was asked for; None is the codec's own."""
    name = f"compression.{codec.name.lower()}.level"
    if codec not in (Codec.GZIP, Codec.LZ4, Codec.ZSTD) or not config.was_given(name):
        return None
    return config.int(name)
