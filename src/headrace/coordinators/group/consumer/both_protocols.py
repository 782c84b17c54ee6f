"""One group id, two protocols: which of them a request meets, and when a group changes from one to the other.

An empty group becomes whatever its next member is. A live classic group becomes a consumer group when the
first member of the new protocol joins, and a classic one again when the last of them is gone, as far as
`group.consumer.migration.policy` allows. In between its classic members are served from the consumer group.
"""

from collections.abc import Callable

from headrace.base.clock import Clock
from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.coordinators.group.classic_group import ClassicGroup
from headrace.coordinators.group.classic_protocol import (
    AnswerBeat,
    AnswerJoin,
    AnswerSync,
    Caller,
    ClassicProtocol,
    Release,
)
from headrace.coordinators.group.classic_records import group_tombstone
from headrace.coordinators.group.classic_replies import JoinFeatures, join_error
from headrace.coordinators.group.consumer.classic_members import ClassicMembers
from headrace.coordinators.group.consumer.member import JOINING
from headrace.coordinators.group.consumer.migration import downgrade, is_all_classic, upgrade
from headrace.coordinators.group.consumer.protocol import ConsumerProtocol, Write
from headrace.coordinators.group.consumer.records import Records, group_tombstones
from headrace.coordinators.group.consumer.validation import check_heartbeat
from headrace.coordinators.group.consumer.waiting import AnswerHeartbeat, Beat
from headrace.coordinators.group.consumer.waiting import Release as ReleaseBeat
from headrace.coordinators.group.held_heartbeats import Patience
from headrace.coordinators.group.rebalances import ClassicLimits
from headrace.metadata.image import ClusterImage
from headrace.wire.schemas.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from headrace.wire.schemas.heartbeat import HeartbeatRequest
from headrace.wire.schemas.join_group import JoinGroupRequest
from headrace.wire.schemas.leave_group import LeaveGroupRequest, LeaveGroupResponse
from headrace.wire.schemas.sync_group import SyncGroupRequest, SyncGroupResponse


