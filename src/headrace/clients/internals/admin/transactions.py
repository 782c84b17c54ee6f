"""Transactions as an operator sees them (KIP-664): who writes in one, since when, and ending what hangs.

A transaction's coordinator knows its state and partitions; a partition's leader knows which producers have
one open. Where the two disagree for long, it hangs, and only a marker written by hand ends it. Whoever knows
a transaction's producer id and epoch can end it in another process' place (`end_transaction`).
"""

import asyncio
from collections.abc import Iterable
from functools import partial
from typing import Any, NamedTuple

from headrace.base.error_codes import ErrorCode
from headrace.base.ids import TopicPartition
from headrace.clients.errors import RefusedError, raise_for
from headrace.clients.internals.arguments import names_of
from headrace.clients.internals.coordinator_client import CoordinatorClient, CoordinatorKind
from headrace.clients.internals.network_client import NetworkClient
from headrace.clients.internals.producer.transaction_state import (
    CONCURRENT_PAUSE_MS,
    END_EXPLICIT,
    is_implicit,
)
from headrace.wire.schemas.describe_producers import DescribeProducersRequest, TopicRequest
from headrace.wire.schemas.describe_transactions import DescribeTransactionsRequest
from headrace.wire.schemas.end_txn import EndTxnRequest
from headrace.wire.schemas.init_producer_id import InitProducerIdRequest
from headrace.wire.schemas.list_transactions import ListTransactionsRequest
from headrace.wire.schemas.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)


class TransactionListing(NamedTuple):
    """A transactional id as `list_transactions` names it, with its coordinator."""

    coordinator_id: int
    transactional_id: str
    producer_id: int
    state: str


class TransactionDescription(NamedTuple):
    """The transaction of a transactional id: its state, its producer and the partitions in it."""

    transactional_id: str
    state: str
    timeout_ms: int
    start_ms: int
    producer_id: int
    producer_epoch: int
    partitions: tuple[TopicPartition, ...]


class ActiveProducer(NamedTuple):
    """A producer with state on a partition; the start offset is -1 where it has no open transaction."""

    partition: TopicPartition
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    last_sequence: int
    last_timestamp_ms: int
    transaction_start_offset: int


async def list_transactions(
    client: NetworkClient,
    *,
    states: str | Iterable[str] = (),
    producer_ids: Iterable[int] = (),
    longer_than_ms: int = -1,
    pattern: str | None = None,
) -> list[TransactionListing]:
    """All transactions that some broker coordinates; `pattern` is a regular expression for whole ids."""
    request = ListTransactionsRequest(
        state_filters=names_of(states),
        producer_id_filters=list(producer_ids),
        duration_filter=longer_than_ms,
        transactional_id_pattern=pattern,
    )

    async def ask(node: int) -> list[TransactionListing]:
        response = await client.call(request, node=node)
        raise_for(response.error_code, f"cannot list the transactions of broker {node}")
        return [
            TransactionListing(node, each.transactional_id, each.producer_id, each.transaction_state)
            for each in response.transaction_states
        ]

    brokers = await client.brokers()
    found = await asyncio.gather(*(client.patiently(partial(ask, node)) for node in brokers))
    return sorted(each for own in found for each in own)


async def describe_transactions(
    client: NetworkClient, transactional_ids: Iterable[str]
) -> dict[str, TransactionDescription]:
    """What each id's coordinator knows; ids that it does not know are left out."""

    async def ask(name: str) -> TransactionDescription | None:
        coordinator = CoordinatorClient(client, name, CoordinatorKind.TRANSACTION)

        async def once() -> Any:
            response = await coordinator.ask(DescribeTransactionsRequest(transactional_ids=[name]))
            (state,) = response.transaction_states
            if state.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
                return None
            coordinator.check(state.error_code, f"cannot describe transactional id {name!r}")
            return state

        state = await coordinator.patiently(once)
        if state is None:
            return None
        return TransactionDescription(
            name,
            state.transaction_state,
            state.transaction_timeout_ms,
            state.transaction_start_time_ms,
            state.producer_id,
            state.producer_epoch,
            tuple(TopicPartition(each.topic, number) for each in state.topics for number in each.partitions),
        )

    found = await asyncio.gather(*map(ask, transactional_ids))
    return {each.transactional_id: each for each in found if each is not None}


