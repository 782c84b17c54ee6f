"""ShareCoordinatorShard: the share partitions whose state is in one partition of `__share_group_state`.

A snapshot record holds all of a share partition's state. Updates behind it hold what changed; after so many
of them comes the next snapshot. Everything before the oldest snapshot that still counts can be deleted, which
is what `PrunableOffset` tells.

Two epochs fence writers. The state epoch is given by the group coordinator when it begins a share partition's
state, anew or again. The leader epoch is that of the topic partition's leader, which reads the state when it
takes over: a leader before it can write nothing from then on.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from headrace.base.clock import Clock
from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.base.ids import NO_TOPIC_ID, TopicId, uuid_text
from headrace.coordinators.coordinator_shard import CoordinatorRecord
from headrace.coordinators.share.state_batches import StateBatch, drop_before, put_batches
from headrace.metadata.image import MetadataImage
from headrace.wire.schemas import share_state_records as wire

UNINITIALIZED: Final = -1
"""A start offset that is to be found by `share.auto.offset.reset`, and a count that is not known yet."""


class SharePartitionKey(NamedTuple):
    """A topic partition as one share group reads it."""

    group_id: str
    topic_id: bytes
    partition: int

    def __str__(self) -> str:
        """The key by which clients ask for its coordinator."""
        return f"{self.group_id}:{uuid_text(self.topic_id)}:{self.partition}"


@dataclass(slots=True)
class ShareGroupOffset:
    """What is known of one share partition."""

    snapshot_epoch: int = 0
    state_epoch: int = 0
    leader_epoch: int = 0
    start_offset: int = UNINITIALIZED
    delivery_complete_count: int = UNINITIALIZED
    batches: list[StateBatch] = field(default_factory=list)
    create_timestamp_ms: int = 0
    write_timestamp_ms: int = 0
    updates: int = 0  # since the snapshot


class StateToWrite(NamedTuple):
    """What a share partition's leader has written."""

    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    batches: Iterable[StateBatch]


