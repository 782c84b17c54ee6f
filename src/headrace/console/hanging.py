"""Transactions that hang: a partition has one open, and no coordinator will end it.

Readers of committed records wait there for ever. What the partitions' leaders have open is compared with what
the coordinators know, as `headrace txn find-hanging` does; leaders are asked for many partitions at once.
Where something was written a while ago, its coordinator would have ended it: only that is held to be hanging.
"""

import asyncio
import time
from collections.abc import Iterable
from typing import Final

from headrace.base.ids import NO_LEADER, TopicPartition
from headrace.clients import ActiveProducer, AsyncAdmin
from headrace.wire.schemas.describe_producers import DescribeProducersRequest, TopicRequest

OLDER_THAN_MS: Final = 15 * 60 * 1000
"""Kafka's transaction.max.timeout.ms: nobody may have a transaction open for longer, unless it was raised."""
PARTITIONS_AT_ONCE: Final = 500
"""Each answers with all producers that it remembers."""


async def find_hanging(admin: AsyncAdmin, partitions: Iterable[TopicPartition]) -> list[ActiveProducer]:
    """Those of these partitions, by their places. What has no leader or may not be read is left out."""
    before_ms = int(time.time() * 1000) - OLDER_THAN_MS
    led: dict[int, list[TopicPartition]] = {}
    for each in partitions:
        node = admin.client.metadata.leader(each).node
        if node != NO_LEADER:
            led.setdefault(node, []).append(each)
    asked = (_open_at(admin, node, places) for node, places in led.items())
    old = [
        each
        for found in await asyncio.gather(*asked)
        for each in found
        if each.last_timestamp_ms <= before_ms
    ]
    return sorted(await _unknown(admin, old))


async def _open_at(admin: AsyncAdmin, node: int, partitions: list[TopicPartition]) -> list[ActiveProducer]:
    """What a broker has open in partitions that it leads."""
    found = []
    for at in range(0, len(partitions), PARTITIONS_AT_ONCE):
        topics: dict[str, TopicRequest] = {}
        for each in partitions[at : at + PARTITIONS_AT_ONCE]:
            topics.setdefault(each.topic, TopicRequest(each.topic)).partition_indexes.append(each.partition)
        response = await admin.client.call(DescribeProducersRequest(list(topics.values())), node=node)
        found += [
            ActiveProducer(
                TopicPartition(topic.name, partition.partition_index),
                each.producer_id,
                each.producer_epoch,
                each.coordinator_epoch,
                each.last_sequence,
                each.last_timestamp,
                each.current_txn_start_offset,
            )
            for topic in response.topics
            for partition in topic.partitions
            for each in partition.active_producers
            if each.current_txn_start_offset >= 0
        ]
    return found


async def _unknown(admin: AsyncAdmin, candidates: list[ActiveProducer]) -> list[ActiveProducer]:
    """Those that no coordinator has among the partitions of their producer's transaction."""
    if not candidates:
        return []
    listed = await admin.list_transactions(producer_ids={each.producer_id for each in candidates})
    described = await admin.describe_transactions(*(each.transactional_id for each in listed))
    known = {(each.producer_id, place) for each in described.values() for place in each.partitions}
    return [each for each in candidates if (each.producer_id, each.partition) not in known]
