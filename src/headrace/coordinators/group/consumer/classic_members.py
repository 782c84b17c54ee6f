"""Members of the classic protocol in a consumer group: JoinGroup, SyncGroup, Heartbeat and LeaveGroup served
from its state, while a live group changes from one protocol to the other.

A classic member is reconciled when it joins, and is told with its heartbeats when it has to join again.
Nobody leads, and nobody waits for the others: the coordinator assigns. The epoch of the member is its
generation.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.coordinators.group.classic.classic_group import JoinFeatures, join_error
from headrace.coordinators.group.consumer.consumer_group import ConsumerGroup
from headrace.coordinators.group.consumer.consumer_group_manager import ConsumerGroupManager
from headrace.coordinators.group.consumer.heartbeat_request import check_group_size
from headrace.coordinators.group.consumer.member import ConsumerGroupMember, MemberState
from headrace.coordinators.group.consumer.migration import (
    CONSUMER_TYPE,
    common_protocols,
    owned_by_client,
    read_subscription,
    write_assignment,
)
from headrace.coordinators.group.consumer.subscription import metadata_hash
from headrace.coordinators.group.consumer.target_assignment import replaced_static_member
from headrace.metadata.image import MetadataImage
from headrace.wire.schemas.consumer_group_records import ClassicMemberMetadata, ClassicProtocol
from headrace.wire.schemas.consumer_protocol import ConsumerProtocolSubscription
from headrace.wire.schemas.heartbeat import HeartbeatRequest
from headrace.wire.schemas.join_group import JoinGroupRequest, JoinGroupResponse
from headrace.wire.schemas.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)
from headrace.wire.schemas.sync_group import SyncGroupRequest, SyncGroupResponse

NO_LEADER: Final = ""


@dataclass(frozen=True, slots=True)
class ClassicMembers:
    """The classic side of the consumer groups of one coordinator partition."""

    manager: ConsumerGroupManager
    image: MetadataImage
    new_uuid: Callable[[], str]

    # --- JoinGroup ---

    def join(
        self,
        group: ConsumerGroup,
        request: JoinGroupRequest,
        *,
        client_id: str,
        client_host: str,
        features: JoinFeatures,
        answer: Callable[[JoinGroupResponse], None],
    ) -> None:
        try:
            config = self.manager.group_config(group.id)
            if not config.upgrade and not config.downgrade:
                raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)  # groups don't change their protocol
            subscription = _check_join(group, request)
            check_group_size(group, request.member_id, config.size_max)
            known = self._find(group, request)
            if known is None and request.member_id and subscription.owned_partitions:
                # It was removed and does not know it: what it says to own has other owners by now. Without
                # this answer it would go on as before, and commit to these partitions as a member of now.
                # (Apache Kafka takes it in.)
                raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
        except ApiError as error:
            answer(join_error("", error.code))
            return
        member_id = request.member_id or f"{request.group_instance_id or client_id}-{self.new_uuid()}"
        if not request.member_id and request.group_instance_id is None and features.member_id_required:
            answer(join_error(member_id, ErrorCode.MEMBER_ID_REQUIRED))
            return
        before = ConsumerGroupMember(member_id) if known is None else known
        if before.id != member_id:
            before = replaced_static_member(before, member_id)
        member = _as_described(before, request, subscription, client_id, client_host)

        def done(error: ErrorCode, after: ConsumerGroupMember) -> None:
            if error is not ErrorCode.NONE:
                answer(join_error(member_id, error))
                return
            self.manager.timeouts.schedule_sync_timeout(group.id, after)
            answer(
                JoinGroupResponse(
                    generation_id=after.epoch,
                    protocol_type=CONSUMER_TYPE,
                    protocol_name=request.protocols[0].name,
                    leader=NO_LEADER,
                    member_id=member_id,
                )
            )

        self.manager.update_member(
            group, known, before, member, owned_by_client(subscription, self.image), done
        )

    def _find(self, group: ConsumerGroup, request: JoinGroupRequest) -> ConsumerGroupMember | None:
        """The member that joins again, or that is replaced; None for a new one."""
        if request.group_instance_id is None:
            known = group.members.get(request.member_id)
            if known is not None and known.classic is None:
                raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
            return known
        known = group.static_member(request.group_instance_id)
        if request.member_id and known is None:
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
        if request.member_id and known is not None and known.id != request.member_id:
            raise ApiError(ErrorCode.FENCED_INSTANCE_ID)
        return known

    # --- SyncGroup and Heartbeat ---

    def sync(self, group: ConsumerGroup, request: SyncGroupRequest) -> SyncGroupResponse:
        try:
            member = _check_member(group, request.member_id, request.group_instance_id, request.generation_id)
            self._check_protocol(member, request)
            if group.assignment_epoch > member.epoch and member.state is not MemberState.UNREVOKED_PARTITIONS:
                self.manager.timeouts.schedule_join_timeout(group.id, member)
                raise ApiError(ErrorCode.REBALANCE_IN_PROGRESS)
        except ApiError as error:
            return SyncGroupResponse(error_code=error.code)
        self.manager.timeouts.schedule_session_timeout(group.id, member)
        self.manager.timeouts.cancel_sync_timeout(group.id, member)
        return SyncGroupResponse(
            protocol_type=CONSUMER_TYPE,
            protocol_name=_protocol_of(member),
            assignment=write_assignment(member, member.assigned, self.image),
        )

    @staticmethod
    def _check_protocol(member: ConsumerGroupMember, request: SyncGroupRequest) -> None:
        wrong_type = request.protocol_type is not None and request.protocol_type != CONSUMER_TYPE
        wrong_name = request.protocol_name is not None and request.protocol_name != _protocol_of(member)
        if wrong_type or wrong_name:
            raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)

    def heartbeat(self, group: ConsumerGroup, request: HeartbeatRequest) -> ErrorCode:
        try:
            member = _check_member(group, request.member_id, request.group_instance_id, request.generation_id)
        except ApiError as error:
            return error.code
        self.manager.timeouts.schedule_session_timeout(group.id, member)
        if not self._has_to_join(group, member):
            return ErrorCode.NONE
        self.manager.timeouts.schedule_join_timeout(group.id, member)
        return ErrorCode.REBALANCE_IN_PROGRESS

    def _has_to_join(self, group: ConsumerGroup, member: ConsumerGroupMember) -> bool:
        """Whether joining again would take it further."""
        if member.state is MemberState.UNREVOKED_PARTITIONS or member.epoch < group.assignment_epoch:
            return True
        if group.epoch > group.assignment_epoch or self._has_other_topics(group):
            return self.manager.may_assign(group)
        if member.state is MemberState.STABLE:
            return False
        return any(
            (topic_id, index) not in group.owners
            for topic_id, indexes in group.target_assignment.get(member.id, {}).items()
            for index in indexes
        )

    def _has_other_topics(self, group: ConsumerGroup) -> bool:
        """Whether the topics are not those of the last target any more. Patterns are for the members of the
        new protocol, who alone have some, to look at.
        """
        if not group.needs_metadata_refresh:
            return False
        is_other = metadata_hash(self.image, group.subscribed_topics()) != group.metadata_hash
        group.needs_metadata_refresh = is_other or bool(group.regexes)
        return is_other

    # --- LeaveGroup ---

    def leave(
        self,
        group: ConsumerGroup,
        request: LeaveGroupRequest,
        answer: Callable[[LeaveGroupResponse], None],
    ) -> None:
        """Also how an administrator takes members of the new protocol out."""
        leaving: list[str] = []
        results = [self._leave_one(group, each, leaving) for each in request.members]

        def done(error: ErrorCode) -> None:
            answer(LeaveGroupResponse(error_code=error, members=results if not error else []))

        if leaving:
            self.manager.remove(group, leaving, done)
        else:
            done(ErrorCode.NONE)

    @staticmethod
    def _leave_one(group: ConsumerGroup, who: MemberIdentity, leaving: list[str]) -> MemberResponse:
        member = group.members.get(who.member_id)
        error = ErrorCode.NONE
        if who.group_instance_id is not None:
            member = group.static_member(who.group_instance_id)
            if member is not None and who.member_id not in ("", member.id):
                error = ErrorCode.FENCED_INSTANCE_ID
        if member is None or member.id in leaving:
            error = ErrorCode.UNKNOWN_MEMBER_ID
        elif error is ErrorCode.NONE:
            leaving.append(member.id)
        return MemberResponse(who.member_id, who.group_instance_id, error)


def _check_join(group: ConsumerGroup, request: JoinGroupRequest) -> ConsumerProtocolSubscription:
    others = [
        {protocol.name: protocol.metadata for protocol in member.classic.supported_protocols}
        for member in group.members.values()
        if member.classic is not None and member.id != request.member_id
    ]
    common = common_protocols([*others, {each.name: each.metadata for each in request.protocols}])
    subscription = read_subscription(request.protocols[0].metadata) if request.protocols else None
    if request.protocol_type != CONSUMER_TYPE or subscription is None or not common:
        raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    return subscription


def _check_member(
    group: ConsumerGroup, member_id: str, instance_id: str | None, generation: int
) -> ConsumerGroupMember:
    member = group.members.get(member_id)
    if instance_id is not None:
        known = group.static_member(instance_id)
        if known is not None and known.id != member_id:
            raise ApiError(ErrorCode.FENCED_INSTANCE_ID)
        member = known
    if member is None or member.classic is None:
        raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
    if generation != member.epoch:
        raise ApiError(ErrorCode.ILLEGAL_GENERATION)
    return member


def _protocol_of(member: ConsumerGroupMember) -> str:
    assert member.classic is not None
    return member.classic.supported_protocols[0].name


def _as_described(
    member: ConsumerGroupMember,
    request: JoinGroupRequest,
    subscription: ConsumerProtocolSubscription,
    client_id: str,
    client_host: str,
) -> ConsumerGroupMember:
    timeout_ms = request.rebalance_timeout_ms
    return replace(
        member,
        instance_id=request.group_instance_id,
        rack_id=subscription.rack_id,
        client_id=client_id,
        client_host=client_host,
        topics=tuple(sorted(set(subscription.topics))),
        regex=None,
        rebalance_timeout_ms=timeout_ms if timeout_ms >= 0 else request.session_timeout_ms,
        assignor=None,
        classic=ClassicMemberMetadata(
            session_timeout_ms=request.session_timeout_ms,
            supported_protocols=[ClassicProtocol(each.name, each.metadata) for each in request.protocols],
        ),
    )
