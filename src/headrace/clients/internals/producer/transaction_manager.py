"""A producer's transactions: what it may do when, and what it tells its coordinator.

One transaction is open at a time. Brokers of transaction version 2 (KIP-890) take a partition into it with
its first batch, and every end of a transaction brings the epoch for the next; older ones are told of each
partition and of each group before anything is written (`is_implicit` tells which). A transaction that went
wrong can only be aborted, which mends it; a producer that was fenced can do nothing more.

With two-phase commit (KIP-939) a transaction may be left prepared, for another process to complete.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from headrace.base.error_codes import RETRIABLE, ErrorCode
from headrace.base.ids import TopicPartition
from headrace.base.producer_id_and_epoch import NO_PRODUCER, ProducerIdAndEpoch
from headrace.clients.errors import (
    AbortableError,
    ClientError,
    CommitFailedError,
    FencedError,
    RefusedError,
    TimedOutError,
    UnreachableError,
    UnsupportedError,
)
from headrace.clients.internals.consumer.group_coordinator_client import (
    ConsumerGroupMetadata,
    GroupCoordinatorClient,
)
from headrace.clients.internals.coordinator_client import CoordinatorClient, CoordinatorKind
from headrace.clients.internals.network_client import NetworkClient
from headrace.clients.internals.producer.sequences import Sequences
from headrace.clients.internals.producer.transaction_state import (
    CONCURRENT_PAUSE_MS,
    END_EXPLICIT,
    FATAL,
    FENCED,
    MAY,
    NOT_A_MEMBER,
    OFFSETS_BY_NAME,
    OFFSETS_EXPLICIT,
    PreparedTxnState,
    ProducerTxnState,
    Writes,
    is_implicit,
    out_of_group,
)
from headrace.clients.offsets import OffsetAndMetadata
from headrace.wire.schemas import add_partitions_to_txn
from headrace.wire.schemas.add_offsets_to_txn import AddOffsetsToTxnRequest
from headrace.wire.schemas.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from headrace.wire.schemas.end_txn import EndTxnRequest
from headrace.wire.schemas.init_producer_id import TWO_PHASE_COMMIT_SINCE, InitProducerIdRequest
from headrace.wire.schemas.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

_ADD_PARTITIONS_OF_CLIENTS: Final = add_partitions_to_txn.BROKER_SINCE - 1


class TransactionManager:
    """The transactions of one producer. On its loop, except for `check`."""

    def __init__(
        self, client: NetworkClient, sequences: Sequences, *, on_failure: Callable[[ClientError], None]
    ) -> None:
        """`on_failure` hears why what is not sent yet need not be sent any more."""
        config = client.config
        self._client = client
        self._environment = client.environment
        self._sequences = sequences
        self._on_failure = on_failure
        self.id = config.str("transactional.id")
        self._timeout_ms = config.int("transaction.timeout.ms")
        self._block_ms = config.int("max.block.ms")
        self._is_two_phase = config.bool("transaction.two.phase.commit.enable")
        self._coordinator = CoordinatorClient(client, self.id, CoordinatorKind.TRANSACTION)
        self.state = ProducerTxnState.UNINITIALIZED
        self.error: ClientError | None = None
        self.is_implicit = False
        self.prepared: PreparedTxnState | None = None
        self._added: set[TopicPartition] = set()
        self._wanted: set[TopicPartition] = set()
        self._groups: set[str] = set()
        self._has_begun = False  # somebody in the cluster knows of the transaction
        self._must_renew = False  # what was written is not certain: the next needs another epoch

    def check(self, what: str) -> None:
        """Raise unless this may be done now. Any thread."""
        if self.state in MAY[what]:
            return
        if self.error is not None:
            raise self.error
        raise ClientError(f"{what} cannot be done now: the producer {self.state.value}")

    # What the sender asks

    def admits(self, partition: TopicPartition) -> bool:
        """Whether a batch for this partition may leave; if not, it will be made so."""
        if self.state not in (
            ProducerTxnState.IN_TRANSACTION,
            ProducerTxnState.COMMITTING_TRANSACTION,
        ):
            return False
        if self.is_implicit or partition in self._added:
            self._has_begun = True
            return True
        self._wanted.add(partition)
        return False

    @property
    def wants_partitions(self) -> bool:
        return bool(self._wanted) and self.state in (
            ProducerTxnState.IN_TRANSACTION,
            ProducerTxnState.COMMITTING_TRANSACTION,
        )

    @property
    def is_aborting(self) -> bool:
        """Nothing is sent again: it would be aborted anyway."""
        return self.state in (
            ProducerTxnState.ABORTING_TRANSACTION,
            ProducerTxnState.ABORTABLE_ERROR,
            ProducerTxnState.FATAL_ERROR,
        )

    async def add_partitions(self) -> None:
        """Tell the coordinator of the partitions that are written to next."""
        adding, self._wanted = self._wanted, set()
        topics: dict[str, AddPartitionsToTxnTopic] = {}
        for topic, number in sorted(adding):
            topics.setdefault(topic, AddPartitionsToTxnTopic(name=topic)).partitions.append(number)
        producer_id, epoch = self._sequences.identity
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.id,
            v3_and_below_producer_id=producer_id,
            v3_and_below_producer_epoch=epoch,
            v3_and_below_topics=list(topics.values()),
        )
        self._has_begun = True
        try:
            await self._ask(
                request,
                "cannot add partitions to the transaction",
                lambda reply: (
                    result.partition_error_code
                    for topic in reply.results_by_topic_v3_and_below
                    for result in topic.results_by_partition
                ),
                at_most=_ADD_PARTITIONS_OF_CLIENTS,
            )
        except ClientError as error:
            self.fail(error)
        else:
            self._added |= adding

    def batch_failed(self, error: ClientError, *, was_sent: bool) -> None:
        """A record of the open transaction is not written, or may not be."""
        self._must_renew = self._must_renew or was_sent
        if self.state in (
            ProducerTxnState.IN_TRANSACTION,
            ProducerTxnState.COMMITTING_TRANSACTION,
        ):
            is_stale = isinstance(error, RefusedError) and error.code == ErrorCode.INVALID_PRODUCER_EPOCH
            # A time-out of the coordinator raises the epoch too: the abort will tell the two apart.
            self._abortable(error) if is_stale else self.fail(error)

    # What the user asks

    async def init(self, *, keep_prepared: bool = False) -> None:
        """Get an identity; whoever used this transactional id before is fenced, and its transaction ended."""
        self.check("init_transactions")
        if keep_prepared and not self._is_two_phase:
            raise ClientError("to keep a prepared transaction set transaction.two.phase.commit.enable=true")
        request = InitProducerIdRequest(
            transactional_id=self.id,
            transaction_timeout_ms=2**31 - 1 if self._is_two_phase else self._timeout_ms,
            enable_2pc=self._is_two_phase,
            keep_prepared_txn=keep_prepared,
        )
        try:
            reply = await self._identify(request)
            channel = await self._coordinator.channel()
        except (RefusedError, UnsupportedError) as error:
            raise self.fail(error) from error
        self.is_implicit = is_implicit(channel.versions)
        if reply.ongoing_txn_producer_id >= 0:
            self.prepared = PreparedTxnState(reply.ongoing_txn_producer_id, reply.ongoing_txn_producer_epoch)
            self._has_begun = True
            self.state = ProducerTxnState.PREPARED_TRANSACTION
        else:
            self.state = ProducerTxnState.READY

    async def _identify(self, request: InitProducerIdRequest) -> Any:
        reply = await self._ask(
            request,
            f"cannot get a producer id for transactional id {self.id!r}",
            lambda reply: (reply.error_code,),
            at_most=TWO_PHASE_COMMIT_SINCE if self._is_two_phase else None,
        )
        self._sequences.identity = ProducerIdAndEpoch(reply.producer_id, reply.producer_epoch)
        return reply

    def begin(self) -> None:
        self.check("begin_transaction")
        self.state = ProducerTxnState.IN_TRANSACTION

    async def send_offsets(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group: ConsumerGroupMetadata
    ) -> None:
        """Commit a group's offsets too. CommitFailedError where the consumer is out of it."""
        self.check("send_offsets_to_transaction")
        if not offsets:
            return
        try:
            if not self.is_implicit and group.group_id not in self._groups:
                self._has_begun = True
                await self._add_group(group.group_id)
            self._has_begun = True
            await self._commit_offsets(offsets, group)
        except CommitFailedError as error:
            self._abortable(error)
            raise
        except ClientError as error:
            raise self.fail(error) from error

    async def _add_group(self, group_id: str) -> None:
        producer_id, epoch = self._sequences.identity
        request = AddOffsetsToTxnRequest(
            transactional_id=self.id, producer_id=producer_id, producer_epoch=epoch, group_id=group_id
        )
        what = f"cannot add group {group_id!r} to the transaction"
        await self._ask(request, what, lambda reply: (reply.error_code,))
        self._groups.add(group_id)

    async def _commit_offsets(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group: ConsumerGroupMetadata
    ) -> None:
        topics: dict[str, TxnOffsetCommitRequestTopic] = {}
        for (name, number), place in offsets.items():
            topic = topics.setdefault(name, TxnOffsetCommitRequestTopic(name=name))
            entry = TxnOffsetCommitRequestPartition(number, place.offset, place.leader_epoch, place.metadata)
            topic.partitions.append(entry)
        producer_id, epoch = self._sequences.identity
        request = TxnOffsetCommitRequest(
            transactional_id=self.id,
            group_id=group.group_id,
            producer_id=producer_id,
            producer_epoch=epoch,
            generation_id=group.generation,
            member_id=group.member_id,
            group_instance_id=group.instance_id,
            topics=list(topics.values()),
        )
        coordinator = GroupCoordinatorClient(self._client, group.group_id)
        await self._ask(
            request,
            f"cannot commit offsets of group {group.group_id!r} in the transaction",
            lambda reply: (part.error_code for topic in reply.topics for part in topic.partitions),
            at_most=OFFSETS_BY_NAME if self.is_implicit else OFFSETS_EXPLICIT,
            coordinator=coordinator,
        )

    async def prepare(self, writes: Writes) -> PreparedTxnState:
        """Write everything and let the transaction wait for a decision, here or in another process."""
        self.check("prepare_transaction")
        await self._write_all(writes)
        self.state = ProducerTxnState.PREPARED_TRANSACTION
        self.prepared = PreparedTxnState(*self._sequences.identity)
        return self.prepared

    async def commit(self, writes: Writes) -> None:
        """Write everything, then commit. After a TimedOutError it may be called again."""
        self.check("commit_transaction")
        if self.state is ProducerTxnState.IN_TRANSACTION:
            await self._write_all(writes)
        self.state = ProducerTxnState.COMMITTING_TRANSACTION
        await self._end(committed=True)

    async def _write_all(self, writes: Writes) -> None:
        self.state = ProducerTxnState.COMMITTING_TRANSACTION
        writes.seal()
        await writes.drain()
        if self.error is not None:
            raise self.error

    async def abort(self, writes: Writes) -> None:
        """Give up what is not sent yet, wait for what is, then abort. After a TimedOutError call it again."""
        self.check("abort_transaction")
        self.state = ProducerTxnState.ABORTING_TRANSACTION
        writes.seal()
        writes.drop(ClientError("the transaction was aborted before the record was sent"))
        await writes.drain()
        await self._end(committed=False)

    async def complete(self, decided: PreparedTxnState, writes: Writes) -> bool:
        """Commit what is prepared if it is what was decided on, abort it if not; whether it was committed."""
        if self.state is not ProducerTxnState.PREPARED_TRANSACTION:
            raise ClientError(f"there is no prepared transaction: the producer {self.state.value}")
        if self.prepared == decided:
            await self.commit(writes)
            return True
        await self.abort(writes)
        return False

    async def _end(self, *, committed: bool) -> None:
        try:
            if self._has_begun:
                await self._tell_end(committed=committed)
            elif self._must_renew:
                await self._renew()
        except RefusedError as error:
            raise self.fail(error) from error
        self._added.clear()
        self._wanted.clear()
        self._groups.clear()
        self._has_begun = self._must_renew = False
        self.error = self.prepared = None
        self.state = ProducerTxnState.READY

    async def _tell_end(self, *, committed: bool) -> None:
        producer_id, epoch = self._sequences.identity
        request = EndTxnRequest(
            transactional_id=self.id, producer_id=producer_id, producer_epoch=epoch, committed=committed
        )
        reply = await self._ask(
            request,
            f"cannot {'commit' if committed else 'abort'} the transaction",
            lambda reply: (reply.error_code,),
            at_most=None if self.is_implicit else END_EXPLICIT,
        )
        if self.is_implicit and reply.producer_id >= 0:
            self._sequences.identity = ProducerIdAndEpoch(reply.producer_id, reply.producer_epoch)
        elif self._must_renew:
            await self._renew()

    async def _renew(self) -> None:
        """The same producer with the next epoch (KIP-360): sequences start again from 0."""
        producer_id, epoch = self._sequences.identity
        request = InitProducerIdRequest(
            transactional_id=self.id,
            transaction_timeout_ms=self._timeout_ms,
            producer_id=producer_id,
            producer_epoch=epoch,
        )
        await self._identify(request)

    # Errors

    def fail(self, error: ClientError) -> ClientError:
        """Take up an error of a request or a batch; returns what to tell the user."""
        code = error.code if isinstance(error, RefusedError) else None
        if code in FENCED:
            told: ClientError = FencedError(code, f"the producer of transactional id {self.id!r} is fenced")
        elif code in FATAL or isinstance(error, UnsupportedError):
            told = error
        else:
            return self._abortable(error)
        self.state = ProducerTxnState.FATAL_ERROR
        self.error = told
        self._sequences.identity = NO_PRODUCER
        self._on_failure(told)
        return told

    def _abortable(self, error: ClientError) -> ClientError:
        if (
            self.state in (ProducerTxnState.IN_TRANSACTION, ProducerTxnState.COMMITTING_TRANSACTION)
            and self.error is None
        ):
            self.error = AbortableError(f"the transaction can only be aborted: {error}")
            self.error.__cause__ = error
            self.state = ProducerTxnState.ABORTABLE_ERROR
            self._on_failure(self.error)
        return self.error or error

    async def _ask(
        self,
        request: Any,
        what: str,
        codes: Callable[[Any], Iterable[int]],
        *,
        at_most: int | None = None,
        coordinator: CoordinatorClient | None = None,
    ) -> Any:
        """A coordinator's answer, asked for again while that may help, up to max.block.ms."""
        asked = coordinator or self._coordinator
        deadline_ms = self._environment.now_ms() + self._block_ms
        failures = 0
        while True:
            failures += 1
            pause_ms = self._client.retry.wait_ms(failures)
            try:
                reply = await asked.ask(request, at_most=at_most)
                for code in codes(reply):
                    if code in NOT_A_MEMBER:
                        raise out_of_group(what, code)
                    asked.check(code, what)
                return reply
            except RefusedError as error:
                if error.code not in RETRIABLE:
                    raise
                if error.code == ErrorCode.CONCURRENT_TRANSACTIONS:
                    pause_ms = CONCURRENT_PAUSE_MS
                failure: ClientError = error
            except (UnreachableError, TimedOutError) as error:
                failure = error
            if self._environment.now_ms() + pause_ms > deadline_ms:
                raise TimedOutError(f"{what} within max.block.ms: {failure}") from failure
            await asyncio.sleep(pause_ms / 1000)
