"""StreamsGroupHeartbeat (88), v0: join, stay in and leave a streams group (KIP-1071).

Checks, in order: the protocol offered (`streams.version`, `group.coordinator.rebalance.protocols`)? topics
of the topology valid, not Kafka's own, and may the member describe them? request well formed, and without
what Apache Kafka does not support yet? coordinator here? group known (joining makes it)? room in it? member
known, epoch its own? topology the group's? The reply gives a member its epoch, its tasks when they changed,
the status of its application, and who answers questions about which partitions. It leaves once what it says
is in the log. Missing internal topics are made meanwhile, as far as the member may
(`server/streams_internal_topics.py`).
"""

from asyncio import Future

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.base.futures import completer
from headrace.base.internal_topics import INTERNAL_TOPICS
from headrace.coordinators.group.streams.heartbeat_request import validate_heartbeat
from headrace.coordinators.group.streams.streams_group_manager import StreamsGroupHeartbeatResult
from headrace.metadata.topic_names import check_name
from headrace.server.authorizer import Operation, Resource, allows, tell_denied
from headrace.server.context import RequestContext
from headrace.wire.schemas.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    Topology,
)

# What could not be made is tried again after so many heartbeat intervals.
INTERVALS_TO_RETRY = 2


def handle(
    context: RequestContext, request: StreamsGroupHeartbeatRequest
) -> StreamsGroupHeartbeatResponse | Future[StreamsGroupHeartbeatResponse]:
    parts = context.parts
    if not parts.groups.streams_groups_enabled:
        return StreamsGroupHeartbeatResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    try:
        if request.topology is not None:
            _check_topics(context, request.topology)
        validate_heartbeat(request)
        shard = parts.groups.shard_for(request.group_id)
    except ApiError as error:
        return StreamsGroupHeartbeatResponse(error_code=error.code, error_message=error.message or None)
    future: Future[StreamsGroupHeartbeatResponse] = parts.loop.create_future()
    complete = completer(future)

    def answer(result: StreamsGroupHeartbeatResult) -> None:
        if result.creatable_topics:
            config = shard.streams.group_config(request.group_id)
            retry_ms = INTERVALS_TO_RETRY * config.heartbeat_interval_ms
            parts.streams_internal_topics.make(
                context, result.creatable_topics, result.response, retry_ms=retry_ms
            )
        complete(result.response)

    shard.streams.heartbeat(
        request,
        client_id=context.client_id or "",
        client_host=f"/{context.peer.host}",
        answer=answer,
    )
    parts.groups.arm()
    return future


def _check_topics(context: RequestContext, topology: Topology) -> None:
    """ApiError where the topology names topics that it may not."""
    names = list(dict.fromkeys(_names(topology)))
    if prohibited := [name for name in names if name in INTERNAL_TOPICS]:
        raise ApiError(
            ErrorCode.STREAMS_INVALID_TOPOLOGY,
            f"Use of Kafka internal topics {','.join(prohibited)} in a Kafka Streams topology is prohibited.",
        )
    if invalid := [name for name in names if not _is_valid(name)]:
        raise ApiError(
            ErrorCode.STREAMS_INVALID_TOPOLOGY,
            f"Topic names {','.join(invalid)} are not valid topic names.",
        )
    for name in names:
        if not allows(context, Operation.DESCRIBE, Resource.TOPIC, name):
            tell_denied(context, Operation.DESCRIBE, Resource.TOPIC, name)
            raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)


def _names(topology: Topology) -> list[str]:
    names = []
    for each in topology.subtopologies:
        names += each.source_topics
        names += each.repartition_sink_topics
        names += [topic.name for topic in (*each.repartition_source_topics, *each.state_changelog_topics)]
    return names


def _is_valid(name: str) -> bool:
    try:
        check_name(name)
    except ApiError:
        return False
    return True
