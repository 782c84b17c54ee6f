"""TransactionCoordinator: serves the transactional ids whose `__transaction_state` partition this node leads.

What a request makes of a transaction is decided by `transitions`; this has the TransactionStateManager write
it, the TransactionMarkerChannelManager send the markers, and the end written when every partition has its
marker. A transaction that is open for longer than its producer asked for is aborted; an id that nobody used
for `transactional.id.expiration.ms` is removed.
"""

import asyncio
from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple, TypeVar

from headrace.base.clock import Clock
from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.base.ids import TopicPartition
from headrace.base.internal_topics import TRANSACTIONS_TOPIC
from headrace.base.producer_id_and_epoch import NO_PRODUCER, ProducerIdAndEpoch
from headrace.coordinators.coordinator_shard import CoordinatorRecord, Done, partition_for
from headrace.coordinators.drivers.coordinator_runtime import CoordinatorRuntime
from headrace.coordinators.drivers.transaction_marker_channel_manager import (
    RETRY_S,
    PendingCompleteTxn,
    SendMarkers,
    TransactionMarkerChannelManager,
    WriteMarkers,
)
from headrace.coordinators.txn import transitions
from headrace.coordinators.txn.transaction_metadata import TransactionMetadata, TransactionState
from headrace.coordinators.txn.transaction_state_manager import TransactionStateManager
from headrace.coordinators.txn.transitions import InitProducerIdParams, ProducerIdNeeded
from headrace.metadata.delta import MetadataDelta
from headrace.metadata.features import TRANSACTION_VERSION
from headrace.metadata.image import MetadataImage
from headrace.replication.replica_manager import ReplicaManager
from headrace.settings.broker_config import BrokerConfig
from headrace.wire.record_frames import TRANSACTION

T = TypeVar("T")


class InitProducerIdResult(NamedTuple):
    """The id and epoch of a new owner, and whose transaction it may end (KIP-939)."""

    error: ErrorCode
    owner: ProducerIdAndEpoch = NO_PRODUCER
    ongoing: ProducerIdAndEpoch = NO_PRODUCER


class EndTxnResult(NamedTuple):
    """The id and epoch that the producer has after the end of its transaction."""

    error: ErrorCode
    owner: ProducerIdAndEpoch = NO_PRODUCER


