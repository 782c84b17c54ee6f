"""A classic group without a node: requests in, answers out, time by hand."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count

from headrace.base.error_codes import ErrorCode
from headrace.coordinators.coordinator_shard import Done
from headrace.coordinators.group.classic.classic_group import Assignments, ClassicGroup, JoinFeatures
from headrace.coordinators.group.classic.classic_group_manager import Caller, ClassicGroupManager
from headrace.coordinators.group.group_config_manager import ClassicGroupConfig
from headrace.coordinators.timer import CoordinatorTimer
from headrace.wire.schemas.heartbeat import HeartbeatRequest
from headrace.wire.schemas.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from headrace.wire.schemas.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from headrace.wire.schemas.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse

GROUP = "g"


@dataclass
class World:
    """One coordinator partition with hand-driven time; writes succeed at once unless told otherwise."""

    limits: ClassicGroupConfig = field(
        default_factory=lambda: ClassicGroupConfig(initial_rebalance_delay_ms=0)
    )
    now_ms: int = 1_000
    write_error: ErrorCode = ErrorCode.NONE

    def __post_init__(self) -> None:
        numbers = count(1)
        self.timer = CoordinatorTimer()
        self.written: list[tuple[int, Assignments]] = []
        self.manager = ClassicGroupManager(
            limits=self.limits,
            timer=self.timer,
            persist=self._persist,
            new_uuid=lambda: str(next(numbers)),
        )

    def _persist(self, group: ClassicGroup, assignments: Assignments, done: Done) -> None:
        if self.write_error is ErrorCode.NONE:
            self.written.append((group.generation, dict(assignments)))
        done(self.write_error)

    @property
    def group(self) -> ClassicGroup:
        return self.manager.groups[GROUP]

    def pass_time(self, milliseconds: int) -> None:
        """Let time pass, stopping at every deadline on the way."""
        end_ms = self.now_ms + milliseconds
        while (due := self.timer.next_deadline_ms()) is not None and due <= end_ms:
            self.now_ms = max(due, self.now_ms)
            self.timer.run_due(self.now_ms)
        self.now_ms = end_ms

    def join(
        self,
        member_id: str = "",
        *,
        instance_id: str | None = None,
        protocols: Mapping[str, bytes] | Sequence[str] = ("range",),
        protocol_type: str = "consumer",
        session_ms: int = 10_000,
        rebalance_ms: int = 60_000,
        version: int = 9,
        client_id: str = "c",
    ) -> list[JoinGroupResponse]:
        """Send a JoinGroup; the list holds its answer once there is one."""
        answers: list[JoinGroupResponse] = []
        if not isinstance(protocols, Mapping):
            protocols = {name: name.encode() for name in protocols}
        request = JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=rebalance_ms,
            member_id=member_id,
            group_instance_id=instance_id,
            protocol_type=protocol_type,
            protocols=[JoinGroupRequestProtocol(*each) for each in protocols.items()],
        )
        self.manager.join(
            request,
            Caller(client_id, "/127.0.0.1"),
            features=JoinFeatures(member_id_required=version >= 4, can_skip_assignment=version >= 9),
            now_ms=self.now_ms,
            answer=answers.append,
        )
        return answers

    def join_new(self, client_id: str = "c", **options: object) -> tuple[str, list[JoinGroupResponse]]:
        """The two steps of a dynamic member: get an id, come back with it."""
        member_id = self.join(client_id=client_id, **options)[0].member_id  # type: ignore[arg-type]
        return member_id, self.join(member_id, client_id=client_id, **options)  # type: ignore[arg-type]

    def sync(
        self, member_id: str, assignments: dict[str, bytes] | None = None, *, generation: int | None = None
    ) -> list[SyncGroupResponse]:
        answers: list[SyncGroupResponse] = []
        request = SyncGroupRequest(
            group_id=GROUP,
            generation_id=self.group.generation if generation is None else generation,
            member_id=member_id,
            assignments=[SyncGroupRequestAssignment(*each) for each in (assignments or {}).items()],
        )
        self.manager.sync(request, now_ms=self.now_ms, answer=answers.append)
        return answers

    def heartbeat(self, member_id: str, *, generation: int | None = None) -> ErrorCode:
        request = HeartbeatRequest(
            group_id=GROUP,
            generation_id=self.group.generation if generation is None else generation,
            member_id=member_id,
        )
        return self.manager.heartbeat(request, now_ms=self.now_ms)

    def leave(self, *members: MemberIdentity) -> LeaveGroupResponse:
        request = LeaveGroupRequest(group_id=GROUP, members=list(members))
        return self.manager.leave(request, now_ms=self.now_ms)

    def stable_pair(self) -> tuple[str, str]:
        """A stable group of two dynamic members, the leader first."""
        first, _ = self.join_new("a")
        self.sync(first, {first: b"all"})
        second, joined = self.join_new("b")
        assert self.heartbeat(first) is ErrorCode.REBALANCE_IN_PROGRESS
        self.join(first, client_id="a")
        assert joined[0].error_code == 0
        waiting = self.sync(second)
        self.sync(first, {first: b"0", second: b"1"})
        assert waiting[0].assignment == b"1"
        return first, second
