"""CreateTopics (19), v2-v7: make topics.

Each topic succeeds or fails by itself. Checks, in order: too many partitions in one request
(POLICY_VIOLATION for all)? named twice? name valid, free, and no collision of . and _? settings valid?
partitions and replicas, given or placed? v4 takes -1 for the defaults of the cluster (KIP-464), v5 answers
with the settings of the new topic (KIP-525), v7 with its id. Answered when the topics are committed and
this node serves its part of them.
"""

from asyncio import Future

from headrace.server.context import RequestContext
from headrace.wire.schemas.create_topics import CreateTopicsRequest, CreateTopicsResponse


def handle(context: RequestContext, request: CreateTopicsRequest) -> Future[CreateTopicsResponse]:
    return context.controller.create_topics(request)
