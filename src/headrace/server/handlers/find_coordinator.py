"""FindCoordinator (10), v0-v6: which node coordinates a group or a transactional id.

The internal topic is made at the first question, and the question waits for it. Key type 0 is a group, 1 a
transactional id; share groups (2) have no coordinator on this node, and are refused. v4: several keys at once
(KIP-699). Checks, in order: key type served? internal topic there? its partition has a leader?

An answer that would name a node whose process may just have ended waits for the next one (`doubts.py`).
"""

from __future__ import annotations

import logging
from asyncio import Future
from typing import Final

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.base.internal_topics import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from headrace.server.automatic_topics import automatic_topic
from headrace.server.context import RequestContext
from headrace.server.leader_hints import addresses
from headrace.wire.schemas.create_topics import CreateTopicsRequest, CreateTopicsResponse
from headrace.wire.schemas.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

logger = logging.getLogger(__name__)

GROUP: Final = 0
TRANSACTION: Final = 1
TOPICS: Final = {GROUP: OFFSETS_TOPIC, TRANSACTION: TRANSACTIONS_TOPIC}
MANY_KEYS_SINCE: Final = 4
CREATE_TIMEOUT_MS: Final = 30_000


def handle(
    context: RequestContext, request: FindCoordinatorRequest
) -> FindCoordinatorResponse | Future[FindCoordinatorResponse]:
    context.connection.hurry()
    parts = context.parts
    topic = TOPICS.get(request.key_type)
    if topic is None or topic in parts.image.topics_by_name:
        return parts.doubts.settled(lambda: _answer(context, request), _nodes)
    created = parts.loop.create_future()

    def when_created(creating: Future[CreateTopicsResponse]) -> None:
        error = None if creating.cancelled() else creating.exception()
        if error is not None:
            logger.warning("%s cannot be made yet: %s", topic, error)
        if not created.done():
            created.set_result(_answer(context, request))

    creation = CreateTopicsRequest([automatic_topic(parts.config, topic)], CREATE_TIMEOUT_MS)
    parts.controller.create_topics(creation).add_done_callback(when_created)
    return created


def _nodes(response: FindCoordinatorResponse) -> list[int]:
    return [response.node_id, *(each.node_id for each in response.coordinators)]


def _answer(context: RequestContext, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
    many = context.api_version >= MANY_KEYS_SINCE
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
        if key_type not in TOPICS:
            raise ApiError(
                ErrorCode.INVALID_REQUEST, "this node coordinates groups and transactions, not share groups"
            )
        home = (parts.groups if key_type == GROUP else parts.transactions).partition_of(key)
        partition = parts.image.topics_by_name[TOPICS[key_type]].partitions[home]
        found = addresses(parts.image, {partition.leader}, context.connection.listener)
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
