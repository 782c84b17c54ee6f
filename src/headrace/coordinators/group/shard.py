"""GroupCoordinatorShard: the groups and committed offsets of one partition of `__consumer_offsets`.

Offsets, consumer and streams groups change only by replay. A classic group is live state (requests wait
inside it), so while it is alive its record in the log is written beside it and not replayed into it; after a
restart or a move the record brings it back. Requests reach both kinds through the GroupMetadataManager, and
offsets through the OffsetMetadataManager.
"""

from collections.abc import Callable, Iterable, Sequence

from headrace.base.clock import Clock
from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.coordinators.coordinator_shard import CoordinatorRecord, Done
from headrace.coordinators.group.classic.classic_group import (
    ClassicGroupState,
    classic_group_from_record,
)
from headrace.coordinators.group.consumer.consumer_group import ConsumerGroupState
from headrace.coordinators.group.consumer.consumer_group_manager import Write
from headrace.coordinators.group.group_config_manager import (
    GroupConfig,
    GroupCoordinatorConfig,
)
from headrace.coordinators.group.group_metadata_manager import GroupMetadataManager
from headrace.coordinators.group.offset_metadata_manager import (
    OffsetMetadataManager,
    offset_tombstone,
)
from headrace.coordinators.group.share.share_group import ShareGroupState
from headrace.coordinators.group.share.share_group_config import ShareGroupConfig
from headrace.coordinators.group.share.share_group_manager import ShareGroupManager, SharePersister
from headrace.coordinators.group.share.share_group_offsets import ShareGroupOffsets
from headrace.coordinators.group.streams.streams_group import StreamsGroupState
from headrace.coordinators.group.streams.streams_group_config import StreamsGroupConfig
from headrace.coordinators.timer import CoordinatorTimer
from headrace.metadata.image import MetadataImage
from headrace.wire.schemas.group_records import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)


