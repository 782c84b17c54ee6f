"""GroupMetadataManager: the groups of one coordinator partition, of both protocols.

It passes requests to the protocol that their group has, and changes groups from one protocol to the other.
Requests of streams groups are their own (`streams/`); here they only give way to classic groups, and take
over from them, while nobody is in them.

An empty group becomes whatever its next member is. A live classic group becomes a consumer group when the
first member of the new protocol joins, and a classic one again when the last of them is gone, as far as
`group.consumer.migration.policy` allows. In between its classic members are served from the consumer group.
"""

from collections.abc import Callable
from typing import Final

from headrace.base.clock import Clock
from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.coordinators.coordinator_shard import CoordinatorRecord, Done
from headrace.coordinators.group.classic.classic_group import (
    Assignments,
    ClassicGroup,
    ClassicGroupState,
    JoinFeatures,
    group_metadata_record,
    group_metadata_tombstone,
    join_error,
    subscribed_topics,
)
from headrace.coordinators.group.classic.classic_group_manager import (
    AnswerJoin,
    AnswerSync,
    Caller,
    ClassicGroupManager,
    Release,
)
from headrace.coordinators.group.consumer.classic_members import ClassicMembers
from headrace.coordinators.group.consumer.consumer_group import ConsumerGroupState
from headrace.coordinators.group.consumer.consumer_group_manager import ConsumerGroupManager, Write
from headrace.coordinators.group.consumer.heartbeat_request import check_group_size, validate_heartbeat
from headrace.coordinators.group.consumer.member import JOIN_GROUP_MEMBER_EPOCH
from headrace.coordinators.group.consumer.migration import (
    cannot_upgrade,
    downgrade,
    is_all_classic,
    upgrade,
)
from headrace.coordinators.group.consumer.records import Records, group_tombstones
from headrace.coordinators.group.consumer.subscription import MayDescribe, describes_all
from headrace.coordinators.group.group_config_manager import ClassicGroupConfig, GroupConfig
from headrace.coordinators.group.held_heartbeats import (
    AnswerHeartbeat,
    HeartbeatHoldPolicy,
    PendingHeartbeat,
    ReleaseHeld,
)
from headrace.coordinators.group.streams.records import group_tombstones as streams_group_tombstones
from headrace.coordinators.group.streams.streams_group import StreamsGroupState
from headrace.coordinators.group.streams.streams_group_config import StreamsGroupConfig
from headrace.coordinators.group.streams.streams_group_manager import StreamsGroupManager
from headrace.coordinators.timer import CoordinatorTimer
from headrace.metadata.image import MetadataImage
from headrace.wire.schemas.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from headrace.wire.schemas.heartbeat import HeartbeatRequest
from headrace.wire.schemas.join_group import JoinGroupRequest
from headrace.wire.schemas.leave_group import LeaveGroupRequest, LeaveGroupResponse
from headrace.wire.schemas.sync_group import SyncGroupRequest, SyncGroupResponse

CONSUMERS: Final = "consumer"
"""The protocol type of groups whose members say which topics they read."""


