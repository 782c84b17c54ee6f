"""Heartbeats that are held back until there is something to say, as a long poll is.

A member learns of a rebalance from the answer to a heartbeat, and stock clients send one every three seconds:
a rebalance of Apache Kafka waits for the slowest of them. Here a heartbeat of a stable group is held, and its
member hears of a rebalance at once. Nothing else changes for the member: its session counts from when the
heartbeat arrived, as ever.

An answer without news leaves when it is nearly time for the next heartbeat, and as soon as the connection has
something else to do, such as a commit: replies leave in order. A member that breaks the connection instead of
waiting is not held again. It is only done to clients that are known to take it well, by the name they give
(KIP-511): those that send the next heartbeat by the time of the last one, and have nothing wait for the
answer. Not so kafkajs, which reads no records until the heartbeat is answered, sarama, which ends no session
before it is, and franz-go, which counts its interval from the answer; kafkajs, kafka-go and aiokafka give no
name.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from headrace.base.clock import Clock
from headrace.base.error_codes import ErrorCode
from headrace.coordinators.group.classic.classic_group import (
    ClassicGroup,
    ClassicGroupMember,
    ClassicGroupState,
)
from headrace.coordinators.group.consumer.consumer_group import HeartbeatState
from headrace.coordinators.group.consumer.subscription import MayDescribe, describes_all
from headrace.coordinators.timer import CoordinatorTimer
from headrace.wire.schemas.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)

# --- for which clients, and how long ---

# librdkafka's bindings have names of their own: confluent-kafka-python, confluent-kafka-go, rust-rdkafka...
LIBRDKAFKA: Final = ("rdkafka", "confluent-kafka-")


@dataclass(frozen=True, slots=True)
class HeartbeatHoldPolicy:
    """How long the heartbeats of a client may be held in classic groups, and how it takes that."""

    hold_ms: int
    comes_again: bool  # at once, after COORDINATOR_LOAD_IN_PROGRESS
    restarts_interval: bool = True  # it counts to the next heartbeat from a repeated one, not from the first


# In classic groups stock clients send a heartbeat every 3 s by default. librdkafka leaves one out while
# another is unanswered: that has its answer a little before. The Java client and librdkafka repeat, after
# their back-off of 0.1 s, one that was answered by COORDINATOR_LOAD_IN_PROGRESS.
HOLD_MS: Final = 2_800
HOLD_POLICIES: Final = {
    "apache-kafka-java": HeartbeatHoldPolicy(HOLD_MS, comes_again=True),
    "headrace": HeartbeatHoldPolicy(HOLD_MS, comes_again=True),
    "kafka-python": HeartbeatHoldPolicy(HOLD_MS, comes_again=False),
}
LIBRDKAFKA_HOLD_POLICY: Final = HeartbeatHoldPolicy(HOLD_MS, comes_again=True, restarts_interval=False)

# In consumer groups (KIP-848): how long before its next heartbeat a client needs the answer. The Java client
# has nothing else to do from then on than to look whether it is there. librdkafka gives up on the connection
# at that very time: there has to be room for the network, and for a node that is busy.
MARGIN_MS: Final = {"apache-kafka-java": 50, "headrace": 50}
LIBRDKAFKA_MARGIN_MS: Final = 150


def hold_policy_of(software_name: str, software_version: str) -> HeartbeatHoldPolicy | None:
    """For heartbeats of classic groups; None where the answer leaves at once."""
    if _is_librdkafka(software_name, software_version):
        return LIBRDKAFKA_HOLD_POLICY
    return HOLD_POLICIES.get(software_name)


def hold_margin_ms_of(software_name: str, software_version: str) -> int | None:
    """For heartbeats of consumer groups; None where the answer leaves at once."""
    if _is_librdkafka(software_name, software_version):
        return LIBRDKAFKA_MARGIN_MS
    return MARGIN_MS.get(software_name)


def _is_librdkafka(software_name: str, software_version: str) -> bool:
    return "librdkafka" in software_version or any(part in software_name for part in LIBRDKAFKA)


# --- Heartbeat, of classic groups ---

COME_AGAIN: Final = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
# A held heartbeat takes up to a quarter of a session, and so do answers that are not good ones. librdkafka
# leaves out the heartbeat that falls due while one is unanswered: where a session is two intervals long, a
# single answer that came too late would cost it its membership.
PARTS_OF_SESSION: Final = 4


class HeldClassicHeartbeats:
    """Holds the heartbeats of classic groups.

    A member whose held heartbeat is answered without news, because its connection is needed, would not send
    another one for seconds. Some clients repeat a heartbeat at once that was answered by
    COORDINATOR_LOAD_IN_PROGRESS, and think no ill of it: those are asked to, but never for so long that they
    would doubt their session, which they count from the last good answer.
    """

    def __init__(self, timer: CoordinatorTimer) -> None:
        self._timer = timer

    def hold(
        self,
        group: ClassicGroup,
        member: ClassicGroupMember,
        policy: HeartbeatHoldPolicy,
        *,
        now_ms: int,
        answer: Callable[[ErrorCode], None],
    ) -> Callable[[int, bool], None] | None:
        """Answer when there is news, or after `hold_ms` at the latest. Returns what ends the wait before
        that: it is given the time, and whether the member broke the connection. None where there is nothing
        to wait for.
        """
        if not group.is_in(ClassicGroupState.STABLE) or not member.may_hold_heartbeats:
            return None
        member.answer_heartbeat(ErrorCode.NONE)  # an older one, of a connection that is no longer in use
        member.held_heartbeat = answer
        if member.repeats_generation is None or policy.restarts_interval:
            member.heartbeat_ms = now_ms
        member.repeats_generation = None
        part_ms = member.session_timeout_ms // PARTS_OF_SESSION

        def is_good(now: int) -> None:
            if member.held_heartbeat is answer:
                member.good_answer_ms = now
                member.answer_heartbeat(ErrorCode.NONE)

        def release(now: int, is_broken: bool) -> None:
            if member.held_heartbeat is not answer:
                return
            if is_broken:  # its time-out for requests is shorter than we thought: once is enough
                member.may_hold_heartbeats = False
            if policy.comes_again and now - member.good_answer_ms < part_ms:
                member.repeats_generation = group.generation
                member.answer_heartbeat(COME_AGAIN)
            else:
                is_good(now)

        until_ms = min(member.heartbeat_ms + policy.hold_ms, now_ms + part_ms)
        self._timer.schedule(("held heartbeat", group.id, member.id), until_ms, is_good)
        return release


# --- ConsumerGroupHeartbeat ---

AnswerHeartbeat = Callable[[ConsumerGroupHeartbeatResponse], None]
ReleaseHeld = Callable[[bool], None]
"""Answers a held heartbeat now; it is told whether the member broke the connection."""

# Shorter holds are not worth their timers.
HOLD_MS_MIN: Final = 100
# Serving one takes some 0.1 ms: other requests are served in between.
SERVED_AT_ONCE: Final = 50
HOLD_TIMER: Final = "held consumer heartbeat"
NEWS_TIMER: Final = "consumer group news"


@dataclass(frozen=True, slots=True, eq=False)
class PendingHeartbeat:
    """A ConsumerGroupHeartbeat that is not answered yet. `margin_ms` says how much earlier than its next
    heartbeat this client needs the answer; None that it must have it now. `may_describe` says of which topics
    it may know.
    """

    request: ConsumerGroupHeartbeatRequest
    client_id: str
    client_host: str
    answer: AnswerHeartbeat
    margin_ms: int | None = None
    may_describe: MayDescribe = describes_all


class HeldConsumerHeartbeats:
    """Holds the heartbeats of consumer groups, for one coordinator partition.

    A heartbeat that finds nothing new is held, and served again when its group has changed: that is its
    answer. The answer leaves before the interval is over that the member was told last, by a margin that
    depends on the client. Only members that have all of their target are held: one that has to revoke
    partitions, or waits for another one's, must be free to send its next heartbeat.

    `news_at_ms` tells when there is news for the members of a group that are at an epoch, or None; `serve`
    serves a heartbeat again, and answers it.
    """

    def __init__(
        self,
        *,
        timer: CoordinatorTimer,
        clock: Clock,
        news_at_ms: Callable[[str, int], int | None],
        serve: Callable[[PendingHeartbeat], object],
    ) -> None:
        self._timer = timer
        self._clock = clock
        self._news_at_ms = news_at_ms
        self._serve = serve
        self._held: dict[str, dict[str, PendingHeartbeat]] = {}

    def hold(
        self, pending: PendingHeartbeat, state: HeartbeatState, *, hold_ms_max: int
    ) -> ReleaseHeld | None:
        """Answer when there is news, or when it is nearly time for the next one. None where it is not worth
        holding, and the caller answers.
        """
        if pending.margin_ms is None or not state.may_be_held:
            return None
        hold_ms = min(state.interval_ms - pending.margin_ms, hold_ms_max)
        if hold_ms < HOLD_MS_MIN:
            return None
        group_id, member_id = pending.request.group_id, pending.request.member_id
        older = self._held.get(group_id, {}).get(member_id)
        if older is not None:  # of a connection that is no longer in use
            self._release(older)
        self._held.setdefault(group_id, {})[member_id] = pending
        end_ms = self._clock.monotonic_ms() + hold_ms
        self._timer.schedule((HOLD_TIMER, group_id, member_id), end_ms, lambda now_ms: self._release(pending))

        def release(is_broken: bool) -> None:
            if self._is_held(pending):
                state.may_be_held = not is_broken
                self._release(pending)

        return release

    def on_group_change(self, group_id: str) -> None:
        """A group has changed: held heartbeats that have news are served in a moment."""
        held = self._held.get(group_id)
        if not held:
            return
        first = next(iter(held.values()))  # the oldest: nobody's epoch is older
        at_ms = self._news_at_ms(group_id, first.request.member_epoch)
        if at_ms is not None:
            self._timer.schedule(
                (NEWS_TIMER, group_id), at_ms, lambda now_ms: self._serve_due(group_id, now_ms)
            )

    def fail_all(self) -> None:
        """The coordinator moves away: answer them so."""
        for held in list(self._held.values()):
            for pending in list(held.values()):
                self._remove(pending)
                pending.answer(ConsumerGroupHeartbeatResponse(error_code=ErrorCode.NOT_COORDINATOR))

    def _serve_due(self, group_id: str, now_ms: int) -> None:
        for served, pending in enumerate(list(self._held.get(group_id, {}).values())):
            if not self._is_held(pending):
                continue
            at_ms = self._news_at_ms(group_id, pending.request.member_epoch)
            if at_ms is None:
                continue
            if at_ms > now_ms or served >= SERVED_AT_ONCE:
                next_ms = max(at_ms, now_ms + 1)
                self._timer.schedule(
                    (NEWS_TIMER, group_id), next_ms, lambda now_ms: self._serve_due(group_id, now_ms)
                )
                return
            self._release(pending)

    def _is_held(self, pending: PendingHeartbeat) -> bool:
        held = self._held.get(pending.request.group_id, {})
        return held.get(pending.request.member_id) is pending

    def _release(self, pending: PendingHeartbeat) -> None:
        self._remove(pending)
        self._serve(pending)

    def _remove(self, pending: PendingHeartbeat) -> None:
        group_id, member_id = pending.request.group_id, pending.request.member_id
        self._timer.cancel((HOLD_TIMER, group_id, member_id))
        held = self._held[group_id]
        del held[member_id]
        if not held:
            del self._held[group_id]
            self._timer.cancel((NEWS_TIMER, group_id))
