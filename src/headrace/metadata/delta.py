"""What one commit of the metadata log changed, so that a follower of the image looks only there.

A delta names things; the image has their new state. Only what is gone from the image travels in the delta
itself. A topic that was deleted and made again under its name in one commit is in both lists, with two ids.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from headrace.base.ids import TopicId
from headrace.metadata.config_resource import ConfigKey, ResourceType

if TYPE_CHECKING:
    from headrace.metadata.topics import TopicImage


class MetadataDelta:
    """Filled by `MetadataImage.replay`; read by whoever follows the image."""

    __slots__ = (
        "brokers_changed",
        "configs_changed",
        "features_changed",
        "producer_ids_changed",
        "security_changed",
        "topics_changed",
        "topics_created",
        "topics_deleted",
    )

    def __init__(self) -> None:
        self.topics_created: set[TopicId] = set()
        self.topics_changed: dict[TopicId, set[int]] = {}
        self.topics_deleted: list[TopicImage] = []
        self.configs_changed: set[ConfigKey] = set()
        self.brokers_changed: set[int] = set()
        self.features_changed: set[str] = set()
        self.security_changed: set[str] = set()
        self.producer_ids_changed = False

    def __bool__(self) -> bool:
        return any(getattr(self, name) for name in self.__slots__)

    def partitions_changed(self, topic_id: TopicId) -> set[int]:
        """The numbers of the topic's partitions that are new or different."""
        return self.topics_changed.get(topic_id, set())

    @property
    def topic_configs_changed(self) -> set[str]:
        """Names of topics whose own settings changed."""
        return {key.name for key in self.configs_changed if key.resource_type == ResourceType.TOPIC}

    @property
    def partition_count(self) -> int:
        """How many partitions are new or different."""
        return sum(map(len, self.topics_changed.values()))

    def slices(self, partitions_max: int) -> Iterator[MetadataDelta]:
        """The same in pieces of so many partitions at most; the first has all that is not of partitions."""
        piece = MetadataDelta()
        for name in self.__slots__:
            if name not in ("topics_created", "topics_changed"):
                setattr(piece, name, getattr(self, name))
        room = partitions_max
        for topic_id, numbers in self.topics_changed.items():
            left = sorted(numbers)
            if topic_id in self.topics_created:
                piece.topics_created.add(topic_id)
            while True:
                piece.topics_changed[topic_id] = set(left[:room])
                left, room = left[room:], room - len(left[:room])
                if not left:
                    break
                yield piece
                piece, room = MetadataDelta(), partitions_max
        yield piece

    def note_created(self, topic_id: TopicId) -> None:
        self.topics_created.add(topic_id)
        self.topics_changed[topic_id] = set()

    def note_partition(self, topic_id: TopicId, index: int) -> None:
        self.topics_changed.setdefault(topic_id, set()).add(index)

    def note_deleted(self, topic: TopicImage) -> None:
        self.topics_created.discard(topic.id)
        self.topics_changed.pop(topic.id, None)
        self.topics_deleted.append(topic)
