"""Heartbeats of consumer groups that are kept until there is news.

A member learns from the answer to a heartbeat that it shall let go of a partition or may take one, so a
rebalance waits for the slowest heartbeat. A heartbeat that finds nothing new is therefore kept as a long poll
is, and gone through once more when its group has moved on: that is its answer.

The answer leaves before the interval is over that the member was told last, by a margin that depends on the
client: some give up on a request after that time, others look all the time whether it is answered. It leaves
as soon as the connection has something else to do, such as a commit: replies leave in order. Who breaks off
the connection instead of waiting is not made to wait again.

Kept are only members that have all they shall have. One that has to let go, or waits for somebody who has to,
must be free to say so.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from headrace.base.clock import Clock
from headrace.base.error_codes import ErrorCode
from headrace.coordinators.group.consumer.consumer_group import Pace
from headrace.coordinators.timers import Timers
from headrace.wire.schemas.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)

AnswerHeartbeat = Callable[[ConsumerGroupHeartbeatResponse], None]
Release = Callable[[bool], None]
"""Ends the wait; it is told whether the member broke off the connection."""

# Shorter waits are not worth their timers.
WAIT_MS_MIN: Final = 100
# Going on takes some 0.1 ms for each member: other requests are served in between.
AT_ONCE: Final = 50
END: Final = "consumer wait"
NEWS: Final = "consumer news"


@dataclass(frozen=True, slots=True, eq=False)
class Beat:
    """A heartbeat as it came. `margin_ms` says how much earlier than its next one this client needs the
    answer; None that it must have it now.
    """

    request: ConsumerGroupHeartbeatRequest
    client_id: str
    client_host: str
    answer: AnswerHeartbeat
    margin_ms: int | None = None


class Waiting:
    """The heartbeats kept for the groups of one coordinator partition.

    `news_at_ms` tells when there is news for the members of a group that are at an epoch, or None; `go_on`
    goes through a heartbeat once more, and answers it.
    """

    def __init__(
        self,
        *,
        timers: Timers,
        clock: Clock,
        news_at_ms: Callable[[str, int], int | None],
        go_on: Callable[[Beat], object],
    ) -> None:
        self._timers = timers
        self._clock = clock
        self._news_at_ms = news_at_ms
        self._go_on = go_on
        self._beats: dict[str, dict[str, Beat]] = {}

    def keep(self, beat: Beat, pace: Pace, *, wait_ms_max: int) -> Release | None:
        """Answer when there is news, or when it is nearly time for the next one. None where it is not worth
        to wait, and the answer is left to the caller.
        """
        if beat.margin_ms is None or not pace.is_patient:
            return None
        wait_ms = min(pace.told_ms - beat.margin_ms, wait_ms_max)
        if wait_ms < WAIT_MS_MIN:
            return None
        group_id, member_id = beat.request.group_id, beat.request.member_id
        older = self._beats.get(group_id, {}).get(member_id)
        if older is not None:  # of a connection that is no longer in use
            self._end(older)
        self._beats.setdefault(group_id, {})[member_id] = beat
        end_ms = self._clock.monotonic_ms() + wait_ms
        self._timers.set((END, group_id, member_id), end_ms, lambda now_ms: self._end(beat))

        def release(is_broken: bool) -> None:
            if self._is_kept(beat):
                pace.is_patient = not is_broken
                self._end(beat)

        return release

    def stir(self, group_id: str) -> None:
        """A group has changed: who waits and has news goes on in a moment."""
        beats = self._beats.get(group_id)
        if not beats:
            return
        first = next(iter(beats.values()))  # the oldest: nobody's epoch is older
        at_ms = self._news_at_ms(group_id, first.request.member_epoch)
        if at_ms is not None:
            self._timers.set((NEWS, group_id), at_ms, lambda now_ms: self._look(group_id, now_ms))

    def drop_all(self) -> None:
        """The coordinator moves away."""
        for beats in list(self._beats.values()):
            for beat in list(beats.values()):
                self._take(beat)
                beat.answer(ConsumerGroupHeartbeatResponse(error_code=ErrorCode.NOT_COORDINATOR))

    def _look(self, group_id: str, now_ms: int) -> None:
        for done, beat in enumerate(list(self._beats.get(group_id, {}).values())):
            if not self._is_kept(beat):
                continue
            at_ms = self._news_at_ms(group_id, beat.request.member_epoch)
            if at_ms is None:
                continue
            if at_ms > now_ms or done >= AT_ONCE:
                next_ms = max(at_ms, now_ms + 1)
                self._timers.set((NEWS, group_id), next_ms, lambda now_ms: self._look(group_id, now_ms))
                return
            self._end(beat)

    def _is_kept(self, beat: Beat) -> bool:
        beats = self._beats.get(beat.request.group_id, {})
        return beats.get(beat.request.member_id) is beat

    def _end(self, beat: Beat) -> None:
        self._take(beat)
        self._go_on(beat)

    def _take(self, beat: Beat) -> None:
        group_id, member_id = beat.request.group_id, beat.request.member_id
        self._timers.cancel((END, group_id, member_id))
        beats = self._beats[group_id]
        del beats[member_id]
        if not beats:
            del self._beats[group_id]
            self._timers.cancel((NEWS, group_id))
