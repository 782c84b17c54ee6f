"""What a client knows of a cluster: its brokers, and who leads which partition.

Built from answers to Metadata, and from the hints that Produce and Fetch give with their errors (KIP-951).
An older leader epoch never replaces a newer one of the same topic (KIP-320): an answer from a broker that is
behind would send the client back to a leader that was deposed. A topic with a new id is a new topic.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from headrace.base.error_codes import ErrorCode
from headrace.base.ids import NO_EPOCH, NO_LEADER, NO_TOPIC_ID, TopicPartition
from headrace.wire.schemas.metadata import MetadataResponse, MetadataResponseTopic


class LeaderAndEpoch(NamedTuple):
    """Who leads a partition, and since which epoch."""

    node: int = NO_LEADER
    epoch: int = NO_EPOCH


NOBODY = LeaderAndEpoch()


@dataclass(slots=True)
class Metadata:
    """The last known state; topics that an answer does not name stay as they were."""

    brokers: dict[int, tuple[str, int]] = field(default_factory=dict)
    racks: dict[int, str | None] = field(default_factory=dict)
    topics: dict[str, MetadataResponseTopic] = field(default_factory=dict)
    leaders: dict[TopicPartition, LeaderAndEpoch] = field(default_factory=dict)
    names: dict[bytes, str] = field(default_factory=dict)
    errors: dict[str, int] = field(default_factory=dict)
    cluster_id: str = ""
    controller_id: int = -1
    version: int = 0

    def learn(self, response: MetadataResponse, *, is_whole: bool = False) -> None:
        """Take in an answer; a whole one names all topics there are."""
        self.brokers = {each.node_id: (each.host, each.port) for each in response.brokers}
        self.racks = {each.node_id: each.rack for each in response.brokers}
        self.cluster_id = response.cluster_id or ""
        self.controller_id = response.controller_id
        self.version += 1
        if is_whole:
            named = {topic.name for topic in response.topics}
            for gone in [name for name in self.topics if name not in named]:
                self.forget(gone)
        for topic in response.topics:
            name = topic.name or self.names.get(topic.topic_id, "")
            if topic.error_code == ErrorCode.NONE:
                self.errors.pop(name, None)
                self._learn_topic(name, topic)
            else:
                self.errors[name] = topic.error_code
                if topic.error_code != ErrorCode.LEADER_NOT_AVAILABLE:
                    self.forget(name)

    def _learn_topic(self, name: str, topic: MetadataResponseTopic) -> None:
        known = self.topics.get(name)
        if known is not None and known.topic_id != topic.topic_id:
            self.forget(name)
        self.topics[name] = topic
        if topic.topic_id != NO_TOPIC_ID:
            self.names[topic.topic_id] = name
        for each in topic.partitions:
            self.learn_leader(
                TopicPartition(name, each.partition_index), LeaderAndEpoch(each.leader_id, each.leader_epoch)
            )

    def learn_leader(self, partition: TopicPartition, leader: LeaderAndEpoch) -> bool:
        """Take in who leads a partition, unless that is older than what is known; whether it was taken."""
        known = self.leaders.get(partition, NOBODY)
        if leader.epoch < known.epoch and leader.epoch != NO_EPOCH:
            return False
        self.leaders[partition] = leader
        return leader != known

    def learn_endpoints(self, endpoints: Iterable[tuple[int, str, int]]) -> None:
        """Addresses that came with a hint."""
        for node, host, port in endpoints:
            self.brokers[node] = (host, port)

    def forget(self, name: str) -> None:
        """A topic that is gone."""
        topic = self.topics.pop(name, None)
        if topic is None:
            return
        if self.names.get(topic.topic_id) == name:
            del self.names[topic.topic_id]
        for each in topic.partitions:
            self.leaders.pop(TopicPartition(name, each.partition_index), None)

    def leader(self, partition: TopicPartition) -> LeaderAndEpoch:
        """Who leads a partition; NOBODY where that is not known."""
        return self.leaders.get(partition, NOBODY)

    def topic_id(self, name: str) -> bytes:
        topic = self.topics.get(name)
        return NO_TOPIC_ID if topic is None else topic.topic_id

    def has_ids(self, names: Iterable[str]) -> bool:
        """Whether the ids of all these topics are known, so that requests may name topics by them."""
        return all(self.topic_id(name) != NO_TOPIC_ID for name in names)

    def name_of(self, name: str, topic_id: bytes) -> str:
        """A topic's name as an answer gives it: by name in older versions, by id in newer ones."""
        return name or self.names.get(topic_id, "")

    def partition_count(self, name: str) -> int:
        """How many partitions a topic has; 0 where it is not known."""
        topic = self.topics.get(name)
        return 0 if topic is None else len(topic.partitions)
