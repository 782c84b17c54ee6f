"""Figures of the groups and transactions that this node coordinates: how far groups are, and how far behind.

A group's lag needs the high watermarks of its partitions, most of which others lead. Those are asked for with
ListOffsets, all partitions of a leader at once, within a second; who does not answer leaves a gap.
"""

import asyncio
import logging
from collections import Counter, defaultdict
from collections.abc import Iterator
from enum import StrEnum
from typing import Any, Final

from headrace.base.ids import TopicPartition
from headrace.coordinators.group.classic.classic_group import ClassicGroupState
from headrace.coordinators.group.consumer.consumer_group import ConsumerGroupState
from headrace.coordinators.group.shard import GroupCoordinatorShard
from headrace.coordinators.group.share.share_group import ShareGroupState
from headrace.coordinators.group.streams.streams_group import StreamsGroupState
from headrace.server.broker_clients import BrokerClients
from headrace.server.parts import Parts
from headrace.telemetry.metrics.exposition import Families, labels_text
from headrace.wire.schemas.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)

logger = logging.getLogger(__name__)

Ends = dict[TopicPartition, int]

ASK_S: Final = 1.0
"""Scrapers give up after some seconds: a gap is better than no answer."""
LATEST: Final = -1
SLICE: Final = 200
_METRICS: Final = "kafka_server_group_coordinator_metrics"
_STATES_OF: Final[dict[str, type[StrEnum]]] = {
    "classic": ClassicGroupState,
    "consumer": ConsumerGroupState,
    "share": ShareGroupState,
    "streams": StreamsGroupState,
}
ASKED_AT_ONCE_MAX: Final = 2_000
"""Partitions in one request to a leader."""


def gather_groups(families: Families, parts: Parts, ends: Ends) -> Iterator[None]:
    """All groups of this node."""
    offset_rows = families.rows("kafka_consumergroup_current_offset")
    lag_rows = families.rows("kafka_consumergroup_lag")
    groups = offsets = 0
    states = GroupStates()
    for shard in parts.groups.runtime.shards():
        yield
        states.count(shard)
        for group_id in shard.group_ids():
            groups += 1
            members = _members(shard, group_id)
            families.rows("kafka_consumergroup_members").append(
                f"kafka_consumergroup_members{labels_text(consumergroup=group_id)} {members}\n"
            )
            sums: dict[str, list[int]] = {}
            for where, committed in list(shard.offsets.of(group_id).items()):
                offsets += 1
                if offsets % SLICE == 0:
                    yield
                labels = labels_text(consumergroup=group_id, topic=where.topic, partition=where.partition)
                offset_rows.append(f"kafka_consumergroup_current_offset{labels} {committed.offset}\n")
                topic_sums = sums.setdefault(where.topic, [0, 0])
                topic_sums[0] += committed.offset
                end = ends.get(where)
                if end is not None:
                    lag = max(end - committed.offset, 0)
                    topic_sums[1] += lag
                    lag_rows.append(f"kafka_consumergroup_lag{labels} {lag}\n")
            _add_sums(families, group_id, sums)
    families.add("kafka_coordinator_group_groupmetadatamanager_numgroups", groups)
    families.add("kafka_coordinator_group_groupmetadatamanager_numoffsets", offsets)
    states.gather(families)
    for state, count in parts.groups.runtime.partition_counts().items():
        families.add(f"{_METRICS}_num_partitions", count, state)


class GroupStates:
    """How many groups of each kind are in which state, over all shards."""

    def __init__(self) -> None:
        self._states: dict[str, Counter[str]] = {kind: Counter() for kind in _STATES_OF}

    def count(self, shard: GroupCoordinatorShard) -> None:
        """The groups of one more shard."""
        self._states["classic"].update(each.state for each in shard.classic.groups.values())
        self._states["consumer"].update(each.state for each in shard.consumer.groups.values())
        self._states["share"].update(each.state for each in shard.share.groups.values())
        self._states["streams"].update(each.state for each in shard.streams.groups.values())

    def gather(self, families: Families) -> None:
        for kind, states in self._states.items():
            families.add(f"{_METRICS}_group_count", states.total(), kind)
            for state in _STATES_OF[kind]:
                families.add(f"{_METRICS}_{kind}_group_count", states[state], state)
        classic = self._states["classic"]
        for state in ClassicGroupState:
            name = f"kafka_coordinator_group_groupmetadatamanager_numgroups{state.lower()}"
            families.add(name, classic[state])