class TransactionCoordinator:
    """All transactional ids whose partition this node leads."""

    def __init__(
        self,
        *,
        config: BrokerConfig,
        clock: Clock,
        loop: asyncio.AbstractEventLoop,
        replicas: ReplicaManager,
        image: MetadataImage,
        take_producer_id: "Callable[[], int | asyncio.Future[int]]",
        write_markers: WriteMarkers,
        send_markers: SendMarkers,
    ) -> None:
        self._config = config
        self._clock = clock
        self._loop = loop
        self._replicas = replicas
        self._image = image
        self._take_producer_id = take_producer_id
        self._sweeps: dict[str, asyncio.TimerHandle] = {}
        self._stopped = False
        self.marker_channel = TransactionMarkerChannelManager(
            node_id=config.node_id,
            image=image,
            loop=loop,
            write_here=write_markers,
            send=send_markers,
            on_markers_written=self._on_markers_written,
        )
        self.runtime: CoordinatorRuntime[TransactionStateManager] = CoordinatorRuntime(
            TRANSACTIONS_TOPIC, TRANSACTION, clock=clock, loop=loop, make_shard=self._make_shard
        )

    def start(self) -> None:
        """Begin to look for transactions that take too long, and for ids that nobody uses."""
        self._sweep("transaction.abort.timed.out.transaction.cleanup.interval.ms", self._abort_timed_out)
        self._sweep(
            "transaction.remove.expired.transaction.cleanup.interval.ms",
            self._remove_expired,
        )

    def stop(self) -> None:
        """Coordinate nothing any more."""
        self._stopped = True
        self.runtime.unload_all()
        for timer in self._sweeps.values():
            timer.cancel()
        self._sweeps.clear()

    # --- where an id lives ----------------------------------------------------------------------------------

    @property
    def transaction_version(self) -> int:
        """The level that the cluster has agreed on."""
        return self._image.features.get(TRANSACTION_VERSION, 0)

    def partition_of(self, transactional_id: str) -> int:
        """The partition that is home to this id; ApiError until the topic exists."""
        topic = self._image.topics_by_name.get(TRANSACTIONS_TOPIC)
        if topic is None:
            raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return partition_for(transactional_id, len(topic.partitions))

    def leader_of(self, transactional_id: str) -> int:
        """The broker that coordinates this id, -1 where there is none now."""
        partition = self._image.partition(TRANSACTIONS_TOPIC, self.partition_of(transactional_id))
        return -1 if partition is None else partition.leader

    def shard_for(self, transactional_id: str) -> TransactionStateManager:
        """The shard that keeps this id; ApiError says why it is not here."""
        if TRANSACTIONS_TOPIC not in self._image.topics_by_name:
            raise ApiError(ErrorCode.NOT_COORDINATOR)
        return self.runtime.shard(self.partition_of(transactional_id))

    def apply(self, delta: MetadataDelta) -> None:
        """Follow one commit of the metadata log, after the replicas did."""
        if self._stopped:
            return
        for topic in delta.topics_deleted:
            if topic.name == TRANSACTIONS_TOPIC:
                for index in topic.partitions:
                    self.runtime.unload(index)
        topic_now = self._image.topics_by_name.get(TRANSACTIONS_TOPIC)
        if topic_now is None:
            return
        for index in delta.partitions_changed(topic_now.id):
            partition = self._replicas.get(TopicPartition(TRANSACTIONS_TOPIC, index))
            if partition is not None:
                self.runtime.on_leadership_change(partition)

    # --- requests -------------------------------------------------------------------------------------------

    def init_producer_id(
        self, params: InitProducerIdParams, done: Callable[[InitProducerIdResult], None]
    ) -> None:
        """Give a transactional id a new owner."""

        def decide(shard: TransactionStateManager, new_id: int | None) -> TransactionMetadata:
            known = shard.transactions.get(params.transactional_id)
            return transitions.init_producer_id(known, params, new_id=new_id, now_ms=self._clock.now_ms())

        def carry_out(shard: TransactionStateManager, begun: TransactionMetadata) -> None:
            if begun.state is TransactionState.PREPARE_EPOCH_FENCE:
                refusal = ErrorCode.CONCURRENT_TRANSACTIONS  # once it is aborted the user asks again
                self._abort_fenced(shard, begun, lambda error: done(InitProducerIdResult(error or refusal)))
                return
            ongoing = begun.writer if begun.state is TransactionState.ONGOING else NO_PRODUCER
            shard.append(
                begun,
                lambda error: done(
                    InitProducerIdResult(error)
                    if error
                    else InitProducerIdResult(error, begun.owner, ongoing)
                ),
            )

        self._decide(
            params.transactional_id, decide, carry_out, lambda error: done(InitProducerIdResult(error))
        )

    def add_partitions(
        self,
        transactional_id: str,
        owner: ProducerIdAndEpoch,
        partitions: Collection[TopicPartition],
        *,
        version: int,
        done: Done,
    ) -> None:
        """Add partitions to the open transaction, or open one."""
        now_ms = self._clock.now_ms()
        try:
            shard = self.shard_for(transactional_id)
            known = shard.transactions.get(transactional_id)
            txn = transitions.add_partitions(known, owner, partitions, version=version, now_ms=now_ms)
        except ApiError as error:
            done(error.code)
            return
        if txn is None:
            self.runtime.when_committed(self.partition_of(transactional_id), done)
        else:
            shard.append(txn, done)

    def verify_partitions(
        self,
        transactional_id: str,
        owner: ProducerIdAndEpoch,
        done: Callable[[ErrorCode, frozenset[TopicPartition]], None],
    ) -> None:
        """Which partitions are part of the owner's open transaction."""
        try:
            known = self.shard_for(transactional_id).transactions.get(transactional_id)
            found = transitions.verify_partitions(known, owner)
        except ApiError as error:
            done(error.code, frozenset())
            return
        self.runtime.when_committed(self.partition_of(transactional_id), lambda error: done(error, found))

    def end_transaction(
        self,
        transactional_id: str,
        owner: ProducerIdAndEpoch,
        *,
        commit: bool,
        version: int,
        done: Callable[[EndTxnResult], None],
    ) -> None:
        """Commit or abort. It is answered when the decision is replicated: the markers follow."""

        def decide(shard: TransactionStateManager, new_id: int | None) -> TransactionMetadata | None:
            known = shard.transactions.get(transactional_id)
            now_ms = self._clock.now_ms()
            return transitions.end_transaction(
                known, owner, commit=commit, version=version, new_id=new_id, now_ms=now_ms
            )

        def carry_out(shard: TransactionStateManager, txn: TransactionMetadata | None) -> None:
            if txn is not None:
                after = transitions.producer_after_end(txn)
                self._prepare(shard, txn, lambda error: done(_ended(error, after)))
                return
            after = shard.transactions[transactional_id].writer
            self.runtime.when_committed(
                self.partition_of(transactional_id), lambda error: done(_ended(error, after))
            )

        self._decide(transactional_id, decide, carry_out, lambda error: done(EndTxnResult(error)))

    # --- carrying out ---------------------------------------------------------------------------------------

    def _decide(
        self,
        transactional_id: str,
        decide: Callable[[TransactionStateManager, int | None], T],
        carry_out: Callable[[TransactionStateManager, T], None],
        refuse: Callable[[ErrorCode], None],
        new_id: int | None = None,
    ) -> None:
        """Decide and carry out; a decision that needs a producer id is made again when there is one."""
        try:
            shard = self.shard_for(transactional_id)
            decision = decide(shard, new_id)
        except ApiError as error:
            refuse(error.code)
            return
        except ProducerIdNeeded:
            taken = self._take_producer_id()
            if isinstance(taken, int):
                self._decide(transactional_id, decide, carry_out, refuse, taken)
                return

            def when_taken(given: "asyncio.Future[int]") -> None:
                if given.cancelled() or given.exception() is not None:
                    refuse(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)  # as Kafka has it: asked again soon
                else:
                    self._decide(transactional_id, decide, carry_out, refuse, given.result())

            taken.add_done_callback(when_taken)
            return
        carry_out(shard, decision)

    def _abort_fenced(self, shard: TransactionStateManager, fenced: TransactionMetadata, done: Done) -> None:
        version, now_ms = self.transaction_version, self._clock.now_ms()
        self._prepare(shard, transitions.prepare_abort_fenced(fenced, version=version, now_ms=now_ms), done)

    def _prepare(self, shard: TransactionStateManager, txn: TransactionMetadata, done: Done) -> None:
        """Write a decision; once it is replicated send the markers, after the answer has left."""

        def decided(error: ErrorCode) -> None:
            done(error)
            if not error:
                self._loop.call_soon(self._send_markers, txn)

        shard.append(txn, decided)

    def _send_markers_when_committed(self, partition: int, txn: TransactionMetadata) -> None:
        """A decision that was found in the log: the leader before may have told nobody else of it."""

        def committed(error: ErrorCode) -> None:
            if not error:
                self._send_markers(txn)

        self.runtime.when_committed(partition, committed)

    def _send_markers(self, txn: TransactionMetadata) -> None:
        try:
            epoch = self.runtime.leader_epoch(self.partition_of(txn.transactional_id))
        except ApiError:
            return  # another node coordinates the id now, and finds the decision
        self.marker_channel.add_markers_to_send(txn, epoch)

    def _on_markers_written(self, pending: PendingCompleteTxn) -> None:
        """Every partition has the marker: the transaction is over."""
        txn = pending.txn
        try:
            shard = self.shard_for(txn.transactional_id)
        except ApiError:
            return
        if shard.transactions.get(txn.transactional_id) != txn:
            return

        def completed(error: ErrorCode) -> None:
            if error is ErrorCode.COORDINATOR_NOT_AVAILABLE:
                self._loop.call_later(RETRY_S, self._on_markers_written, pending)

        shard.append(transitions.prepare_complete(txn, now_ms=self._clock.now_ms()), completed)

    # --- time -----------------------------------------------------------------------------------------------

    def _sweep(self, interval: str, look: Callable[[], None]) -> None:
        def turn() -> None:
            look()
            self._sweep(interval, look)

        self._sweeps[interval] = self._loop.call_later(self._config.int(interval) / 1000, turn)

    def _abort_timed_out(self) -> None:
        now_ms = self._clock.now_ms()
        for shard in self.runtime.shards():
            for txn in [each for each in shard.transactions.values() if each.is_overdue(now_ms)]:
                self._abort_fenced(shard, transitions.fence_producer_epoch(txn), lambda error: None)

    def _remove_expired(self) -> None:
        before_ms = self._clock.now_ms() - self._config.int("transactional.id.expiration.ms")
        for shard in self.runtime.shards():
            idle = [
                each.transactional_id
                for each in shard.transactions.values()
                if each.state.is_idle and each.update_ms <= before_ms
            ]
            if idle:
                shard.remove(idle, lambda error: None)

    # --- shards -------------------------------------------------------------------------------------------

    def _make_shard(self, partition: int) -> TransactionStateManager:
        def write(records: Sequence[CoordinatorRecord], done: Done) -> None:
            self.runtime.write(partition, records, done)

        return TransactionStateManager(
            write=write,
            transaction_version=lambda: self.transaction_version,
            on_prepared=lambda txn: self._send_markers_when_committed(partition, txn),
            on_removed=lambda txn: self.marker_channel.remove_markers(txn.transactional_id),
        )


def _ended(error: ErrorCode, owner: ProducerIdAndEpoch) -> EndTxnResult:
    return EndTxnResult(error) if error else EndTxnResult(error, owner)
