"""The broker's image, kept equal to the committed log, and whoever wants to hear what changed in it."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from headrace.metadata.delta import Delta
from headrace.metadata.image import ClusterImage
from headrace.metadata.preparing import Preparing
from headrace.metadata.security import SecurityTables


class SnapshotId(Protocol):
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
    def id(self) -> SnapshotId: ...


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


Listener = Callable[[ClusterImage, Delta], None]


class ImagePublisher:
    """A subscriber of raft. The image object stays the same, so others may hold on to it."""

    def __init__(self, image: ClusterImage) -> None:
        self.image = image
        self._listeners: list[Listener] = []
        self._preparing = Preparing(lambda: ClusterImage(image.cluster_id, like=image))

    def follow(self, listener: Listener) -> None:
        """Have a listener told of everything there is now, and then of every change."""
        self._listeners.append(listener)
        listener(self.image, everything_in(self.image))

    def prepare(self, snapshot: LoadedSnapshot, records: Sequence[Any]) -> None:
        """A slice of a snapshot that will be loaded; the image stays as it is meanwhile."""
        self._preparing.add(snapshot, records)

    def load_snapshot(self, snapshot: LoadedSnapshot) -> None:
        """Change over to what was prepared."""
        image = self.image
        gone = list(image.topics_by_id.values())
        configs, brokers, features = set(image.configs), set(image.brokers), set(image.features)
        image.take_over(self._preparing.take(snapshot))
        delta = everything_in(image)
        delta.topics_deleted += [topic for topic in gone if topic.id not in image.topics_by_id]
        delta.configs_changed |= configs
        delta.brokers_changed |= brokers
        delta.features_changed |= features
        image.kraft_version = snapshot.kraft_version
        image.mark(
            offset=snapshot.id.end_offset - 1, epoch=snapshot.id.epoch, timestamp_ms=snapshot.timestamp_ms
        )
        self._publish(delta)

    def commit(self, commit: CommittedBatch) -> None:
        delta = self.image.replay_all(commit.records)
        if commit.kraft_version is not None:
            self.image.kraft_version = commit.kraft_version
        self.image.mark(offset=commit.last_offset, epoch=commit.epoch, timestamp_ms=commit.timestamp_ms)
        if delta:
            self._publish(delta)

    def follow_leader(self, leader_id: int, epoch: int) -> None:
        self.image.controller_id = leader_id

    def _publish(self, delta: Delta) -> None:
        for listener in self._listeners:
            listener(self.image, delta)


def everything_in(image: ClusterImage) -> Delta:
    """The delta from nothing to this image."""
    delta = Delta()
    delta.topics_created.update(image.topics_by_id)
    delta.topics_changed.update((topic.id, set(topic.partitions)) for topic in image.topics_by_name.values())
    delta.configs_changed.update(image.configs)
    delta.brokers_changed.update(image.brokers)
    delta.features_changed.update(image.features)
    delta.security_changed.update(name for name in SecurityTables.__slots__ if getattr(image.security, name))
    delta.producer_ids_changed = image.producer_ids is not None
    return delta
