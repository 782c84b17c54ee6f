"""ConsumerGroupHeartbeat (68), v0-v1: join, stay in and leave a consumer group (KIP-848).

The protocol's only request of its own. Checks, in order: group.version finalized? request well formed?
assignor offered? pattern readable? coordinator here? group known (joining makes it)? room in it? member and
instance known, epoch its own? The reply gives a member its epoch, its partitions when they changed, and when
to come back. It leaves once what it says is in the log. v1: patterns (RE2), and ids made by the client
(KIP-1082).

A reply without news is kept until there is some, or until it is nearly time for the next heartbeat
(`coordinators/group/consumer/waiting.py`). It gives way to the next request on its connection. That is only
done to clients that are known to take it well (`server/patience.py`).
"""

from asyncio import Future
from typing import Final

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.server.context import RequestContext
from headrace.server.patience import margin_ms_of
from headrace.server.pending import settle
from headrace.wire.schemas.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)

FEATURE: Final = "group.version"


def handle(
    context: RequestContext, request: ConsumerGroupHeartbeatRequest
) -> ConsumerGroupHeartbeatResponse | Future[ConsumerGroupHeartbeatResponse]:
    parts = context.parts
    if parts.image.features.get(FEATURE, 0) < 1:
        return ConsumerGroupHeartbeatResponse(
            error_code=ErrorCode.UNSUPPORTED_VERSION, error_message=f"{FEATURE} is not enabled"
        )
    try:
        machine = parts.groups.machine_of(request.group_id)
    except ApiError as error:
        return ConsumerGroupHeartbeatResponse(error_code=error.code, error_message=error.message)
    answer: Future[ConsumerGroupHeartbeatResponse] = parts.loop.create_future()
    peer = context.connection
    release = machine.protocols.consumer_heartbeat(
        request,
        client_id=context.client_id or "",
        client_host=f"/{peer.host}",
        api_version=context.api_version,
        answer=settle(answer),
        margin_ms=margin_ms_of(peer),
    )
    if release is not None:
        peer.hold(lambda: release(peer.is_gone))
    parts.groups.arm()
    return answer