class BothProtocols:
    """Sends the requests of groups to the protocol that their group has."""

    def __init__(
        self,
        classic: ClassicProtocol,
        consumer: ConsumerProtocol,
        *,
        limits: ClassicLimits,
        image: ClusterImage,
        clock: Clock,
        write: Write,
        new_uuid: Callable[[], str],
    ) -> None:
        self._classic = classic
        self._consumer = consumer
        self._limits = limits
        self._image = image
        self._clock = clock
        self._write = write
        self._members = ClassicMembers(consumer, image, new_uuid)

    # --- the consumer protocol's request ---

    def consumer_heartbeat(
        self,
        request: ConsumerGroupHeartbeatRequest,
        *,
        client_id: str,
        client_host: str,
        api_version: int,
        answer: AnswerHeartbeat,
        margin_ms: int | None = None,
    ) -> ReleaseBeat | None:
        """Answer, or keep it until there is news where `margin_ms` says how: see `Beat`."""
        settings = self._consumer.settings_of(request.group_id)
        prelude: Records = []
        try:
            check_heartbeat(request, api_version=api_version, assignors=settings.assignors)
            classic = self._classic.groups.get(request.group_id)
            if classic is not None:
                prelude = self._make_way(classic, request)
        except ApiError as error:
            answer(ConsumerGroupHeartbeatResponse(error_code=error.code, error_message=error.message))
            return None
        return self._consumer.heartbeat(Beat(request, client_id, client_host, answer, margin_ms), prelude)

    def _make_way(self, classic: ClassicGroup, request: ConsumerGroupHeartbeatRequest) -> Records:
        """What ends the classic group that a member of the new protocol wants to join."""
        if request.member_epoch == JOINING and not classic.members:
            # Whoever has been given an id and comes back with it is taken in by the new group.
            return [group_tombstone(classic.id)]
        settings = self._consumer.settings_of(classic.id)
        may_upgrade = settings.upgrade and classic.members and len(classic.members) < settings.size_max
        records = None
        if request.member_epoch == JOINING and may_upgrade:
            records = upgrade(classic, self._image, wall_ms=self._clock.now_ms())
        if records is None:
            raise ApiError(
                ErrorCode.GROUP_ID_NOT_FOUND, f"group {classic.id} is in use with the classic protocol"
            )
        self._upgrade(classic, records)
        return []

    def _upgrade(self, classic: ClassicGroup, records: Records) -> None:
        """ApiError where the log does not take it; otherwise the group is a consumer group from here on."""
        failed = ErrorCode.NONE

        def written(error: ErrorCode) -> None:
            nonlocal failed
            failed = error

        self._classic.send_back(classic)
        self._write(records, written, True)
        if failed is not ErrorCode.NONE:
            raise ApiError(failed)
        self._consumer.watch(self._consumer.groups[classic.id])

    def after_loss(self, group_id: str) -> None:
        """A member is gone: a group whose members are all classic is a classic group again."""
        group = self._consumer.groups.get(group_id)
        if group is None or not is_all_classic(group) or not self._consumer.settings_of(group_id).downgrade:
            return
        if len(group.members) > self._limits.size_max:
            return
        members = list(group.members.values())
        self._write(downgrade(group, self._image, wall_ms=self._clock.now_ms()), lambda error: None, True)
        classic = self._classic.groups.get(group_id)
        if classic is not None:
            for member in members:
                self._consumer.deadlines.forget(group_id, member.id)
            self._classic.expect_all(classic, self._clock.monotonic_ms())
            self._classic.rebalance(classic, self._clock.monotonic_ms())

    # --- the classic protocol's requests ---

    def join(
        self,
        request: JoinGroupRequest,
        caller: Caller,
        *,
        features: JoinFeatures,
        now_ms: int,
        answer: AnswerJoin,
    ) -> None:
        group = self._consumer.groups.get(request.group_id)

        def join_classic(error: ErrorCode) -> None:
            if error is ErrorCode.NONE:
                self._classic.join(request, caller, features=features, now_ms=now_ms, answer=answer)
            else:
                answer(join_error(request.member_id, error))

        if group is None:
            join_classic(ErrorCode.NONE)
        elif not self._session_fits(request):
            answer(join_error(request.member_id, ErrorCode.INVALID_SESSION_TIMEOUT))
        elif not group.members:
            self._write(group_tombstones(group), join_classic, True)
        else:
            self._members.join(
                group,
                request,
                client_id=caller.client_id,
                client_host=caller.host,
                features=features,
                answer=answer,
            )

    def _session_fits(self, request: JoinGroupRequest) -> bool:
        limits = self._limits
        return limits.session_timeout_ms_min <= request.session_timeout_ms <= limits.session_timeout_ms_max

    def sync(self, request: SyncGroupRequest, *, now_ms: int, answer: AnswerSync) -> None:
        group = self._consumer.groups.get(request.group_id)
        if group is None:
            self._classic.sync(request, now_ms=now_ms, answer=answer)
        elif not group.members:
            answer(SyncGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
        else:
            answer(self._members.sync(group, request))

    def heartbeat(self, request: HeartbeatRequest, *, now_ms: int) -> ErrorCode:
        group = self._consumer.groups.get(request.group_id)
        if group is None:
            return self._classic.heartbeat(request, now_ms=now_ms)
        return self._members.heartbeat(group, request)

    def hold(
        self, request: HeartbeatRequest, patience: Patience, *, now_ms: int, answer: AnswerBeat
    ) -> Release | None:
        """Keep a good heartbeat of a classic group until there is news; None to answer it now."""
        if request.group_id in self._consumer.groups:
            return None
        return self._classic.hold(request, patience, now_ms=now_ms, answer=answer)

    def leave(
        self, request: LeaveGroupRequest, *, now_ms: int, answer: Callable[[LeaveGroupResponse], None]
    ) -> None:
        group = self._consumer.groups.get(request.group_id)
        if group is None:
            answer(self._classic.leave(request, now_ms=now_ms))
        else:
            self._members.leave(group, request, answer)
