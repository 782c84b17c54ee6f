"""The part of the administrator's faces that is about transactions."""

from collections.abc import Iterable

from headrace.base.ids import TopicPartition
from headrace.clients.administering import transactions
from headrace.clients.administering.transactions import (
    ActiveProducer,
    TransactionDescription,
    TransactionListing,
)
from headrace.clients.background import Background
from headrace.clients.cluster_client import ClusterClient


class AsyncTransactionAdmin:
    """Part of AsyncAdmin."""

    cluster: ClusterClient

    async def list_transactions(
        self,
        *,
        states: Iterable[str] = (),
        producer_ids: Iterable[int] = (),
        longer_than_ms: int = -1,
        pattern: str | None = None,
    ) -> list[TransactionListing]:
        """All transactions, or those that fit; `pattern` is a regular expression for whole ids."""
        return await transactions.list_transactions(
            self.cluster,
            states=states,
            producer_ids=producer_ids,
            longer_than_ms=longer_than_ms,
            pattern=pattern,
        )

    async def describe_transactions(self, *transactional_ids: str) -> dict[str, TransactionDescription]:
        """State, producer and partitions of each id; ids that nobody knows are left out."""
        return await transactions.describe_transactions(self.cluster, transactional_ids)

    async def end_transaction(
        self, transactional_id: str, producer_id: int, producer_epoch: int, *, committed: bool
    ) -> None:
        """Commit or abort in the place of the producer that wrote it. Again is harmless."""
        await transactions.end_transaction(
            self.cluster, transactional_id, producer_id, producer_epoch, committed=committed
        )

    async def fence_producer(self, transactional_id: str) -> None:
        """Shut out whoever writes under an id, and abort what it has open."""
        await transactions.fence_producer(self.cluster, transactional_id)

    async def describe_producers(self, *partitions: TopicPartition) -> list[ActiveProducer]:
        """The producers that partitions' leaders know of, with the transactions they have open."""
        return await transactions.describe_producers(self.cluster, partitions)

    async def abort_hanging(self, producer: ActiveProducer) -> None:
        """Write an abort marker behind an open transaction that no coordinator will end."""
        await transactions.abort_hanging(self.cluster, producer)


class TransactionAdmin:
    """Part of Admin."""

    _async: AsyncTransactionAdmin
    _background: Background

    def list_transactions(
        self,
        *,
        states: Iterable[str] = (),
        producer_ids: Iterable[int] = (),
        longer_than_ms: int = -1,
        pattern: str | None = None,
    ) -> list[TransactionListing]:
        """All transactions, or those that fit; `pattern` is a regular expression for whole ids."""
        asked = self._async.list_transactions(
            states=states, producer_ids=producer_ids, longer_than_ms=longer_than_ms, pattern=pattern
        )
        return self._background.run(asked)

    def describe_transactions(self, *transactional_ids: str) -> dict[str, TransactionDescription]:
        """State, producer and partitions of each id; ids that nobody knows are left out."""
        return self._background.run(self._async.describe_transactions(*transactional_ids))

    def end_transaction(
        self, transactional_id: str, producer_id: int, producer_epoch: int, *, committed: bool
    ) -> None:
        """Commit or abort in the place of the producer that wrote it. Again is harmless."""
        asked = self._async.end_transaction(
            transactional_id, producer_id, producer_epoch, committed=committed
        )
        self._background.run(asked)

    def fence_producer(self, transactional_id: str) -> None:
        """Shut out whoever writes under an id, and abort what it has open."""
        self._background.run(self._async.fence_producer(transactional_id))

    def describe_producers(self, *partitions: TopicPartition) -> list[ActiveProducer]:
        """The producers that partitions' leaders know of, with the transactions they have open."""
        return self._background.run(self._async.describe_producers(*partitions))

    def abort_hanging(self, producer: ActiveProducer) -> None:
        """Write an abort marker behind an open transaction that no coordinator will end."""
        self._background.run(self._async.abort_hanging(producer))
