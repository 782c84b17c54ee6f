"""The internal topics of a streams group: how many partitions each needs, and which are yet to be created.

A topology names repartition topics and changelogs without a number of partitions, in most cases. Those
numbers follow from the sources: a repartition topic has as many partitions as the largest input of what
writes it, along the graph; topics that are joined must have equally many, so repartition topics are coerced
to what they are joined with; a changelog has one partition for each task. What comes out says how many tasks
there are.

A topology that cannot run yet has a status for its members instead: a source is missing, numbers of
partitions do not fit, or internal topics are to be created. One that can never run is refused with
STREAMS_INVALID_TOPOLOGY. Numbers of partitions that exist in the cluster count before what is derived here,
and are compared with it.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from headrace.coordinators.group.streams.topology import StreamsTopology, input_topics, invalid_topology
from headrace.metadata.topic_names import check_name
from headrace.wire.schemas import streams_group_describe as described
from headrace.wire.schemas.create_topics import CreatableTopic, CreatableTopicConfig
from headrace.wire.schemas.streams_group_records import CopartitionGroup, Subtopology, TopicInfo

PartitionCount = Callable[[str], int | None]
"""How many partitions a topic of this name has; None where there is no such topic."""

NAMES_SHOWN_MAX: Final = 3  # as in Kafka: a member's log line is no place for a thousand names


class StreamsStatus(IntEnum):
    """What a heartbeat's answer may tell a member of its application (Kafka's Status)."""

    STALE_TOPOLOGY = 0
    MISSING_SOURCE_TOPICS = 1
    INCORRECTLY_PARTITIONED_TOPICS = 2
    MISSING_INTERNAL_TOPICS = 3
    SHUTDOWN_APPLICATION = 4
    ASSIGNMENT_DELAYED = 5


@dataclass(frozen=True, slots=True)
class ConfiguredInternalTopic:
    """A repartition topic or changelog as it is to be. A replication factor of 0 is the cluster's default."""

    name: str
    partitions: int
    replication_factor: int
    configs: Mapping[str, str]

    def to_creatable(self) -> CreatableTopic:
        return CreatableTopic(
            self.name,
            self.partitions,
            self.replication_factor or -1,
            configs=[CreatableTopicConfig(key, value) for key, value in self.configs.items()],
        )

    def describe(self) -> described.TopicInfo:
        configs = [described.KeyValue(key, value) for key, value in self.configs.items()]
        return described.TopicInfo(self.name, self.partitions, self.replication_factor, configs)


@dataclass(frozen=True, slots=True)
class ConfiguredSubtopology:
    """A subtopology whose topics all have their number of partitions; there is a task for each."""

    number_of_tasks: int
    source_topics: frozenset[str]
    repartition_source_topics: Mapping[str, ConfiguredInternalTopic]
    repartition_sink_topics: frozenset[str]
    state_changelog_topics: Mapping[str, ConfiguredInternalTopic]

    @property
    def is_stateful(self) -> bool:
        return bool(self.state_changelog_topics)

    def internal_topics(self) -> Iterable[ConfiguredInternalTopic]:
        yield from self.repartition_source_topics.values()
        yield from self.state_changelog_topics.values()

    def describe(self, subtopology_id: str) -> described.Subtopology:
        return described.Subtopology(
            subtopology_id,
            sorted(self.source_topics),
            sorted(self.repartition_sink_topics),
            [topic.describe() for _, topic in sorted(self.state_changelog_topics.items())],
            [topic.describe() for _, topic in sorted(self.repartition_source_topics.items())],
        )


@dataclass(frozen=True, slots=True)
class ConfiguredTopology:
    """A topology against the topics that there are. Without a `status` it is ready to run."""

    epoch: int
    subtopologies: Mapping[str, ConfiguredSubtopology] | None
    internal_topics_to_create: Mapping[str, CreatableTopic]
    status: tuple[int, str] | None = None

    @property
    def is_ready(self) -> bool:
        return self.status is None

    def describe(self) -> described.Topology:
        subtopologies = sorted((self.subtopologies or {}).items())
        return described.Topology(self.epoch, [each.describe(name) for name, each in subtopologies])


class _NotYetError(Exception):
    """The topology cannot run with the topics that there are."""

    def __init__(self, status: StreamsStatus, detail: str) -> None:
        super().__init__(detail)
        self.status = (int(status), detail)