async def end_transaction(
    client: NetworkClient, transactional_id: str, producer_id: int, producer_epoch: int, *, committed: bool
) -> None:
    """Commit or abort in the place of the producer that wrote it. Again is harmless.

    RefusedError where another producer has taken over the id, or the transaction was ended the other way.
    """
    coordinator = CoordinatorClient(client, transactional_id, CoordinatorKind.TRANSACTION)
    request = EndTxnRequest(
        transactional_id=transactional_id,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        committed=committed,
    )
    what = f"cannot {'commit' if committed else 'abort'} the transaction of {transactional_id!r}"

    async def once() -> None:
        at_most = None if is_implicit((await coordinator.channel()).versions) else END_EXPLICIT
        reply = await coordinator.ask(request, at_most=at_most)
        while reply.error_code == ErrorCode.CONCURRENT_TRANSACTIONS:
            await asyncio.sleep(CONCURRENT_PAUSE_MS / 1000)
            reply = await coordinator.ask(request, at_most=at_most)
        coordinator.check(reply.error_code, what)

    await coordinator.patiently(once)


async def fence_producer(client: NetworkClient, transactional_id: str) -> None:
    """Shut out whoever writes under an id, and abort what it has open."""
    coordinator = CoordinatorClient(client, transactional_id, CoordinatorKind.TRANSACTION)
    request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=1)

    async def once() -> None:
        reply = await coordinator.ask(request)
        coordinator.check(reply.error_code, f"cannot fence transactional id {transactional_id!r}")

    await coordinator.patiently(once)


async def describe_producers(
    client: NetworkClient, partitions: Iterable[TopicPartition]
) -> list[ActiveProducer]:
    """The producers that partitions' leaders know of."""

    async def ask(partition: TopicPartition) -> list[ActiveProducer]:
        await client.topic(partition.topic)
        request = DescribeProducersRequest(topics=[TopicRequest(partition.topic, [partition.partition])])
        response = await client.call(request, node=client.metadata.leader(partition).node)
        found = response.topics[0].partitions[0]
        raise_for(found.error_code, f"cannot describe the producers of {partition}", found.error_message)
        return [
            ActiveProducer(
                partition,
                each.producer_id,
                each.producer_epoch,
                each.coordinator_epoch,
                each.last_sequence,
                each.last_timestamp,
                each.current_txn_start_offset,
            )
            for each in found.active_producers
        ]

    asked = [client.patiently(partial(ask, each)) for each in partitions]
    return [each for own in await asyncio.gather(*asked) for each in own]


async def abort_hanging(client: NetworkClient, producer: ActiveProducer) -> None:
    """Write an abort marker behind a producer's open transaction, which no coordinator will end."""
    if producer.transaction_start_offset < 0:
        raise RefusedError(
            ErrorCode.INVALID_TXN_STATE,
            f"producer {producer.producer_id} has no open transaction on {producer.partition}",
        )
    topic = WritableTxnMarkerTopic(producer.partition.topic, [producer.partition.partition])
    marker = WritableTxnMarker(
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        transaction_result=False,
        topics=[topic],
        coordinator_epoch=max(0, producer.coordinator_epoch),
    )

    async def once() -> None:
        await client.topic(producer.partition.topic)
        node = client.metadata.leader(producer.partition).node
        response = await client.call(WriteTxnMarkersRequest(markers=[marker]), node=node)
        result = response.markers[0].topics[0].partitions[0]
        raise_for(result.error_code, f"cannot abort the open transaction on {producer.partition}")

    await client.patiently(once)