class GroupCoordinatorShard:
    """A CoordinatorShard."""

    def __init__(
        self,
        *,
        limits: GroupCoordinatorConfig,
        clock: Clock,
        timer: CoordinatorTimer,
        write: Write,
        new_uuid: Callable[[], str],
        image: MetadataImage,
        group_config: Callable[[str], GroupConfig],
        members_on_node: Callable[[], int],
        share_config: Callable[[str], ShareGroupConfig] = lambda group_id: ShareGroupConfig(),
        share_persister: SharePersister | None = None,
        streams_config: Callable[[str], StreamsGroupConfig] = lambda group_id: StreamsGroupConfig(),
    ) -> None:
        self._write_to_log = write
        self._is_unloaded = False
        self.limits = limits
        self.group_metadata_manager = GroupMetadataManager(
            limits=limits.classic,
            clock=clock,
            timer=timer,
            write=self._write,
            new_uuid=new_uuid,
            image=image,
            group_config=group_config,
            members_on_node=members_on_node,
            is_share_group=lambda group_id: group_id in self.share.groups,
            streams_config=streams_config,
        )
        self.share = ShareGroupManager(
            image=image,
            clock=clock,
            timer=timer,
            write=self._write,
            group_config=share_config,
            members_on_node=members_on_node,
            is_taken=self._has_other_kind,
            persister=share_persister,
        )
        self.share_offsets = ShareGroupOffsets(self.share, image, self._write)
        self.offsets = OffsetMetadataManager(
            self.group_metadata_manager,
            clock=clock,
            retention_ms=limits.offsets_retention_ms,
            write=self._write,
        )
        self.classic = self.group_metadata_manager.classic
        self.consumer = self.group_metadata_manager.consumer
        self.streams = self.group_metadata_manager.streams
        self._clock = clock

    def _write(self, records: Sequence[CoordinatorRecord], done: Done, replay: bool) -> None:
        """What was begun under a leadership that is over ends with it: others may have changed the groups
        since, also when this node leads again."""
        if self._is_unloaded:
            done(ErrorCode.NOT_COORDINATOR)
        else:
            self._write_to_log(records, done, replay)

    # --- CoordinatorShard ---

    def replay(self, key: object, value: object | None) -> None:
        if isinstance(key, OffsetCommitKey):
            assert value is None or isinstance(value, OffsetCommitValue)
            self.offsets.replay(key, value)
        elif isinstance(key, GroupMetadataKey):
            assert value is None or isinstance(value, GroupMetadataValue)
            if value is None:
                self.classic.drop(key.group)
            else:
                self.classic.groups[key.group] = classic_group_from_record(key.group, value)
        elif not self.consumer.table.replay(key, value) and not self.share.table.replay(key, value):
            self.streams.table.replay(key, value)

    def replay_transactional(self, producer_id: int, key: object, value: object | None) -> None:
        """Transactions hold committed offsets, and nothing else of a group."""
        if isinstance(key, OffsetCommitKey) and isinstance(value, OffsetCommitValue):
            self.offsets.replay_transactional(producer_id, key, value)

    def replay_end_transaction_marker(self, producer_id: int, *, committed: bool) -> None:
        self.offsets.replay_end_transaction_marker(producer_id, committed=committed)

    def on_loaded(self) -> None:
        now_ms = self._clock.monotonic_ms()
        for group in self.classic.groups.values():
            self.classic.schedule_heartbeats(group, now_ms)
        self.consumer.on_loaded()
        self.share.on_loaded()
        self.streams.on_loaded()

    def on_unloaded(self) -> None:
        self._is_unloaded = True
        self.consumer.on_unloaded()
        self.share.on_unloaded()
        self.streams.on_unloaded()
        for group_id in list(self.classic.groups):
            self.classic.drop(group_id)

    # --- groups ---

    def why_not_found(self, group_id: str, kind: str) -> str:
        """Why there is no such group of this kind, as Kafka's tools print it."""
        if not self.exists(group_id):
            return f"Group {group_id} not found."
        return f"Group {group_id} is not a {kind} group."

    def exists(self, group_id: str) -> bool:
        return group_id in self.share.groups or self._has_other_kind(group_id)

    def _has_other_kind(self, group_id: str) -> bool:
        kinds = self.classic.groups, self.consumer.groups, self.streams.groups
        return any(group_id in groups for groups in kinds) or bool(self.offsets.of(group_id))

    def group_ids(self) -> list[str]:
        """Groups with members, a history of members, or committed offsets."""
        others = self.consumer.groups, self.share.groups, self.streams.groups, self.offsets.groups()
        return list(dict.fromkeys([*self.classic.groups, *(each for ids in others for each in ids)]))

    def state_of(
        self, group_id: str
    ) -> ClassicGroupState | ConsumerGroupState | ShareGroupState | StreamsGroupState:
        share = self.share.groups.get(group_id)
        if share is not None:
            return share.state
        state = self.group_metadata_manager.state_of(group_id)
        if state is not None:
            return state
        return ClassicGroupState.EMPTY if self.offsets.of(group_id) else ClassicGroupState.DEAD

    def topics_in_use(self, group_id: str) -> set[str] | None:
        """The topics that members of the group read; None where that may be any. ApiError for a group that
        does not exist, or whose members alone know what they read.
        """
        if not self.exists(group_id):
            raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND)
        return self.group_metadata_manager.subscribed_topics(group_id)

    def delete(self, group_id: str, done: Done) -> None:
        """Delete an empty group with its offsets."""
        if not self.exists(group_id):
            done(ErrorCode.GROUP_ID_NOT_FOUND)
        elif group_id in self.share.groups:
            self.share.delete(group_id, done)
        elif not self.group_metadata_manager.is_empty(group_id):
            done(ErrorCode.NON_EMPTY_GROUP)
        else:
            offsets = [offset_tombstone(group_id, each) for each in self.offsets.of(group_id)]
            self._delete_group(group_id, offsets, done)

    def cleanup_expired_offsets(self, group_ids: Iterable[str]) -> None:
        """Delete these groups' offsets older than `offsets.retention.minutes`, and the groups among them that
        are empty and have none left.
        """
        for group_id in group_ids:
            if group_id in self.share.groups:
                continue  # it has no offsets of this kind, and stays until it is deleted
            records: list[CoordinatorRecord] = []
            all_expired = self.offsets.cleanup_expired_offsets(group_id, records)
            if all_expired and self.group_metadata_manager.is_empty(group_id):
                self._delete_group(group_id, records, lambda error: None)
            elif records:
                self._write(records, lambda error: None, True)

    def _delete_group(self, group_id: str, records: list[CoordinatorRecord], done: Done) -> None:
        """Delete a group; the records delete its offsets."""
        self.offsets.forget(group_id)
        self._write(records + self.group_metadata_manager.group_tombstones(group_id), done, True)
