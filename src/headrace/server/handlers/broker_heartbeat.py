"""BrokerHeartbeat (63), v0-v2: a broker lives, and says what it has replayed and what it wants (KIP-631).

It is unfenced when it has caught up, and may stop when its leaders have moved away. v1 tells of directories
that failed (KIP-858), v2 of ones that shall get no new replicas. The connection it comes over is watched: its
end is the first sign of a process that died.
"""

from asyncio import Future

from headrace.server.context import RequestContext
from headrace.server.forwarding import own_controller
from headrace.wire.schemas.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse


def handle(context: RequestContext, request: BrokerHeartbeatRequest) -> Future[BrokerHeartbeatResponse]:
    answer = own_controller(context).ask(request)
    if context.parts.broker_watch is not None:
        context.parts.broker_watch.note(context.peer.connection, request.broker_id)
    return answer