def _add_sums(families: Families, group_id: str, sums: dict[str, list[int]]) -> None:
    for topic, (offset, lag) in sums.items():
        labels = labels_text(consumergroup=group_id, topic=topic)
        for name, value in (
            ("kafka_consumergroup_current_offset_sum", offset),
            ("kafka_consumergroup_lag_sum", lag),
        ):
            families.rows(name).append(f"{name}{labels} {value}\n")


def _members(shard: GroupCoordinatorShard, group_id: str) -> int:
    kinds = shard.consumer.groups, shard.streams.groups, shard.classic.groups
    return next((len(groups[group_id].members) for groups in kinds if group_id in groups), 0)


def gather_transactions(families: Families, parts: Parts) -> Iterator[None]:
    """Transactional ids by state."""
    states: Counter[str] = Counter()
    for shard in parts.transactions.runtime.shards():
        yield
        states.update(txn.state.title for txn in shard.transactions.values())
    for state in sorted(states.keys() | {"Empty", "Ongoing"}):
        families.add("headrace_transactional_ids", states[state], state)


class EndOffsets:
    """High watermarks of partitions that others lead."""

    def __init__(self, parts: Parts, clients: BrokerClients) -> None:
        self._parts = parts
        self._clients = clients

    def stop(self) -> None:
        self._clients.stop()

    async def of_groups(self) -> Ends:
        """Those of all partitions with committed offsets here, as far as their leaders answer."""
        ends: Ends = {}
        by_leader: dict[int, dict[TopicPartition, None]] = defaultdict(dict)
        for number, where in enumerate(self._committed()):
            if number % SLICE == 0:
                await asyncio.sleep(0)
            partition = self._parts.replica_manager.get(where)
            if partition is not None and partition.is_leader and partition.log is not None:
                ends[where] = partition.log.high_watermark
                continue
            image = self._parts.image.partition(*where)
            if image is not None and image.leader >= 0:
                by_leader[image.leader][where] = None
        asked = [
            self._clients.send(leader, request_of(pieces))
            for leader, wanted in by_leader.items()
            if leader != self._parts.node_id
            for pieces in _pieces(list(wanted))
        ]
        if asked:
            answered, late = await asyncio.wait(asked, timeout=ASK_S)
            for each in late:
                each.cancel()
            for each in answered:
                _take_in(ends, each)
        return ends

    def _committed(self) -> Iterator[TopicPartition]:
        for shard in self._parts.groups.runtime.shards():
            for group_id in shard.group_ids():
                yield from list(shard.offsets.of(group_id))


def _pieces(wanted: list[TopicPartition]) -> Iterator[list[TopicPartition]]:
    for at in range(0, len(wanted), ASKED_AT_ONCE_MAX):
        yield wanted[at : at + ASKED_AT_ONCE_MAX]


def request_of(wanted: list[TopicPartition]) -> ListOffsetsRequest:
    topics: dict[str, list[ListOffsetsPartition]] = defaultdict(list)
    for where in wanted:
        topics[where.topic].append(ListOffsetsPartition(where.partition, timestamp=LATEST))
    return ListOffsetsRequest(
        replica_id=-1, topics=[ListOffsetsTopic(name, rows) for name, rows in topics.items()]
    )


def _take_in(ends: Ends, answered: "asyncio.Future[Any]") -> None:
    error = answered.exception()
    if error is not None:
        logger.debug("a leader does not tell its high watermarks, for lags of groups: %s", error)
        return
    for topic in answered.result().topics:
        for each in topic.partitions:
            if not each.error_code:
                ends[TopicPartition(topic.name, each.partition_index)] = each.offset
