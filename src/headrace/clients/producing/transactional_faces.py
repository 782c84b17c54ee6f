"""The transactions of both faces.

    with Producer({"bootstrap.servers": "127.0.0.1:9092", "transactional.id": "copier-1"}) as producer:
        producer.init_transactions()
        with producer.transaction():
            producer.send("orders", b"value")

Leaving `transaction()` commits; an exception in it aborts.
"""

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager

from headrace.base.ids import TopicPartition
from headrace.clients.background import Background
from headrace.clients.consuming.coordinator import GroupMetadata, OffsetAndMetadata, places_of
from headrace.clients.errors import ClientError
from headrace.clients.producing.core import ProducerCore
from headrace.clients.producing.transaction_phases import MAY, PreparedTransaction
from headrace.clients.producing.transactions import Transactions

Offsets = Mapping[TopicPartition, OffsetAndMetadata | int]


class AsyncTransactional:
    """Part of AsyncProducer."""

    _core: ProducerCore

    async def init_transactions(self, *, keep_prepared: bool = False) -> PreparedTransaction | None:
        """Before anything else: fence whoever used this transactional id, and end what it left open.

        With `keep_prepared` a transaction that was prepared stays so, and is returned: `complete_transaction`
        decides about it.
        """
        transactions = self._transactions()
        await transactions.init(keep_prepared=keep_prepared)
        return transactions.prepared

    async def begin_transaction(self) -> None:
        self._transactions().begin()

    async def send_offsets_to_transaction(self, offsets: Offsets, group: GroupMetadata) -> None:
        """Commit a consumer's offsets with the transaction: `group` is its `group_metadata()`."""
        await self._transactions().send_offsets(places_of(offsets), group)

    async def commit_transaction(self) -> None:
        """Write everything and commit. AbortableError where it can only be aborted."""
        await self._transactions().commit(self._core.writes)

    async def abort_transaction(self) -> None:
        await self._transactions().abort(self._core.writes)

    async def prepare_transaction(self) -> PreparedTransaction:
        """Write everything and wait for a decision: commit or abort here, or in another process.

        It waits for transaction.timeout.ms, and with two-phase commit (KIP-939) for as long as it takes.
        """
        return await self._transactions().prepare(self._core.writes)

    async def complete_transaction(self, decided: PreparedTransaction) -> bool:
        """Commit what is prepared if it is this one, else abort it; whether it was committed."""
        return await self._transactions().complete(decided, self._core.writes)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        """Commit at the end of the block, abort where it raises."""
        await self.begin_transaction()
        try:
            yield
            await self.commit_transaction()
        except BaseException:
            if self.may_abort:
                await self.abort_transaction()
            raise

    @property
    def may_abort(self) -> bool:
        """Whether there is a transaction that can be aborted."""
        return self._transactions().phase in MAY["abort_transaction"]

    def _transactions(self) -> Transactions:
        found = self._core.sender.transactions
        if found is None:
            raise ClientError("the producer has no transactions: set transactional.id")
        return found


class SyncTransactional:
    """Part of Producer."""

    _async: AsyncTransactional
    _background: Background

    def init_transactions(self, *, keep_prepared: bool = False) -> PreparedTransaction | None:
        """Before anything else: fence whoever used this transactional id, and end what it left open.

        With `keep_prepared` a transaction that was prepared stays so, and is returned: `complete_transaction`
        decides about it.
        """
        return self._background.run(self._async.init_transactions(keep_prepared=keep_prepared))

    def begin_transaction(self) -> None:
        self._background.run(self._async.begin_transaction())

    def send_offsets_to_transaction(self, offsets: Offsets, group: GroupMetadata) -> None:
        """Commit a consumer's offsets with the transaction: `group` is its `group_metadata()`."""
        self._background.run(self._async.send_offsets_to_transaction(offsets, group))

    def commit_transaction(self) -> None:
        """Write everything and commit. AbortableError where it can only be aborted."""
        self._background.run(self._async.commit_transaction())

    def abort_transaction(self) -> None:
        self._background.run(self._async.abort_transaction())

    def prepare_transaction(self) -> PreparedTransaction:
        """Write everything and wait for a decision: commit or abort here, or in another process.

        It waits for transaction.timeout.ms, and with two-phase commit (KIP-939) for as long as it takes.
        """
        return self._background.run(self._async.prepare_transaction())

    def complete_transaction(self, decided: PreparedTransaction) -> bool:
        """Commit what is prepared if it is this one, else abort it; whether it was committed."""
        return self._background.run(self._async.complete_transaction(decided))

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Commit at the end of the block, abort where it raises."""
        self.begin_transaction()
        try:
            yield
            self.commit_transaction()
        except BaseException:
            if self._async.may_abort:
                self.abort_transaction()
            raise
