"""FindCoordinator (10), v0-v6: which node coordinates a group or a transactional id.

The internal topic is made at the first question, and the question waits for it. Key type 0 is a group, 1 a
transactional id, 2 (v6) a share partition, `group:topic id:partition`, which only brokers may ask for. v4:
several keys at once (KIP-699). Checks, in order: key type served? may describe the key? internal topic there?
its partition has a leader?

An answer that would name a node whose process may just have ended waits for the next one
(`server/suspected_brokers.py`).
"""

from __future__ import annotations

import logging
import re
from asyncio import Future
from typing import Final

from headrace.base.error_codes import MALFORMED_TEXT, ErrorCode
from headrace.base.errors import ApiError
from headrace.base.futures import then
from headrace.base.internal_topics import OFFSETS_TOPIC, SHARE_STATE_TOPIC, TRANSACTIONS_TOPIC
from headrace.server.authority import REFUSALS, refusal_of
from headrace.server.authorizer import (
    CLUSTER_NAME,
    Operation,
    Resource,
    allows,
    may_act_for_cluster,
    tell_denied,
)
from headrace.server.automatic_topics import automatic_topic
from headrace.server.context import RequestContext
from headrace.server.metadata_cache import addresses
from headrace.wire.schemas.create_topics import CreateTopicsRequest, CreateTopicsResponse
from headrace.wire.schemas.find_coordinator import (
    BATCHED_SINCE,
    SHARE_SINCE,
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

logger = logging.getLogger(__name__)

GROUP: Final = 0
TRANSACTION: Final = 1
SHARE: Final = 2
TOPICS: Final = {GROUP: OFFSETS_TOPIC, TRANSACTION: TRANSACTIONS_TOPIC, SHARE: SHARE_STATE_TOPIC}
RESOURCES: Final = {
    GROUP: Resource.GROUP,
    TRANSACTION: Resource.TRANSACTIONAL_ID,
    SHARE: Resource.CLUSTER,
}
CREATE_TIMEOUT_MS: Final = 30_000
_SHARE_KEY: Final = re.compile(r".+:[A-Za-z0-9_-]{22}:[0-9]+")


def handle(
    context: RequestContext, request: FindCoordinatorRequest
) -> FindCoordinatorResponse | Future[FindCoordinatorResponse]:
    context.peer.release_long_polls()
    parts = context.parts
    topic = TOPICS.get(request.key_type) if _is_served(context, request.key_type) else None
    if topic is None or topic in parts.image.topics_by_name or not _may_find_any(context, request):
        return parts.suspected_brokers.settled(lambda: _answer(context, request), _nodes)

    def not_created(error: BaseException) -> FindCoordinatorResponse:
        logger.warning("%s cannot be made yet: %s", topic, error)
        return _answer(context, request)

    creation = CreateTopicsRequest([automatic_topic(parts.config, topic)], CREATE_TIMEOUT_MS)
    creating: Future[CreateTopicsResponse] = parts.controller.ask(creation)
    # Shared: the topic is made even where this client is gone by then.
    return then(
        creating, lambda _: _answer(context, request), loop=parts.loop, on_error=not_created, shared=True
    )


def _may_find_any(context: RequestContext, request: FindCoordinatorRequest) -> bool:
    """Whether there is anything to make the internal topic for."""
    keys = request.coordinator_keys if context.api_version >= BATCHED_SINCE else [request.key]
    return any(_may_find(context, key, request.key_type) for key in keys)


def _is_served(context: RequestContext, key_type: int) -> bool:
    """Share partitions have coordinators where there are share groups."""
    if key_type == SHARE:
        return context.api_version >= SHARE_SINCE and context.parts.groups.share_groups_enabled
    return key_type in TOPICS


def _may_find(context: RequestContext, key: str, key_type: int) -> bool:
    if key_type == SHARE:
        return may_act_for_cluster(context)
    return allows(context, Operation.DESCRIBE, RESOURCES[key_type], key)


def _home(context: RequestContext, key: str, key_type: int) -> int:
    """The partition of the internal topic that keeps this key."""
    parts = context.parts
    if key_type != SHARE:
        return (parts.groups if key_type == GROUP else parts.transactions).partition_of(key)
    if not _SHARE_KEY.fullmatch(key):
        raise ApiError(ErrorCode.INVALID_REQUEST, MALFORMED_TEXT)
    return parts.share_groups.coordinator.partition_of(key)


def _nodes(response: FindCoordinatorResponse) -> list[int]:
    return [response.node_id, *(each.node_id for each in response.coordinators)]


def _answer(context: RequestContext, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
    many = context.api_version >= BATCHED_SINCE
    keys = request.coordinator_keys if many else [request.key]
    found = [_find(context, key, request.key_type) for key in keys]
    if many:
        return FindCoordinatorResponse(coordinators=found)
    return FindCoordinatorResponse(
        error_code=found[0].error_code,
        error_message=found[0].error_message or ErrorCode.NONE.name,
        node_id=found[0].node_id,
        host=found[0].host,
        port=found[0].port,
    )


def _find(context: RequestContext, key: str, key_type: int) -> Coordinator:
    parts = context.parts
    try:
        if not _is_served(context, key_type):
            raise ApiError(ErrorCode.INVALID_REQUEST, MALFORMED_TEXT)
        if not _may_find(context, key, key_type):
            operation = Operation.CLUSTER_ACTION if key_type == SHARE else Operation.DESCRIBE
            tell_denied(context, operation, RESOURCES[key_type], CLUSTER_NAME if key_type == SHARE else key)
            raise refusal_of(REFUSALS[RESOURCES[key_type]])
        home = _home(context, key, key_type)
        partition = parts.image.topics_by_name[TOPICS[key_type]].partitions[home]
        found = addresses(parts.image, {partition.leader}, context.peer.listener)
    except ApiError as error:
        return Coordinator(key, -1, "", -1, error.code, error.message)
    except KeyError:
        found = []
    if not found:
        return Coordinator(
            key,
            -1,
            "",
            -1,
            ErrorCode.COORDINATOR_NOT_AVAILABLE,
            "the coordinator's partition has no leader yet",
        )
    node_id, host, port, _ = found[0]
    return Coordinator(key, node_id, host, port)