class ShareCoordinatorShard:
    """A CoordinatorShard. Requests are decided by methods that return records, or raise ApiError."""

    def __init__(self, *, image: MetadataImage, clock: Clock, updates_per_snapshot: int) -> None:
        self.states: dict[SharePartitionKey, ShareGroupOffset] = {}
        self.prunable = PrunableOffset()
        self._image = image
        self._clock = clock
        self._updates_per_snapshot = updates_per_snapshot

    # --- requests ---

    def initialize(
        self, key: SharePartitionKey, state_epoch: int, start_offset: int
    ) -> CoordinatorRecord | None:
        """Begin the state of a share partition, or begin it again from another offset, in a higher epoch.

        In the same epoch it is the same request, sent again or late, and nothing is written: members may have
        accepted records since. (Apache Kafka begins anew, and hands those out again.)
        """
        self._check(key)
        known = self.states.get(key)
        if known is not None and state_epoch < known.state_epoch:
            raise ApiError(ErrorCode.FENCED_STATE_EPOCH)
        if known is not None and state_epoch == known.state_epoch:
            return None
        now_ms = self._clock.now_ms()
        begun = ShareGroupOffset(
            snapshot_epoch=0 if known is None else known.snapshot_epoch + 1,
            state_epoch=state_epoch,
            leader_epoch=0,
            start_offset=start_offset,
            delivery_complete_count=UNINITIALIZED if start_offset == UNINITIALIZED else 0,
            create_timestamp_ms=now_ms,
            write_timestamp_ms=now_ms,
        )
        return _snapshot_record(key, begun)

    def write(self, key: SharePartitionKey, state: StateToWrite) -> CoordinatorRecord:
        self._check(key)
        known = self.states.get(key)
        if known is None:
            raise ApiError(
                ErrorCode.INVALID_REQUEST, "Write operation on uninitialized share partition not allowed."
            )
        if state.leader_epoch < known.leader_epoch:
            raise ApiError(ErrorCode.FENCED_LEADER_EPOCH)
        if state.state_epoch < known.state_epoch:
            raise ApiError(ErrorCode.FENCED_STATE_EPOCH)
        if known.updates < self._updates_per_snapshot:
            return _update_record(key, known, state)
        start = known.start_offset if state.start_offset == UNINITIALIZED else state.start_offset
        batches = list(known.batches)
        put_batches(batches, state.batches, start)
        complete = ShareGroupOffset(
            snapshot_epoch=known.snapshot_epoch + 1,
            state_epoch=state.state_epoch,
            leader_epoch=state.leader_epoch,
            start_offset=start,
            delivery_complete_count=state.delivery_complete_count,
            batches=batches,
            create_timestamp_ms=known.create_timestamp_ms,
            write_timestamp_ms=self._clock.now_ms(),
        )
        return _snapshot_record(key, complete)

    def read(
        self, key: SharePartitionKey, leader_epoch: int
    ) -> tuple[ShareGroupOffset, CoordinatorRecord | None]:
        """The state, and the record that fences the leaders before the one that asks."""
        known = self._find(key, leader_epoch)
        if leader_epoch <= known.leader_epoch:
            return known, None
        entered = StateToWrite(
            known.state_epoch, leader_epoch, known.start_offset, known.delivery_complete_count, ()
        )
        return known, _update_record(key, known, entered)

    def read_summary(self, key: SharePartitionKey, leader_epoch: int) -> ShareGroupOffset | None:
        """The state without fencing anybody; None where there is none."""
        self._check(key)
        known = self.states.get(key)
        if known is not None and 0 <= leader_epoch < known.leader_epoch:
            raise ApiError(ErrorCode.FENCED_LEADER_EPOCH)
        return known

    def delete(self, key: SharePartitionKey) -> CoordinatorRecord | None:
        """What forgets a share partition; None where there is nothing to forget."""
        _check_names(key)
        return _tombstone(key) if key in self.states else None

    def stale_records(self) -> list[CoordinatorRecord]:
        """What forgets the share partitions whose topics are gone."""
        return [_tombstone(key) for key in self.states if not self._is_there(key)]

    def cold_snapshots(self, older_than_ms: int) -> list[CoordinatorRecord]:
        """New snapshots of the share partitions whose last one was made before this time, so that the log
        before them can go. Where nothing was written since there is nothing to gain."""
        cold = {key: known for key, known in self.states.items() if known.write_timestamp_ms < older_than_ms}
        if len(cold) == len(self.states) and not any(known.updates for known in cold.values()):
            return []
        now_ms = self._clock.now_ms()
        return [
            _snapshot_record(
                key, replace(known, snapshot_epoch=known.snapshot_epoch + 1, write_timestamp_ms=now_ms)
            )
            for key, known in cold.items()
        ]

    def _find(self, key: SharePartitionKey, leader_epoch: int) -> ShareGroupOffset:
        self._check(key)
        known = self.states.get(key)
        if known is None:
            raise ApiError(
                ErrorCode.INVALID_REQUEST, "Read operation on uninitialized share partition not allowed."
            )
        if 0 <= leader_epoch < known.leader_epoch:
            raise ApiError(ErrorCode.FENCED_LEADER_EPOCH)
        return known

    def _check(self, key: SharePartitionKey) -> None:
        _check_names(key)
        if not self._is_there(key):
            raise ApiError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "Topic/TopicPartition not found in metadata image."
            )

    def _is_there(self, key: SharePartitionKey) -> bool:
        topic = self._image.topics_by_id.get(TopicId(key.topic_id))
        return topic is not None and key.partition in topic.partitions

    # --- CoordinatorShard ---

    def replay(self, key: object, value: object | None) -> None:
        if isinstance(key, wire.ShareSnapshotKey):
            at = SharePartitionKey(key.group_id, key.topic_id, key.partition)
            if value is None:
                self.states.pop(at, None)
            else:
                assert isinstance(value, wire.ShareSnapshotValue)
                self.states[at] = _from_snapshot(value)
        elif isinstance(key, wire.ShareUpdateKey) and value is not None:
            assert isinstance(value, wire.ShareUpdateValue)
            known = self.states.get(SharePartitionKey(key.group_id, key.topic_id, key.partition))
            if known is not None:  # else it was deleted, or its snapshot was pruned with what came before
                _update(known, value)

    def replayed_at(self, offset: int, key: object, value: object | None) -> None:
        """Where the record stands that was just replayed."""
        if isinstance(key, wire.ShareSnapshotKey):
            at = SharePartitionKey(key.group_id, key.topic_id, key.partition)
            self.prunable.note(at, None if value is None else offset, offset)

    def replay_transactional(self, producer_id: int, key: object, value: object | None) -> None:
        """This topic is no part of transactions."""

    def replay_end_transaction_marker(self, producer_id: int, *, committed: bool) -> None:
        """See `replay_transactional`."""

    def on_loaded(self) -> None:
        """Nothing waits for that."""

    def on_unloaded(self) -> None:
        """Nothing waits here."""


