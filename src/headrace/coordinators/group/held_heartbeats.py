"""Heartbeats of classic members, held back until there is something to say.

A classic member learns of a rebalance from the answer to a heartbeat, and stock clients send one every three
seconds: a rebalance of Apache Kafka waits for the slowest of them. Here a heartbeat of a stable group is kept
as a long poll is: its member hears of a rebalance at once.

Nothing else changes for the member. Its session counts from when the heartbeat arrived, as ever. An answer
without news leaves when it is time for the next heartbeat, and whenever the connection has something else to
do.
"""

from collections.abc import Callable
from typing import Final

from headrace.base.error_codes import ErrorCode
from headrace.coordinators.group.classic_group import ClassicGroup, GroupState, Member
from headrace.coordinators.timers import Timers

# A client that leaves heartbeats out while one is unanswered must be heard in good time before its session
# ends: it is recommended to have three of them in a session.
HELD_PER_SESSION: Final = 3


class HeldHeartbeats:
    """Holds the heartbeats of classic groups."""

    def __init__(self, timers: Timers) -> None:
        self._timers = timers

    def hold(
        self,
        group: ClassicGroup,
        member: Member,
        *,
        hold_ms: int,
        now_ms: int,
        answer: Callable[[ErrorCode], None],
    ) -> Callable[[bool], None] | None:
        """Answer when there is news, or after `hold_ms` at the latest. Returns what ends the wait before
        that; it is told whether the member broke the connection. None where there is nothing to wait for.
        """
        if not group.is_in(GroupState.STABLE) or not member.is_patient:
            return None
        member.tell(ErrorCode.NONE)  # an older one, of a connection that is no longer in use
        member.beating = answer

        def release(is_broken: bool) -> None:
            if member.beating is answer:
                # Its time-out for requests is shorter than we thought: once is enough.
                member.is_patient = not is_broken
                member.tell(ErrorCode.NONE)

        self._timers.set(
            ("beating", group.id, member.id),
            now_ms + min(hold_ms, member.session_timeout_ms // HELD_PER_SESSION),
            lambda now: release(False),
        )
        return release
