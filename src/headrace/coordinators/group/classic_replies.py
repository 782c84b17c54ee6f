"""The replies of the classic protocol, as a group's state makes them."""

from dataclasses import dataclass
from typing import Final

from headrace.base.error_codes import ErrorCode
from headrace.coordinators.group.classic_group import ClassicGroup, Member
from headrace.wire.schemas.join_group import JoinGroupResponse, JoinGroupResponseMember
from headrace.wire.schemas.sync_group import SyncGroupResponse

NO_GENERATION: Final = -1


@dataclass(frozen=True, slots=True)
class JoinFeatures:
    """What the version of a JoinGroup request can do."""

    member_id_required: bool  # v4, KIP-394
    can_skip_assignment: bool  # v9, KIP-814


def join_error(member_id: str, error: ErrorCode) -> JoinGroupResponse:
    return JoinGroupResponse(
        error_code=error, member_id=member_id, generation_id=NO_GENERATION, protocol_name=None, leader=""
    )


def join_reply(group: ClassicGroup, member: Member) -> JoinGroupResponse:
    """Only the leader is told who the members are and what they subscribe to."""
    protocol = group.protocol or ""
    members = []
    if group.is_leader(member.id):
        members = [
            JoinGroupResponseMember(each.id, each.instance_id, each.metadata_for(protocol))
            for each in group.members.values()
        ]
    return JoinGroupResponse(
        generation_id=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=protocol,
        leader=group.leader_id or "",
        member_id=member.id,
        members=members,
    )


def returning_reply(
    group: ClassicGroup, member: Member, old_id: str, features: JoinFeatures
) -> JoinGroupResponse:
    """A static leader that comes back must not assign anew: it is told so, or, where its version has no
    word for that, that somebody else leads (KIP-814).
    """
    reply = join_reply(group, member)
    if group.is_leader(member.id):
        if features.can_skip_assignment:
            reply.skip_assignment = True
        else:
            reply.leader = old_id
            reply.members = []
    return reply


def sync_reply(group: ClassicGroup, member: Member) -> SyncGroupResponse:
    return SyncGroupResponse(
        protocol_type=group.protocol_type, protocol_name=group.protocol, assignment=member.assignment
    )


def turn_away(member: Member, error: ErrorCode) -> None:
    """Answer everything that waits for this member."""
    joins, syncing = (member.joining, member.kept), member.syncing
    member.joining = member.kept = member.syncing = None
    member.tell(error)
    for answer in joins:
        if answer is not None:
            # Who is a member no longer has no id any more.
            answer(join_error("" if error is ErrorCode.UNKNOWN_MEMBER_ID else member.id, error))
    if syncing is not None:
        syncing(SyncGroupResponse(error_code=error))
