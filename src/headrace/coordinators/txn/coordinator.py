"""The transaction coordinator of this node: finds an id's machine, carries out decisions, keeps time.

The decisions are made elsewhere (`beginning`, `adding`, `ending`); this gives them what they need, has the
machine write them, sends the markers of what was decided (`markers`), and writes the end when all are there.
A transaction that is open for longer than its producer asked for is aborted; an id that nobody used for
`transactional.id.expiration.ms` is forgotten.
"""

import asyncio
from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple, TypeVar

from headrace.base.clock import Clock
from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.base.ids import TopicPartition
from headrace.base.internal_topics import TRANSACTIONS_TOPIC
from headrace.coordinators.java_hash import partition_for
from headrace.coordinators.runtime import CoordinatorRecord, Done, Runtime
from headrace.coordinators.txn import adding, beginning, ending
from headrace.coordinators.txn.beginning import InitWish, ProducerIdNeeded
from headrace.coordinators.txn.machine import TxnMachine
from headrace.coordinators.txn.markers import RETRY_S, Markers, SendMarkers, Unmarked, WriteMarkers
from headrace.coordinators.txn.states import TxnState
from headrace.coordinators.txn.transaction import NOBODY, Owner, Transaction
from headrace.metadata.delta import Delta
from headrace.metadata.features import TRANSACTION_VERSION
from headrace.metadata.image import ClusterImage
from headrace.replication.replicas import Replicas
from headrace.settings.broker_config import BrokerConfig
from headrace.wire.record_frames import TRANSACTION

T = TypeVar("T")


class Begun(NamedTuple):
    """The answer to a new user of an id: who it is, and whose transaction it may end (KIP-939)."""

    error: ErrorCode
    owner: Owner = NOBODY
    ongoing: Owner = NOBODY


class Ended(NamedTuple):
    """The answer to who ended a transaction: who it is from now on."""

    error: ErrorCode
    owner: Owner = NOBODY