class PrunableOffset:
    """Where the log must begin: at the oldest of the share partitions' last snapshots."""

    def __init__(self) -> None:
        self._snapshots: dict[SharePartitionKey, int] = {}
        self._end = 0

    def note(self, key: SharePartitionKey, snapshot_at: int | None, offset: int) -> None:
        """A snapshot, or a tombstone in its place. They come in order, so the first key is the oldest."""
        self._snapshots.pop(key, None)
        if snapshot_at is not None:
            self._snapshots[key] = snapshot_at
        self._end = offset + 1

    def offset(self) -> int:
        """Nothing before this one is needed."""
        return next(iter(self._snapshots.values()), self._end)


def _check_names(key: SharePartitionKey) -> None:
    if key.topic_id == NO_TOPIC_ID:
        raise ApiError(ErrorCode.INVALID_REQUEST, "The topic id cannot be null.")
    if key.partition < 0:
        raise ApiError(ErrorCode.INVALID_REQUEST, "The partition id cannot be a negative number.")


# --- records, in the versions that Kafka 4.3 writes ---


def _snapshot_record(key: SharePartitionKey, state: ShareGroupOffset) -> CoordinatorRecord:
    value = wire.ShareSnapshotValue(
        snapshot_epoch=state.snapshot_epoch,
        state_epoch=state.state_epoch,
        leader_epoch=state.leader_epoch,
        start_offset=state.start_offset,
        delivery_complete_count=state.delivery_complete_count,
        create_timestamp=state.create_timestamp_ms,
        write_timestamp=state.write_timestamp_ms,
        state_batches=[wire.StateBatch(*each) for each in state.batches],
    )
    return CoordinatorRecord(wire.ShareSnapshotKey(*key), value)


def _update_record(key: SharePartitionKey, known: ShareGroupOffset, state: StateToWrite) -> CoordinatorRecord:
    value = wire.ShareUpdateValue(
        snapshot_epoch=known.snapshot_epoch,
        leader_epoch=state.leader_epoch,
        start_offset=state.start_offset,
        delivery_complete_count=state.delivery_complete_count,
        state_batches=[wire.StateBatch(*each) for each in state.batches],
    )
    return CoordinatorRecord(wire.ShareUpdateKey(*key), value)


def _tombstone(key: SharePartitionKey) -> CoordinatorRecord:
    return CoordinatorRecord(wire.ShareSnapshotKey(*key), None)


def _from_snapshot(value: wire.ShareSnapshotValue) -> ShareGroupOffset:
    batches: list[StateBatch] = []
    put_batches(batches, _from_wire(value.state_batches), value.start_offset)
    return ShareGroupOffset(
        value.snapshot_epoch,
        value.state_epoch,
        value.leader_epoch,
        value.start_offset,
        value.delivery_complete_count,
        batches,
        value.create_timestamp,
        value.write_timestamp,
    )


def _update(known: ShareGroupOffset, value: wire.ShareUpdateValue) -> None:
    known.updates += 1
    known.leader_epoch = value.leader_epoch
    if value.start_offset != UNINITIALIZED:
        known.start_offset = value.start_offset
    known.delivery_complete_count = value.delivery_complete_count
    put_batches(known.batches, _from_wire(value.state_batches), known.start_offset)
    drop_before(known.batches, known.start_offset)


def _from_wire(batches: Iterable[wire.StateBatch]) -> list[StateBatch]:
    return [
        StateBatch(each.first_offset, each.last_offset, each.delivery_state, each.delivery_count)
        for each in batches
    ]
