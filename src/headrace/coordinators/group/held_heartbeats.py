"""Heartbeats of classic members, held back until there is something to say.

A classic member learns of a rebalance from the answer to a heartbeat, and stock clients send one every three
seconds: a rebalance of Apache Kafka waits for the slowest of them. Here a heartbeat of a stable group is kept
as a long poll is: its member hears of a rebalance at once.

Nothing else changes for the member. Its session counts from when the heartbeat arrived, as ever. An answer
without news leaves when it is nearly time for the next heartbeat, and whenever the connection has something
else to do, such as a commit. Then the member would not ask again for seconds. Some clients repeat a heartbeat
at once that was answered by COORDINATOR_LOAD_IN_PROGRESS, and think no ill of it: those are asked to, but
never for so long that they would doubt their session, which they count from the last good answer.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from headrace.base.error_codes import ErrorCode
from headrace.coordinators.group.classic_group import ClassicGroup, GroupState, Member
from headrace.coordinators.timers import Timers

COME_AGAIN: Final = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
# A held heartbeat takes up to a quarter of a session, and so do answers that are not good ones. librdkafka
# leaves out the heartbeat that falls due while one is unanswered: where a session is two intervals long, a
# single answer that came too late would cost it its membership.
PARTS_OF_SESSION: Final = 4


@dataclass(frozen=True, slots=True)
class Patience:
    """How a client takes it."""

    hold_ms: int
    comes_again: bool  # at once, after COORDINATOR_LOAD_IN_PROGRESS
    starts_anew: bool = True  # it counts to the next heartbeat from a repeated one, not from the first


class HeldHeartbeats:
    """Holds the heartbeats of classic groups."""

    def __init__(self, timers: Timers) -> None:
        self._timers = timers

    def hold(
        self,
        group: ClassicGroup,
        member: Member,
        patience: Patience,
        *,
        now_ms: int,
        answer: Callable[[ErrorCode], None],
    ) -> Callable[[int, bool], None] | None:
        """Answer when there is news, or after `hold_ms` at the latest. Returns what ends the wait before
        that: it is given the time, and whether the member broke the connection. None where there is nothing
        to wait for.
        """
        if not group.is_in(GroupState.STABLE) or not member.is_patient:
            return None
        member.tell(ErrorCode.NONE)  # an older one, of a connection that is no longer in use
        member.beating = answer
        if member.repeats is None or patience.starts_anew:
            member.beat_ms = now_ms
        member.repeats = None
        part_ms = member.session_timeout_ms // PARTS_OF_SESSION

        def is_good(now: int) -> None:
            if member.beating is answer:
                member.assured_ms = now
                member.tell(ErrorCode.NONE)

        def release(now: int, is_broken: bool) -> None:
            if member.beating is not answer:
                return
            if is_broken:  # its time-out for requests is shorter than we thought: once is enough
                member.is_patient = False
            if patience.comes_again and now - member.assured_ms < part_ms:
                member.repeats = group.generation
                member.tell(COME_AGAIN)
            else:
                is_good(now)

        until_ms = min(member.beat_ms + patience.hold_ms, now_ms + part_ms)
        self._timers.set(("beating", group.id, member.id), until_ms, is_good)
        return release