def configure_topics(topology: StreamsTopology, partition_count: PartitionCount) -> ConfiguredTopology:
    """Derive every number of partitions, and what is missing."""
    try:
        _check_sources(topology, partition_count)
        counts = _Counts(topology, partition_count)
        subtopologies = {each.subtopology_id: counts.configured(each) for each in counts.subtopologies}
        missing = _missing_topics(subtopologies, partition_count)
    except _NotYetError as reason:
        return ConfiguredTopology(topology.epoch, None, {}, reason.status)
    if not missing:
        return ConfiguredTopology(topology.epoch, subtopologies, {})
    status = (int(StreamsStatus.MISSING_INTERNAL_TOPICS), f"Internal topics are missing: {_named(missing)}")
    return ConfiguredTopology(topology.epoch, subtopologies, missing, status)


def _check_sources(topology: StreamsTopology, partition_count: PartitionCount) -> None:
    sources = {name for each in topology.subtopologies.values() for name in each.source_topics}
    if missing := [name for name in sorted(sources) if partition_count(name) is None]:
        raise _NotYetError(
            StreamsStatus.MISSING_SOURCE_TOPICS, f"Source topics {_named(missing)} are missing."
        )


def _missing_topics(
    subtopologies: Mapping[str, ConfiguredSubtopology], partition_count: PartitionCount
) -> dict[str, CreatableTopic]:
    expected = {topic.name: topic for each in subtopologies.values() for topic in each.internal_topics()}
    missing = {}
    for name, topic in sorted(expected.items()):
        found = partition_count(name)
        if found is None:
            missing[name] = topic.to_creatable()
        elif found != topic.partitions:
            raise _incorrectly_partitioned(
                f"Existing topic {name} has different number of partitions: "
                f"expected {topic.partitions}, found {found}"
            )
    return missing


