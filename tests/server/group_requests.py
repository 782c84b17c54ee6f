"""Requests of the group protocols, with what matters of them as parameters."""

from collections.abc import Mapping, Sequence

from headrace.wire.record_frames import encode_versioned
from headrace.wire.schemas.consumer_protocol import ConsumerProtocolSubscription
from headrace.wire.schemas.heartbeat import HeartbeatRequest
from headrace.wire.schemas.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from headrace.wire.schemas.leave_group import LeaveGroupRequest, MemberIdentity
from headrace.wire.schemas.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from headrace.wire.schemas.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from headrace.wire.schemas.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

NO_ID = bytes(16)
SESSION_MS = 10_000


def subscription(*topics: str) -> bytes:
    """What a consumer tells its group's leader."""
    return encode_versioned(ConsumerProtocolSubscription(topics=list(topics)), 0)


def join(
    group: str,
    member: str = "",
    *,
    instance: str | None = None,
    protocols: Mapping[str, bytes] | Sequence[str] = ("range",),
    protocol_type: str = "consumer",
    session_ms: int = SESSION_MS,
    rebalance_ms: int = 60_000,
) -> JoinGroupRequest:
    if not isinstance(protocols, Mapping):
        protocols = {name: subscription(name) for name in protocols}
    return JoinGroupRequest(
        group,
        session_ms,
        rebalance_ms,
        member,
        instance,
        protocol_type,
        [JoinGroupRequestProtocol(*each) for each in protocols.items()],
    )


def sync(
    group: str,
    member: str,
    generation: int,
    assignments: Mapping[str, bytes] | None = None,
    *,
    instance: str | None = None,
    protocol_type: str | None = "consumer",
    protocol: str | None = "range",
) -> SyncGroupRequest:
    given = [SyncGroupRequestAssignment(*each) for each in (assignments or {}).items()]
    return SyncGroupRequest(group, generation, member, instance, protocol_type, protocol, given)


def heartbeat(group: str, member: str, generation: int, instance: str | None = None) -> HeartbeatRequest:
    return HeartbeatRequest(group, generation, member, instance)


def leave(group: str, *members: str | tuple[str, str | None]) -> LeaveGroupRequest:
    """From v3 on: members by id, or by id and instance."""
    named = [(each, None) if isinstance(each, str) else each for each in members]
    return LeaveGroupRequest(group, members=[MemberIdentity(*each) for each in named])


def commit(
    group: str,
    topic: str,
    offsets: Mapping[int, int],
    *,
    topic_id: bytes = NO_ID,
    member: str = "",
    generation: int = -1,
    instance: str | None = None,
    metadata: str | None = "",
    epoch: int = -1,
) -> OffsetCommitRequest:
    """Offsets by partition."""
    partitions = [
        OffsetCommitRequestPartition(index, offset, epoch, metadata) for index, offset in offsets.items()
    ]
    return OffsetCommitRequest(
        group, generation, member, instance, topics=[OffsetCommitRequestTopic(topic, topic_id, partitions)]
    )


def fetch_offsets(
    version: int,
    group: str,
    topic: str | None,
    partitions: Sequence[int] = (0,),
    *,
    topic_id: bytes = NO_ID,
    stable: bool = False,
) -> OffsetFetchRequest:
    """In the form of the version; without a topic: all that there is."""
    indexes = list(partitions)
    if version < 8:
        topics = None if topic is None else [OffsetFetchRequestTopic(topic, indexes)]
        return OffsetFetchRequest(group, topics, require_stable=stable and version >= 7)
    wanted = None if topic is None else [OffsetFetchRequestTopics(topic, topic_id, indexes)]
    return OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group, topics=wanted)], require_stable=stable)