class TxnCoordinator:
    """All transactional ids whose partition this node leads."""

    def __init__(
        self,
        *,
        config: BrokerConfig,
        clock: Clock,
        loop: asyncio.AbstractEventLoop,
        replicas: Replicas,
        image: ClusterImage,
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
        self.markers = Markers(
            node_id=config.node_id,
            image=image,
            loop=loop,
            write_here=write_markers,
            send=send_markers,
            on_marked=self._marked,
        )
        self.runtime: Runtime[TxnMachine] = Runtime(
            TRANSACTIONS_TOPIC, TRANSACTION, clock=clock, loop=loop, make_machine=self._make_machine
        )

    def start(self) -> None:
        """Begin to look for transactions that take too long, and for ids that nobody uses."""
        self._sweep("transaction.abort.timed.out.transaction.cleanup.interval.ms", self._abort_overdue)
        self._sweep("transaction.remove.expired.transaction.cleanup.interval.ms", self._forget_idle)

    def stop(self) -> None:
        """Coordinate nothing any more."""
        self._stopped = True
        self.runtime.drop_all()
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

    def machine_of(self, transactional_id: str) -> TxnMachine:
        """The machine that keeps this id; ApiError says why it is not here."""
        if TRANSACTIONS_TOPIC not in self._image.topics_by_name:
            raise ApiError(ErrorCode.NOT_COORDINATOR)
        return self.runtime.machine(self.partition_of(transactional_id))

    def apply(self, delta: Delta) -> None:
        """Follow one commit of the metadata log, after the replicas did."""
        if self._stopped:
            return
        for topic in delta.topics_deleted:
            if topic.name == TRANSACTIONS_TOPIC:
                for index in topic.partitions:
                    self.runtime.drop(index)
        topic_now = self._image.topics_by_name.get(TRANSACTIONS_TOPIC)
        if topic_now is None:
            return
        for index in delta.partitions_changed(topic_now.id):
            partition = self._replicas.get(TopicPartition(TRANSACTIONS_TOPIC, index))
            if partition is not None:
                self.runtime.follow(partition)

    # --- requests -------------------------------------------------------------------------------------------

    def begin_use(self, wish: InitWish, done: Callable[[Begun], None]) -> None:
        """A new user of an id."""

        def decide(machine: TxnMachine, new_id: int | None) -> Transaction:
            known = machine.transactions.get(wish.transactional_id)
            return beginning.begin_use(known, wish, new_id=new_id, now_ms=self._clock.now_ms())

        def carry_out(machine: TxnMachine, begun: Transaction) -> None:
            if begun.state is TxnState.PREPARE_EPOCH_FENCE:
                refusal = ErrorCode.CONCURRENT_TRANSACTIONS  # once it is aborted the user asks again
                self._abort_fenced(machine, begun, lambda error: done(Begun(error or refusal)))
                return
            ongoing = begun.writer if begun.state is TxnState.ONGOING else NOBODY
            machine.put(
                begun, lambda error: done(Begun(error) if error else Begun(error, begun.owner, ongoing))
            )

        self._decide(wish.transactional_id, decide, carry_out, lambda error: done(Begun(error)))

    def add_partitions(
        self,
        transactional_id: str,
        owner: Owner,
        partitions: Collection[TopicPartition],
        *,
        version: int,
        done: Done,
    ) -> None:
        """Partitions join the open transaction, or open one."""
        now_ms = self._clock.now_ms()
        try:
            machine = self.machine_of(transactional_id)
            known = machine.transactions.get(transactional_id)
            txn = adding.add_partitions(known, owner, partitions, version=version, now_ms=now_ms)
        except ApiError as error:
            done(error.code)
            return
        if txn is None:
            self.runtime.when_settled(self.partition_of(transactional_id), done)
        else:
            machine.put(txn, done)

    def verify_partitions(
        self,
        transactional_id: str,
        owner: Owner,
        done: Callable[[ErrorCode, frozenset[TopicPartition]], None],
    ) -> None:
        """Which partitions are part of the owner's open transaction."""
        try:
            known = self.machine_of(transactional_id).transactions.get(transactional_id)
            found = adding.verify_partitions(known, owner)
        except ApiError as error:
            done(error.code, frozenset())
            return
        self.runtime.when_settled(self.partition_of(transactional_id), lambda error: done(error, found))

    def end(
        self,
        transactional_id: str,
        owner: Owner,
        *,
        commit: bool,
        version: int,
        done: Callable[[Ended], None],
    ) -> None:
        """Commit or abort. It is answered when the decision is replicated: the markers follow."""

        def decide(machine: TxnMachine, new_id: int | None) -> Transaction | None:
            known = machine.transactions.get(transactional_id)
            now_ms = self._clock.now_ms()
            return ending.end(known, owner, commit=commit, version=version, new_id=new_id, now_ms=now_ms)

        def carry_out(machine: TxnMachine, txn: Transaction | None) -> None:
            if txn is not None:
                after = ending.owner_after(txn)
                self._prepare(machine, txn, lambda error: done(_ended(error, after)))
                return
            after = machine.transactions[transactional_id].writer
            self.runtime.when_settled(
                self.partition_of(transactional_id), lambda error: done(_ended(error, after))
            )

        self._decide(transactional_id, decide, carry_out, lambda error: done(Ended(error)))

    # --- carrying out ---------------------------------------------------------------------------------------

    def _decide(
        self,
        transactional_id: str,
        decide: Callable[[TxnMachine, int | None], T],
        carry_out: Callable[[TxnMachine, T], None],
        refuse: Callable[[ErrorCode], None],
        new_id: int | None = None,
    ) -> None:
        """Decide and carry out; a decision that needs a producer id is made again when there is one."""
        try:
            machine = self.machine_of(transactional_id)
            decision = decide(machine, new_id)
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
        carry_out(machine, decision)

    def _abort_fenced(self, machine: TxnMachine, fenced: Transaction, done: Done) -> None:
        version, now_ms = self.transaction_version, self._clock.now_ms()
        self._prepare(machine, ending.abort_fenced(fenced, version=version, now_ms=now_ms), done)

    def _prepare(self, machine: TxnMachine, txn: Transaction, done: Done) -> None:
        """Write a decision; once it is replicated tell the partitions, after the answer has left."""

        def decided(error: ErrorCode) -> None:
            done(error)
            if not error:
                self._loop.call_soon(self._send_markers, txn)

        machine.put(txn, decided)

    def _send_markers_when_settled(self, partition: int, txn: Transaction) -> None:
        """A decision that was found in the log: the leader before may have told nobody else of it."""

        def settled(error: ErrorCode) -> None:
            if not error:
                self._send_markers(txn)

        self.runtime.when_settled(partition, settled)

    def _send_markers(self, txn: Transaction) -> None:
        try:
            epoch = self.runtime.leader_epoch(self.partition_of(txn.transactional_id))
        except ApiError:
            return  # another node coordinates the id now, and finds the decision
        self.markers.begin(txn, epoch)

    def _marked(self, unmarked: Unmarked) -> None:
        """Every partition has the marker: the transaction is over."""
        txn = unmarked.txn
        try:
            machine = self.machine_of(txn.transactional_id)
        except ApiError:
            return
        if machine.transactions.get(txn.transactional_id) != txn:
            return

        def completed(error: ErrorCode) -> None:
            if error is ErrorCode.COORDINATOR_NOT_AVAILABLE:
                self._loop.call_later(RETRY_S, self._marked, unmarked)

        machine.put(ending.complete(txn, now_ms=self._clock.now_ms()), completed)

    # --- time -----------------------------------------------------------------------------------------------

    def _sweep(self, interval: str, look: Callable[[], None]) -> None:
        def turn() -> None:
            look()
            self._sweep(interval, look)

        self._sweeps[interval] = self._loop.call_later(self._config.int(interval) / 1000, turn)

    def _abort_overdue(self) -> None:
        now_ms = self._clock.now_ms()
        for machine in self.runtime.machines():
            for txn in [each for each in machine.transactions.values() if each.is_overdue(now_ms)]:
                self._abort_fenced(machine, beginning.fence(txn), lambda error: None)

    def _forget_idle(self) -> None:
        before_ms = self._clock.now_ms() - self._config.int("transactional.id.expiration.ms")
        for machine in self.runtime.machines():
            idle = [
                each.transactional_id
                for each in machine.transactions.values()
                if each.state.is_idle and each.update_ms <= before_ms
            ]
            if idle:
                machine.forget(idle, lambda error: None)

    # --- machines -------------------------------------------------------------------------------------------

    def _make_machine(self, partition: int) -> TxnMachine:
        def write(records: Sequence[CoordinatorRecord], done: Done) -> None:
            self.runtime.write(partition, records, done)

        return TxnMachine(
            write=write,
            transaction_version=lambda: self.transaction_version,
            on_prepared=lambda txn: self._send_markers_when_settled(partition, txn),
            on_unloaded=lambda txn: self.markers.drop(txn.transactional_id),
        )


def _ended(error: ErrorCode, owner: Owner) -> Ended:
    return Ended(error) if error else Ended(error, owner)