class GroupMetadataManager:
    """Passes the requests of groups to `classic` or `consumer`, whichever has the group."""

    def __init__(
        self,
        *,
        limits: ClassicGroupConfig,
        clock: Clock,
        timer: CoordinatorTimer,
        write: Write,
        new_uuid: Callable[[], str],
        image: MetadataImage,
        group_config: Callable[[str], GroupConfig],
        members_on_node: Callable[[], int],
        is_share_group: Callable[[str], bool] = lambda group_id: False,
        streams_config: Callable[[str], StreamsGroupConfig] = lambda group_id: StreamsGroupConfig(),
    ) -> None:
        self._limits = limits
        self._is_share_group = is_share_group
        self._image = image
        self._clock = clock
        self._write = write
        self.classic = ClassicGroupManager(
            limits=limits, timer=timer, persist=self._persist_classic, new_uuid=new_uuid
        )
        self.consumer = ConsumerGroupManager(
            image=image,
            clock=clock,
            timer=timer,
            write=write,
            new_uuid=new_uuid,
            group_config=group_config,
            members_on_node=members_on_node,
            maybe_downgrade=self._maybe_downgrade,
        )
        self._classic_members = ClassicMembers(self.consumer, image, new_uuid)
        self.streams = StreamsGroupManager(
            image=image,
            clock=clock,
            timer=timer,
            write=write,
            group_config=streams_config,
            members_on_node=members_on_node,
            make_way=self._make_way_for_streams,
            is_taken=self._has_no_streams,
        )

    def _persist_classic(self, group: ClassicGroup, assignments: Assignments, done: Done) -> None:
        group.current_state_timestamp_ms = self._clock.now_ms()
        record = group_metadata_record(group, assignments, now_ms=group.current_state_timestamp_ms)
        self._write([record], done, False)

    def _make_way_for_streams(self, group_id: str) -> Records:
        """The record that ends an empty classic group; ApiError where a group of another kind has the id."""
        classic = self.classic.groups.get(group_id)
        if classic is not None and not classic.members:
            return [group_metadata_tombstone(group_id)]
        if self._has_no_streams(group_id):
            raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a streams group.")
        return []

    def _has_no_streams(self, group_id: str) -> bool:
        is_group = group_id in self.classic.groups or group_id in self.consumer.groups
        return is_group or self._is_share_group(group_id)

    # --- the consumer protocol's request ---

    def consumer_group_heartbeat(
        self,
        request: ConsumerGroupHeartbeatRequest,
        *,
        client_id: str,
        client_host: str,
        api_version: int,
        answer: AnswerHeartbeat,
        margin_ms: int | None = None,
        may_describe: MayDescribe = describes_all,
    ) -> ReleaseHeld | None:
        """Answer, or hold it until there is news where `margin_ms` allows it: see `PendingHeartbeat`."""
        config = self.consumer.group_config(request.group_id)
        upgrade_records: Records = []
        try:
            validate_heartbeat(request, api_version=api_version, assignors=config.assignors)
            if self._is_share_group(request.group_id) or request.group_id in self.streams.groups:
                raise ApiError(
                    ErrorCode.GROUP_ID_NOT_FOUND, f"Group {request.group_id} is not a consumer group."
                )
            classic = self.classic.groups.get(request.group_id)
            if classic is not None:
                upgrade_records = self._prepare_upgrade(classic, request)
        except ApiError as error:
            answer(ConsumerGroupHeartbeatResponse(error_code=error.code, error_message=error.message))
            return None
        return self.consumer.heartbeat(
            PendingHeartbeat(request, client_id, client_host, answer, margin_ms, may_describe),
            upgrade_records,
        )

    def _prepare_upgrade(self, classic: ClassicGroup, request: ConsumerGroupHeartbeatRequest) -> Records:
        """Make way for a member of the new protocol: upgrade a live classic group; the record that ends an
        empty
        one is written with the member's first."""
        if request.member_epoch == JOIN_GROUP_MEMBER_EPOCH and not classic.members:
            # Whoever has been given an id and comes back with it is taken in by the new group.
            return [group_metadata_tombstone(classic.id)]
        config = self.consumer.group_config(classic.id)
        if request.member_epoch != JOIN_GROUP_MEMBER_EPOCH or not classic.members:
            raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {classic.id} is not a consumer group.")
        if not config.upgrade:
            raise cannot_upgrade(classic, "online upgrade is disabled.")
        if len(classic.members) > config.size_max:
            raise cannot_upgrade(classic, "its size exceeds the consumer group maximum size.")
        records = upgrade(classic, self._image, wall_ms=self._clock.now_ms())
        check_group_size(classic, request.member_id, config.size_max)
        self._upgrade(classic, records)
        return []

    def _upgrade(self, classic: ClassicGroup, records: Records) -> None:
        """ApiError where the log does not take it; otherwise the group is a consumer group from here on."""
        failed = ErrorCode.NONE

        def written(error: ErrorCode) -> None:
            nonlocal failed
            failed = error

        self.classic.fail_awaiting_members(classic)
        self._write(records, written, True)
        if failed is not ErrorCode.NONE:
            raise ApiError(failed)
        self.consumer.schedule_timeouts(self.consumer.groups[classic.id])

    def _maybe_downgrade(self, group_id: str, generation: int) -> None:
        """A member is gone: a group whose members are all classic is a classic group again."""
        group = self.consumer.groups.get(group_id)
        if group is None or not is_all_classic(group) or not self.consumer.group_config(group_id).downgrade:
            return
        if len(group.members) > self._limits.size_max:
            return
        members = list(group.members.values())
        records = downgrade(group, self._image, generation=generation, wall_ms=self._clock.now_ms())
        self._write(records, lambda error: None, True)
        classic = self.classic.groups.get(group_id)
        if classic is not None:
            for member in members:
                self.consumer.timeouts.cancel(group_id, member.id)
            self.classic.schedule_heartbeats(classic, self._clock.monotonic_ms())
            self.classic.rebalance(classic, self._clock.monotonic_ms())

    # --- the classic protocol's requests ---

    def classic_group_join(
        self,
        request: JoinGroupRequest,
        caller: Caller,
        *,
        features: JoinFeatures,
        now_ms: int,
        answer: AnswerJoin,
    ) -> None:
        group = self.consumer.groups.get(request.group_id)

        def join_classic(error: ErrorCode) -> None:
            if error is ErrorCode.NONE:
                self.classic.join(request, caller, features=features, now_ms=now_ms, answer=answer)
            else:
                answer(join_error(request.member_id, error))

        streams = self.streams.groups.get(request.group_id)
        if self._is_share_group(request.group_id) or (streams is not None and streams.members):
            answer(join_error("", ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
        elif streams is not None:
            self._write(streams_group_tombstones(streams), join_classic, True)
        elif group is None:
            join_classic(ErrorCode.NONE)
        elif not self._session_fits(request):
            answer(join_error(request.member_id, ErrorCode.INVALID_SESSION_TIMEOUT))
        elif not group.members:
            self._write(group_tombstones(group), join_classic, True)
        else:
            self._classic_members.join(
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

    def classic_group_sync(self, request: SyncGroupRequest, *, now_ms: int, answer: AnswerSync) -> None:
        group = self.consumer.groups.get(request.group_id)
        if group is None:
            self.classic.sync(request, now_ms=now_ms, answer=answer)
        elif not group.members:
            answer(SyncGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
        else:
            answer(self._classic_members.sync(group, request))

    def classic_group_heartbeat(self, request: HeartbeatRequest, *, now_ms: int) -> ErrorCode:
        group = self.consumer.groups.get(request.group_id)
        if group is None:
            return self.classic.heartbeat(request, now_ms=now_ms)
        return self._classic_members.heartbeat(group, request)

    def hold_heartbeat(
        self,
        request: HeartbeatRequest,
        policy: HeartbeatHoldPolicy,
        *,
        now_ms: int,
        answer: Callable[[ErrorCode], None],
    ) -> Release | None:
        """Hold a good heartbeat of a classic group until there is news; None to answer it now."""
        if request.group_id in self.consumer.groups:
            return None
        return self.classic.hold_heartbeat(request, policy, now_ms=now_ms, answer=answer)

    def classic_group_leave(
        self, request: LeaveGroupRequest, *, now_ms: int, answer: Callable[[LeaveGroupResponse], None]
    ) -> None:
        group = self.consumer.groups.get(request.group_id)
        if group is None:
            answer(self.classic.leave(request, now_ms=now_ms))
        else:
            self._classic_members.leave(group, request, answer)

    # --- what is known of a group, whichever kind it is ---

    def state_of(self, group_id: str) -> ClassicGroupState | ConsumerGroupState | StreamsGroupState | None:
        """None for one that has no members, and never had."""
        consumer = self.consumer.groups.get(group_id) or self.streams.groups.get(group_id)
        if consumer is not None:
            return consumer.state
        classic = self.classic.groups.get(group_id)
        return None if classic is None else classic.state

    def is_empty(self, group_id: str) -> bool:
        empty = (ClassicGroupState.EMPTY, ConsumerGroupState.EMPTY, StreamsGroupState.EMPTY)
        return self.state_of(group_id) in (None, *empty)

    def subscribed_topics(self, group_id: str) -> set[str] | None:
        """The topics that members of the group read; None where a consumer says it in bytes that can't be
        read: it may be any. ApiError where the members are no consumers, and alone know.
        """
        consumer = self.consumer.groups.get(group_id) or self.streams.groups.get(group_id)
        if consumer is not None:
            return set(consumer.subscribed_topics())
        group = self.classic.groups.get(group_id)
        if group is None or group.is_in(ClassicGroupState.EMPTY):
            return set()
        if group.protocol_type != CONSUMERS:
            raise ApiError(ErrorCode.NON_EMPTY_GROUP)
        in_use: set[str] = set()
        for member in group.members.values():
            topics = subscribed_topics(member.metadata_for(group.protocol or ""))
            if topics is None:
                return None
            in_use.update(topics)
        return in_use

    def may_expire_offsets(self, group_id: str) -> bool:
        """A group with members keeps what they read; while they rebalance nobody knows what that is."""
        group = self.classic.groups.get(group_id)
        if group is None:
            return True
        if group.is_in(ClassicGroupState.EMPTY):
            return not group.pending_join_members
        return group.is_in(ClassicGroupState.STABLE) and group.protocol_type == CONSUMERS

    def group_tombstones(self, group_id: str) -> list[CoordinatorRecord]:
        """What deletes the group, without its offsets."""
        records = []
        if group_id in self.classic.groups:
            records.append(group_metadata_tombstone(group_id))
        consumer = self.consumer.groups.get(group_id)
        if consumer is not None:
            records += group_tombstones(consumer)
        streams = self.streams.groups.get(group_id)
        if streams is not None:
            records += streams_group_tombstones(streams)
        return records
