"""Heartbeat (12), v0-v4: a member of a classic group is alive.

Checks, in order: coordinator here? group known? member known, and its instance still its own? generation
equal? Answers REBALANCE_IN_PROGRESS while members rejoin. v3: static membership (KIP-345).

While all is well the answer is held back, so that a member hears of a rebalance at once and not with its next
heartbeat (`coordinators/group/held_heartbeats.py`). A reply that is held gives way to the next request on its
connection. It is only done to clients that are known to take it well, by the name they give (KIP-511): those
who send the next heartbeat by the time of the last one, and have nothing wait for the answer. Not so kafkajs,
which reads no records until the heartbeat is answered, sarama, which ends no session before it is, and
franz-go, which counts its interval from the answer; kafkajs, kafka-go and aiokafka give no name.
"""

from asyncio import Future
from typing import Final

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.coordinators.group.consumer.both_protocols import BothProtocols
from headrace.coordinators.group.held_heartbeats import Patience
from headrace.server.context import Peer, RequestContext
from headrace.server.pending import settle
from headrace.wire.schemas.heartbeat import HeartbeatRequest, HeartbeatResponse

# Stock clients send a heartbeat every 3 s by default. librdkafka leaves one out while another is unanswered:
# that has its answer a little before. The Java client and librdkafka repeat, after their back-off of 0.1 s,
# one that was answered by COORDINATOR_LOAD_IN_PROGRESS.
HOLD_MS: Final = 2_800
PATIENCE: Final = {
    "apache-kafka-java": Patience(HOLD_MS, comes_again=True),
    "headrace": Patience(HOLD_MS, comes_again=True),
    "kafka-python": Patience(HOLD_MS, comes_again=False),
}
LIBRDKAFKAS_PATIENCE: Final = Patience(HOLD_MS, comes_again=True, starts_anew=False)
# Its bindings have names of their own: confluent-kafka-python, confluent-kafka-go, rust-rdkafka...
LIBRDKAFKA: Final = ("rdkafka", "confluent-kafka-")


def handle(
    context: RequestContext, request: HeartbeatRequest
) -> HeartbeatResponse | Future[HeartbeatResponse]:
    groups = context.parts.groups
    try:
        protocols = groups.machine_of(request.group_id).protocols
    except ApiError as refusal:
        # Nothing is lost by a heartbeat that comes too early: the group is being loaded, and remembers its
        # members.
        loading = refusal.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return HeartbeatResponse(error_code=ErrorCode.NONE if loading else refusal.code)
    error = protocols.heartbeat(request, now_ms=groups.now_ms())
    held = _hold(context, protocols, request) if error is ErrorCode.NONE else None
    groups.arm()
    return HeartbeatResponse(error_code=error) if held is None else held


def _hold(
    context: RequestContext, protocols: BothProtocols, request: HeartbeatRequest
) -> Future[HeartbeatResponse] | None:
    """The answer that comes when there is news; None where the client should have it now."""
    peer = context.connection
    patience = _patience(peer)
    if patience is None:
        return None
    answer: Future[HeartbeatResponse] = context.parts.loop.create_future()
    complete = settle(answer)
    groups = context.parts.groups
    release = protocols.hold(
        request,
        patience,
        now_ms=groups.now_ms(),
        answer=lambda error: complete(HeartbeatResponse(error_code=error)),
    )
    if release is None:
        return None
    peer.hold(lambda: release(groups.now_ms(), peer.is_gone))
    return answer


def _patience(peer: Peer) -> Patience | None:
    name, version = peer.software_name, peer.software_version
    if "librdkafka" in version or any(part in name for part in LIBRDKAFKA):
        return LIBRDKAFKAS_PATIENCE
    return PATIENCE.get(name)
