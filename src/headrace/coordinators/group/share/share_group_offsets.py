"""What administrators do to where a share group stands: set it, and forget it, while nobody is in it.

Both change state that the share coordinator keeps; the group's record says which partitions that is about
before and after, so that a coordinator that takes over in between finds what was begun.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.base.ids import TopicId
from headrace.coordinators.coordinator_shard import CoordinatorRecord
from headrace.coordinators.group.share.records import group_epoch_record, state_partition_record
from headrace.coordinators.group.share.share_group import PartitionId, ShareGroup, TopicWithState
from headrace.coordinators.group.share.share_group_manager import (
    Outcomes,
    ShareGroupManager,
    Write,
    keys_of,
)
from headrace.coordinators.share.share_coordinator_shard import SharePartitionKey
from headrace.metadata.image import MetadataImage

Told = Callable[[Mapping[PartitionId, ErrorCode]], None]
Forgotten = Callable[[ErrorCode, Collection[TopicId]], None]


class ShareGroupOffsets:
    """Sets and forgets the offsets of the groups of one manager."""

    def __init__(self, manager: ShareGroupManager, image: MetadataImage, write: Write) -> None:
        self._manager = manager
        self._image = image
        self._write = write

    def alter(self, group_id: str, offsets: Mapping[PartitionId, int], done: Told) -> None:
        """Begin the state of these partitions at these offsets. A group that is not known is made. The epoch
        grows, so that leaders that still know the state before are fenced."""
        group = self._manager.find(group_id, may_make=True)
        _check_empty(group)
        if not offsets:
            done({})
            return
        epoch = group.epoch + 1
        records = [
            group_epoch_record(group_id, epoch=epoch, metadata_hash=group.metadata_hash),
            self._record(group, initializing=_with(group.initializing, offsets, self._name_of)),
        ]

        keys = keys_of(group_id, offsets)
        self._manager.beginning.update(keys)  # a member that joins meanwhile begins nothing of it anew

        def heard(outcomes: Outcomes) -> None:
            self._manager.beginning.difference_update(keys)
            told = _told(outcomes)
            begun = [each for each, error in told.items() if error is ErrorCode.NONE]
            self._manager.note_initialized(group_id, begun, lambda error: done(_failed(told, error)))

        def written(error: ErrorCode) -> None:
            if error is not ErrorCode.NONE or self._manager.persister is None:
                self._manager.beginning.difference_update(keys)
                done(_failed(dict.fromkeys(offsets, ErrorCode.NONE), error))
            else:
                wanted = dict(zip(keys, offsets.values(), strict=True))
                self._manager.persister.initialize_at(wanted, epoch, heard)

        self._write(records, written, True)

    def delete(self, group_id: str, topic_ids: Sequence[TopicId], done: Forgotten) -> None:
        """Forget where the group stands in these topics; `done` is told in which of them it stood somewhere.
        A deletion that was begun and did not end is begun again."""
        group = self._manager.find(group_id, what="Group")
        _check_empty(group)
        known = dict.fromkeys((*group.with_state(), *self._half_deleted(group)))
        partitions = [each for each in known if each[0] in topic_ids]
        read = {topic_id for topic_id, _ in partitions}
        if not partitions:
            done(ErrorCode.NONE, read)
            return
        deleting = dict(group.deleting) | {topic_id: self._name_of(topic_id) for topic_id, _ in partitions}
        begun = self._record(
            group,
            initializing=_without(group.initializing, topic_ids),
            initialized=_without(group.initialized, topic_ids),
            deleting=deleting,
        )

        def heard(outcomes: Outcomes) -> None:
            failed = [error for error in _told(outcomes).values() if error is not ErrorCode.NONE]
            now = self._manager.groups.get(group_id)
            if failed or now is None:
                done(failed[0] if failed else ErrorCode.NONE, read)
            else:
                left = {each: name for each, name in now.deleting.items() if each not in topic_ids}
                self._write([self._record(now, deleting=left)], lambda error: done(error, read), True)

        def written(error: ErrorCode) -> None:
            if error is not ErrorCode.NONE or self._manager.persister is None:
                done(error, read)
            else:
                self._manager.persister.delete(
                    [SharePartitionKey(group_id, *each) for each in partitions], heard
                )

        self._write([begun], written, True)

    def _half_deleted(self, group: ShareGroup) -> list[PartitionId]:
        known = self._image.topics_by_id
        topics = [known[topic_id] for topic_id in group.deleting if topic_id in known]
        return [(topic.id, index) for topic in topics for index in topic.partitions]

    def _record(
        self,
        group: ShareGroup,
        *,
        initializing: Mapping[TopicId, TopicWithState] | None = None,
        initialized: Mapping[TopicId, TopicWithState] | None = None,
        deleting: Mapping[TopicId, str] | None = None,
    ) -> CoordinatorRecord:
        return state_partition_record(
            group.id,
            initializing=group.initializing if initializing is None else initializing,
            initialized=group.initialized if initialized is None else initialized,
            deleting=group.deleting if deleting is None else deleting,
        )

    def _name_of(self, topic_id: TopicId) -> str:
        topic = self._image.topics_by_id.get(topic_id)
        return "" if topic is None else topic.name


def _check_empty(group: ShareGroup) -> None:
    if group.members:
        raise ApiError(ErrorCode.NON_EMPTY_GROUP, "The group is not empty.")


def _with(
    topics: Mapping[TopicId, TopicWithState],
    partitions: Mapping[PartitionId, int],
    name_of: Callable[[TopicId], str],
) -> dict[TopicId, TopicWithState]:
    more = dict(topics)
    for topic_id, index in partitions:
        known = more.get(topic_id, TopicWithState(name_of(topic_id), frozenset()))
        more[topic_id] = replace(known, partitions=known.partitions | {index})
    return more


def _without(
    topics: Mapping[TopicId, TopicWithState], topic_ids: Sequence[TopicId]
) -> dict[TopicId, TopicWithState]:
    return {each: topic for each, topic in topics.items() if each not in topic_ids}


def _told(outcomes: Outcomes) -> dict[PartitionId, ErrorCode]:
    return {
        (TopicId(key.topic_id), key.partition): outcome
        for key, outcome in outcomes.items()
        if isinstance(outcome, ErrorCode)
    }


def _failed(told: Mapping[PartitionId, ErrorCode], error: ErrorCode) -> Mapping[PartitionId, ErrorCode]:
    return told if error is ErrorCode.NONE else dict.fromkeys(told, error)
