"""Whether a member of a consumer group may commit or read offsets now.

Its epoch says how it stands to the group. A commit with an older epoch is taken if every partition in it was
the member's already then: it never moved, so nobody else can have committed to it since (KIP-1251).
"""

from collections.abc import Iterable
from typing import Final

from headrace.base.error_codes import ErrorCode
from headrace.coordinators.group.consumer.consumer_group import ConsumerGroup, Slot
from headrace.coordinators.group.consumer.member import ConsumerMember

EPOCHS_SINCE: Final = 9
"""The version of OffsetCommit and OffsetFetch from which on they carry member epochs."""


def check_commit(
    group: ConsumerGroup, *, member_id: str, epoch: int, api_version: int, slots: Iterable[Slot]
) -> ErrorCode:
    """An empty group may be committed to from outside, with epoch -1."""
    if epoch < 0 and not group.members:
        return ErrorCode.NONE
    member = group.members.get(member_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if member.classic is None and api_version < EPOCHS_SINCE:
        return ErrorCode.UNSUPPORTED_VERSION
    if member.classic is None and 0 <= epoch < member.epoch and _held_since(member, epoch, slots):
        return ErrorCode.NONE
    return _check_epoch(member, epoch)


def check_fetch(group: ConsumerGroup, *, member_id: str | None, epoch: int) -> ErrorCode:
    """Administrators and older clients do not say who they are, and may read."""
    if member_id is None and epoch < 0:
        return ErrorCode.NONE
    member = group.members.get(member_id or "")
    return ErrorCode.UNKNOWN_MEMBER_ID if member is None else _check_epoch(member, epoch)


def _check_epoch(member: ConsumerMember, epoch: int) -> ErrorCode:
    if epoch == member.epoch:
        return ErrorCode.NONE
    return ErrorCode.STALE_MEMBER_EPOCH if member.classic is None else ErrorCode.ILLEGAL_GENERATION


def _held_since(member: ConsumerMember, epoch: int, slots: Iterable[Slot]) -> bool:
    for topic_id, partition in slots:
        given = member.assigned.get(topic_id, {}).get(partition)
        if given is None:
            given = member.revoking.get(topic_id, {}).get(partition)
        if given is None or given > epoch:
            return False
    return True
