"""DeleteTopics (20), v1-v6: remove topics, by name or (v6) by id.

Each topic succeeds or fails by itself; one that is given twice is not removed. TOPIC_DELETION_DISABLED where
delete.topic.enable is false.
"""

from asyncio import Future

from headrace.server.context import RequestContext
from headrace.wire.schemas.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse


def handle(context: RequestContext, request: DeleteTopicsRequest) -> Future[DeleteTopicsResponse]:
    return context.parts.controller.delete_topics(request)
