"""ConsumerGroupHeartbeat (68), v0-v1: join, stay in and leave a consumer group (KIP-848).

The protocol's only request of its own. Checks, in order: the protocol offered (`group.version`,
`group.coordinator.rebalance.protocols`)? request well formed?
assignor offered? pattern readable? coordinator here? group known (joining makes it)? room in it? member and
instance known, epoch its own? The reply gives a member its epoch, its partitions when they changed, and when
to come back. It leaves once what it says is in the log. v1: patterns (RE2), and ids made by the client
(KIP-1082). A pattern finds only topics that the member may describe.

A reply without news is kept until there is some, or until it is nearly time for the next heartbeat
(`coordinators/group/held_heartbeats.py`). It gives way to the next request on its connection.
"""

from asyncio import Future

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.base.futures import completer
from headrace.coordinators.group.consumer.subscription import MayDescribe, describes_all
from headrace.coordinators.group.group_config_manager import CONSUMER_PROTOCOL_DISABLED
from headrace.coordinators.group.held_heartbeats import hold_margin_ms_of
from headrace.server.authorizer import Operation, Resource, is_configured
from headrace.server.context import RequestContext
from headrace.wire.schemas.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)


def handle(
    context: RequestContext, request: ConsumerGroupHeartbeatRequest
) -> ConsumerGroupHeartbeatResponse | Future[ConsumerGroupHeartbeatResponse]:
    parts = context.parts
    if not parts.groups.consumer_protocol_enabled:
        return ConsumerGroupHeartbeatResponse(
            error_code=ErrorCode.UNSUPPORTED_VERSION, error_message=CONSUMER_PROTOCOL_DISABLED
        )
    try:
        shard = parts.groups.shard_for(request.group_id)
    except ApiError as error:
        return ConsumerGroupHeartbeatResponse(error_code=error.code, error_message=error.message)
    answer: Future[ConsumerGroupHeartbeatResponse] = parts.loop.create_future()
    peer = context.peer
    release = shard.group_metadata_manager.consumer_group_heartbeat(
        request,
        client_id=context.client_id or "",
        client_host=f"/{peer.host}",
        api_version=context.api_version,
        answer=completer(answer),
        margin_ms=hold_margin_ms_of(peer.software_name, peer.software_version),
        may_describe=_may_describe(context),
    )
    if release is not None:
        peer.hold(lambda: release(peer.is_gone))
    parts.groups.arm()
    return answer


def _may_describe(context: RequestContext) -> MayDescribe:
    authorizer, peer = context.parts.authorizer, context.peer
    if not is_configured(authorizer):
        return describes_all
    principal, host = peer.principal, peer.host
    return lambda name: authorizer.allows(principal, host, Operation.DESCRIBE, Resource.TOPIC, name)
