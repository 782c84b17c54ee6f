"""Keeps the broker's image equal to the committed metadata log, and tells listeners what changed in it
(Kafka's
MetadataLoader).
"""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from headrace.metadata.delta import MetadataDelta
from headrace.metadata.image import MetadataImage, MetadataRecord
from headrace.metadata.security import SecurityTables


class LoadedSnapshotId(Protocol):
    """Where a snapshot stands in the log."""

    @property
    def end_offset(self) -> int: ...

    @property
    def epoch(self) -> int: ...


class LoadedSnapshot(Protocol):
    """The face of raft's snapshot that an image needs."""

    kraft_version: int
    timestamp_ms: int

    @property
    def id(self) -> LoadedSnapshotId: ...


class CommittedBatch(Protocol):
    """The face of raft's commit that an image needs."""

    @property
    def last_offset(self) -> int: ...

    @property
    def epoch(self) -> int: ...

    @property
    def timestamp_ms(self) -> int: ...

    @property
    def records(self) -> Sequence[Any]: ...

    @property
    def kraft_version(self) -> int | None: ...


Listener = Callable[[MetadataImage, MetadataDelta], None]


class MetadataLoader:
    """A listener of raft. The image object stays the same, so others may hold on to it."""

    def __init__(self, image: MetadataImage) -> None:
        self.image = image
        self._listeners: list[Listener] = []
        self._prepared = PreparedImage(lambda: MetadataImage(image.cluster_id, like=image))

    def follow(self, listener: Listener) -> None:
        """Have a listener told of everything there is now, and then of every change."""
        self._listeners.append(listener)
        listener(self.image, everything_in(self.image))

    def prepare(self, snapshot: LoadedSnapshot, records: Sequence[Any]) -> None:
        """A slice of a snapshot that will be loaded; the image stays as it is meanwhile."""
        self._prepared.add(snapshot, records)

    def handle_load_snapshot(self, snapshot: LoadedSnapshot) -> None:
        """Change over to what was prepared."""
        image = self.image
        gone = list(image.topics_by_id.values())
        configs, brokers, features = set(image.configs), set(image.brokers), set(image.features)
        security = _security_in(image)
        image.take_over(self._prepared.take(snapshot))
        delta = everything_in(image)
        delta.topics_deleted += [topic for topic in gone if topic.id not in image.topics_by_id]
        delta.configs_changed |= configs
        delta.brokers_changed |= brokers
        delta.features_changed |= features
        delta.security_changed |= security
        image.kraft_version = snapshot.kraft_version
        image.mark(
            offset=snapshot.id.end_offset - 1, epoch=snapshot.id.epoch, timestamp_ms=snapshot.timestamp_ms
        )
        self._publish(delta)

    def handle_commit(self, commit: CommittedBatch) -> None:
        delta = self.image.replay_all(commit.records)
        if commit.kraft_version is not None:
            self.image.kraft_version = commit.kraft_version
        self.image.mark(offset=commit.last_offset, epoch=commit.epoch, timestamp_ms=commit.timestamp_ms)
        if delta:
            self._publish(delta)

    def handle_leader_change(self, leader_id: int, epoch: int) -> None:
        self.image.controller_id = leader_id

    def _publish(self, delta: MetadataDelta) -> None:
        for listener in self._listeners:
            listener(self.image, delta)


class PreparedImage:
    """An image that a snapshot fills slice by slice, beside the one in use, until it is whole and takes its
    place.
    `new_image` makes an empty one. A slice of another snapshot starts it again.
    """

    def __init__(self, new_image: Callable[[], MetadataImage]) -> None:
        self._new_image = new_image
        self._snapshot: object = None
        self._image: MetadataImage | None = None

    def add(self, snapshot: object, records: Sequence[MetadataRecord]) -> None:
        if self._image is None or self._snapshot is not snapshot:
            self._snapshot, self._image = snapshot, self._new_image()
        self._image.replay_all(records)

    def take(self, snapshot: object) -> MetadataImage:
        """The image, of which all has been added."""
        image, self._image = self._image, None
        assert image is not None, "a snapshot is prepared before it is loaded"
        assert self._snapshot is snapshot, "another snapshot was prepared"
        self._snapshot = None
        return image


def everything_in(image: MetadataImage) -> MetadataDelta:
    """The delta from nothing to this image."""
    delta = MetadataDelta()
    delta.topics_created.update(image.topics_by_id)
    delta.topics_changed.update((topic.id, set(topic.partitions)) for topic in image.topics_by_name.values())
    delta.configs_changed.update(image.configs)
    delta.brokers_changed.update(image.brokers)
    delta.features_changed.update(image.features)
    delta.security_changed |= _security_in(image)
    delta.producer_ids_changed = image.producer_ids is not None
    return delta


def _security_in(image: MetadataImage) -> set[str]:
    """Which of the tables have entries."""
    return {name for name in SecurityTables.__slots__ if getattr(image.security, name)}
