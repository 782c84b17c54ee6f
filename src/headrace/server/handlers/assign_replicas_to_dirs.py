"""AssignReplicasToDirs (73), v0: a broker tells in which directory each of its replicas lies (KIP-858)."""

from asyncio import Future

from headrace.server.context import RequestContext
from headrace.server.own_controller import own_controller
from headrace.wire.schemas.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
)


def handle(
    context: RequestContext, request: AssignReplicasToDirsRequest
) -> Future[AssignReplicasToDirsResponse]:
    return own_controller(context).assign_replicas_to_dirs(request)