class _Counts:
    """The numbers of partitions of a topology's topics: those that exist, and those decided here."""

    def __init__(self, topology: StreamsTopology, existing: PartitionCount) -> None:
        # By number where ids are numbers: what is upstream comes first in most topologies.
        self.subtopologies: Final = sorted(
            topology.subtopologies.values(), key=lambda each: (len(each.subtopology_id), each.subtopology_id)
        )
        self._existing = existing
        self._decided: dict[str, int] = {}
        repartition_topics = [
            topic for each in self.subtopologies for topic in each.repartition_source_topics
        ]
        self._fixed = {topic.name for topic in repartition_topics if topic.partitions}
        self._flexible = {topic.name for topic in repartition_topics if not topic.partitions}
        self._decided.update(
            (topic.name, topic.partitions) for topic in repartition_topics if topic.partitions
        )
        self._derive_repartition_topics()
        for subtopology in self.subtopologies:
            for group in subtopology.copartition_groups:
                self._enforce(_copartitioned(subtopology, group))
        for subtopology in self.subtopologies:
            tasks = self.number_of_tasks(subtopology)
            self._decided.update((topic.name, tasks) for topic in subtopology.state_changelog_topics)

    def of(self, topic: str) -> int:
        found = self._existing(topic)
        return self._decided[topic] if found is None else found

    def number_of_tasks(self, subtopology: Subtopology) -> int:
        """As many as the largest of its inputs has partitions."""
        inputs = input_topics(subtopology)
        if not inputs:
            raise invalid_topology(f"No source topics found for subtopology {subtopology.subtopology_id}")
        tasks = max(map(self.of, inputs))
        if tasks < 1:
            raise invalid_topology(f"Subtopology {subtopology.subtopology_id} would have no tasks")
        return tasks

    def configured(self, subtopology: Subtopology) -> ConfiguredSubtopology:
        return ConfiguredSubtopology(
            self.number_of_tasks(subtopology),
            frozenset(subtopology.source_topics),
            self._configured_topics(subtopology.repartition_source_topics),
            frozenset(subtopology.repartition_sink_topics),
            self._configured_topics(subtopology.state_changelog_topics),
        )

    def _configured_topics(self, topics: Iterable[TopicInfo]) -> dict[str, ConfiguredInternalTopic]:
        configured = {}
        for topic in topics:
            check_name(topic.name)
            partitions = topic.partitions or self._decided[topic.name]
            if partitions < 1:
                raise invalid_topology(f"Topic {topic.name} must have at least one partition")
            configs = {each.key: each.value for each in topic.topic_configs}
            configured[topic.name] = ConfiguredInternalTopic(
                topic.name, partitions, topic.replication_factor, configs
            )
        return configured

    def _derive_repartition_topics(self) -> None:
        """Numbers go from the sources along the graph; a subtopology passes on the largest known among its
        inputs.

        Kafka goes round and round over all subtopologies until nothing is left. The same order comes out of
        a heap of (round, position), in which a subtopology waits for its first known input: a chain of
        thousands, described from its end, takes no longer than one from its start.
        """
        readers: defaultdict[str, list[int]] = defaultdict(list)
        for position, subtopology in enumerate(self.subtopologies):
            for topic in subtopology.repartition_source_topics:
                readers[topic.name].append(position)
        due = [(0, position) for position in range(len(self.subtopologies))]
        passed_on: set[int] = set()
        while due:
            turn, position = heapq.heappop(due)
            subtopology = self.subtopologies[position]
            known = self._known_inputs(subtopology)
            if position in passed_on or not known:
                continue
            passed_on.add(position)
            for name in subtopology.repartition_sink_topics:
                if name not in self._decided:
                    self._decided[name] = max(known)
                    for reader in readers[name]:
                        heapq.heappush(due, (turn if reader > position else turn + 1, reader))
        self._check_all_derived()

    def _known_inputs(self, subtopology: Subtopology) -> list[int]:
        """Repartition topics count by what was decided so far, even where they exist already."""
        counts = [self._existing(name) for name in subtopology.source_topics]
        counts += [self._decided.get(topic.name) for topic in subtopology.repartition_source_topics]
        return [count for count in counts if count is not None]

    def _check_all_derived(self) -> None:
        sinks = {name for each in self.subtopologies for name in each.repartition_sink_topics}
        if sinks - self._decided.keys():
            raise invalid_topology(
                "Failed to compute number of partitions for all repartition topics. "
                "There may be loops in the topology that cannot be resolved."
            )
        if self._flexible - self._decided.keys():
            raise invalid_topology(
                "Failed to compute number of partitions for all repartition topics, because "
                "a repartition source topic is never used as a sink topic."
            )

    def _enforce(self, copartitioned: set[str]) -> None:
        """All topics of one copartition group get, or must have, equally many partitions."""
        if not copartitioned:
            return
        repartition = {name: self.of(name) for name in copartitioned & (self._fixed | self._flexible)}
        external = {name: self.of(name) for name in copartitioned - repartition.keys()}
        if external:
            partitions = _same(external, external)
        elif self._fixed:
            # Kafka compares all repartition topics with a number of their own here, of other groups too. A
            # group whose topics one of the two systems has created must fit with the other, so that is kept.
            partitions = _same({name: self.of(name) for name in self._fixed}, repartition)
        else:
            partitions = max(repartition.values())
        for name, own in sorted(repartition.items()):
            if name in self._fixed and own != partitions:
                raise _incorrectly_partitioned(
                    f"Number of partitions [{own}] of repartition topic [{name}] "
                    f"doesn't match number of partitions [{partitions}] of the source topic."
                )
            self._decided[name] = partitions


def _copartitioned(subtopology: Subtopology, group: CopartitionGroup) -> set[str]:
    """The names behind a group's positions in the lists of its subtopology."""
    repartition_topics = [topic.name for topic in subtopology.repartition_source_topics]
    names = set()
    for positions, topics in (
        (group.source_topics, subtopology.source_topics),
        (group.repartition_source_topics, repartition_topics),
    ):
        for position in positions:
            if not 0 <= position < len(topics):
                raise invalid_topology(
                    f"A copartition group of subtopology {subtopology.subtopology_id} "
                    f"has topic {position} of {len(topics)}"
                )
            names.add(topics[position])
    return names


def _same(counts: Mapping[str, int], shown: Mapping[str, int]) -> int:
    """The one number that all of them have."""
    numbers = set(counts.values())
    if len(numbers) > 1:
        listed = ", ".join(f"{name}={count}" for name, count in sorted(shown.items()))
        raise _incorrectly_partitioned(
            f"Following topics do not have the same number of partitions: [{{{listed}}}]"
        )
    return numbers.pop()


def _incorrectly_partitioned(detail: str) -> _NotYetError:
    return _NotYetError(StreamsStatus.INCORRECTLY_PARTITIONED_TOPICS, detail)


def _named(topics: Iterable[str]) -> str:
    names = sorted(topics)
    more = len(names) - NAMES_SHOWN_MAX
    shown = ", ".join(names[:NAMES_SHOWN_MAX])
    return f"{shown} and {more} additional topics" if more > 0 else shown
