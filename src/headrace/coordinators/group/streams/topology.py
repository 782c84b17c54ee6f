"""The topology of a streams group as its members describe it: what each subtopology reads, keeps and writes.

The first member's heartbeat brings it, a record keeps it in the structs of that record, and from then on
members must send an equal one. It names topics and says little of partitions: `internal_topics` derives
those.

Patterns for source topics are kept as they came. Apache Kafka 4.3.1 refuses a heartbeat with one, and so does
the group here; Kafka Streams itself has no such topology run with this protocol.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.wire.schemas import streams_group_describe as described
from headrace.wire.schemas import streams_group_heartbeat as heartbeat
from headrace.wire.schemas.streams_group_records import (
    CopartitionGroup,
    StreamsGroupTopologyValue,
    Subtopology,
    TopicConfig,
    TopicInfo,
)


@dataclass(frozen=True, slots=True)
class StreamsTopology:
    """Its subtopologies by their ids. Two are equal where epoch and every list in them are."""

    epoch: int
    subtopologies: Mapping[str, Subtopology]

    @classmethod
    def from_request(cls, topology: heartbeat.Topology) -> StreamsTopology:
        """ApiError with STREAMS_INVALID_TOPOLOGY where no group could ever run it."""
        if topology.epoch < 0:
            raise invalid_topology("Topology epoch must be non-negative.")
        return cls._of(topology.epoch, map(_recorded, topology.subtopologies))

    @classmethod
    def from_record(cls, value: StreamsGroupTopologyValue) -> StreamsTopology:
        return cls._of(value.epoch, value.subtopologies)

    @classmethod
    def _of(cls, epoch: int, subtopologies: Iterable[Subtopology]) -> StreamsTopology:
        by_id: dict[str, Subtopology] = {}
        for subtopology in subtopologies:
            if by_id.setdefault(subtopology.subtopology_id, subtopology) is not subtopology:
                raise invalid_topology(f"Subtopology {subtopology.subtopology_id} is there twice.")
        return cls(epoch, by_id)

    def to_record(self) -> StreamsGroupTopologyValue:
        return StreamsGroupTopologyValue(self.epoch, list(self.subtopologies.values()))

    def source_topics(self) -> frozenset[str]:
        """Whatever its members read: sources from outside, and repartition topics."""
        return frozenset(name for each in self.subtopologies.values() for name in input_topics(each))

    def readers(self) -> dict[str, str]:
        """By topic: the subtopology that reads it."""
        return {
            name: each.subtopology_id for each in self.subtopologies.values() for name in input_topics(each)
        }

    def required_topics(self) -> frozenset[str]:
        """Whatever must be there before it can run: what is read, and the changelogs."""
        return self.source_topics().union(
            topic.name for each in self.subtopologies.values() for topic in each.state_changelog_topics
        )

    def describe(self) -> described.Topology:
        """As StreamsGroupDescribe shows it: sorted, with the numbers of partitions that members asked for."""
        return described.Topology(
            self.epoch,
            [
                described.Subtopology(
                    subtopology_id,
                    sorted(subtopology.source_topics),
                    sorted(subtopology.repartition_sink_topics),
                    _describe_topics(subtopology.state_changelog_topics),
                    _describe_topics(subtopology.repartition_source_topics),
                )
                for subtopology_id, subtopology in sorted(self.subtopologies.items())
            ],
        )


def input_topics(subtopology: Subtopology) -> list[str]:
    """What its tasks read."""
    return [*subtopology.source_topics, *(topic.name for topic in subtopology.repartition_source_topics)]


def invalid_topology(reason: str) -> ApiError:
    return ApiError(ErrorCode.STREAMS_INVALID_TOPOLOGY, reason)


def check_changelogs(topology: heartbeat.Topology) -> None:
    """Changelogs get as many partitions as there are tasks: a number of their own is refused."""
    for subtopology in topology.subtopologies:
        for topic in subtopology.state_changelog_topics:
            if topic.partitions != 0:
                raise invalid_topology(
                    f"Changelog topic {topic.name} must have an undefined partition count, "
                    f"but it is set to {topic.partitions}."
                )


def _recorded(subtopology: heartbeat.Subtopology) -> Subtopology:
    """The record has structs of its own, with the same fields."""
    return Subtopology(
        subtopology_id=subtopology.subtopology_id,
        source_topics=subtopology.source_topics,
        source_topic_regex=subtopology.source_topic_regex,
        state_changelog_topics=[_recorded_topic(each) for each in subtopology.state_changelog_topics],
        repartition_sink_topics=subtopology.repartition_sink_topics,
        repartition_source_topics=[_recorded_topic(each) for each in subtopology.repartition_source_topics],
        copartition_groups=[
            CopartitionGroup(each.source_topics, each.source_topic_regex, each.repartition_source_topics)
            for each in subtopology.copartition_groups
        ],
    )


def _recorded_topic(topic: heartbeat.TopicInfo) -> TopicInfo:
    return TopicInfo(
        topic.name,
        topic.partitions,
        topic.replication_factor,
        [TopicConfig(each.key, each.value) for each in topic.topic_configs],
    )


def _describe_topics(topics: Iterable[TopicInfo]) -> list[described.TopicInfo]:
    return [
        described.TopicInfo(
            topic.name,
            topic.partitions,
            topic.replication_factor,
            [described.KeyValue(each.key, each.value) for each in topic.topic_configs],
        )
        for topic in sorted(topics, key=lambda each: each.name)
    ]
