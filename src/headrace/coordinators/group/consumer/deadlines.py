"""What members owe the group, and until when: a sign of life, letting go, and for classic ones joining again
and asking for their share. Whoever misses one is out.
"""

from collections.abc import Callable
from typing import Final

from headrace.base.clock import Clock
from headrace.coordinators.group.consumer.member import ConsumerMember, MemberState
from headrace.coordinators.group.consumer.settings import ConsumerSettings
from headrace.coordinators.timers import Timers

SESSION: Final = "consumer session"
RELEASE: Final = "consumer release"
JOIN: Final = "consumer join"
SYNC: Final = "consumer sync"


class Deadlines:
    """Timers of the members of consumer groups. `expire` takes a member out."""

    def __init__(
        self,
        *,
        timers: Timers,
        clock: Clock,
        settings_of: Callable[[str], ConsumerSettings],
        find: Callable[[str, str], ConsumerMember | None],
        expire: Callable[[str, str], None],
    ) -> None:
        self._timers = timers
        self._clock = clock
        self._settings_of = settings_of
        self._find = find
        self._expire = expire

    def expect_heartbeat(self, group_id: str, member: ConsumerMember) -> None:
        timeout_ms = (
            self._settings_of(group_id).session_timeout_ms
            if member.classic is None
            else member.classic.session_timeout_ms
        )
        self._timers.set(
            (SESSION, group_id, member.id),
            self._clock.monotonic_ms() + timeout_ms,
            lambda now_ms: self._expire(group_id, member.id),
        )

    def expect_release(self, group_id: str, member: ConsumerMember) -> None:
        """A member that has to let go of partitions has its rebalance time-out for that."""
        if member.state is MemberState.UNREVOKED_PARTITIONS:
            self._expect(RELEASE, group_id, member)
        else:
            self._timers.cancel((RELEASE, group_id, member.id))

    def expect_join(self, group_id: str, member: ConsumerMember) -> None:
        """A classic member was told to join again; being told twice gives it no more time."""
        if (JOIN, group_id, member.id) not in self._timers:
            self._expect(JOIN, group_id, member)

    def expect_sync(self, group_id: str, member: ConsumerMember) -> None:
        """A classic member has joined, and must ask for its share."""
        self._timers.cancel((JOIN, group_id, member.id))
        self._expect(SYNC, group_id, member)

    def synced(self, group_id: str, member: ConsumerMember) -> None:
        self._timers.cancel((SYNC, group_id, member.id))

    def forget(self, group_id: str, member_id: str) -> None:
        for kind in (SESSION, RELEASE, JOIN, SYNC):
            self._timers.cancel((kind, group_id, member_id))

    def _expect(self, kind: str, group_id: str, member: ConsumerMember) -> None:
        """Unless it gets further within its rebalance time-out, the member is out."""

        def look(now_ms: int) -> None:
            current = self._find(group_id, member.id)
            if current is not None and (current.epoch, current.state) == (member.epoch, member.state):
                self._expire(group_id, member.id)

        self._timers.set(
            (kind, group_id, member.id), self._clock.monotonic_ms() + member.rebalance_timeout_ms, look
        )
