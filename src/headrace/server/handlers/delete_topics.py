"""DeleteTopics (20), v1-v6: remove topics, by name or (v6) by id.

Each topic succeeds or fails by itself; one that is given twice is not removed. TOPIC_DELETION_DISABLED where
delete.topic.enable is false. Names of older versions are put where the newest has them: the controller may be
another node, which is asked in that.
"""

from asyncio import Future

from headrace.server.context import RequestContext
from headrace.wire.schemas.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState


def handle(context: RequestContext, request: DeleteTopicsRequest) -> Future[DeleteTopicsResponse]:
    if request.topic_names:
        topics = [DeleteTopicState(name=name) for name in request.topic_names]
        request = DeleteTopicsRequest(topics=topics + request.topics, timeout_ms=request.timeout_ms)
    return context.controller.delete_topics(request)
