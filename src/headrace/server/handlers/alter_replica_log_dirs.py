"""AlterReplicaLogDirs (34), v1-v2: move replicas of this broker to other folders of its own (KIP-113).

Answered when the moves have begun: DescribeLogDirs shows how far each is, as a future replica. Checks, of
each folder: one of this broker's? online? of each replica: here? One that is not (yet) here gets
REPLICA_NOT_AVAILABLE, and is made in that folder should it come.
"""

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.base.ids import TopicPartition
from headrace.server.context import RequestContext
from headrace.server.long_requests import SLICE_ITEMS, Slices
from headrace.server.request_pieces import split
from headrace.wire.schemas.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)

_Results = dict[str, AlterReplicaLogDirTopicResult]


def handle(context: RequestContext, request: AlterReplicaLogDirsRequest) -> AlterReplicaLogDirsResponse:
    results: _Results = {}
    _move_all(context, request, results)
    return AlterReplicaLogDirsResponse(results=list(results.values()))


def handle_in_slices(
    context: RequestContext, request: AlterReplicaLogDirsRequest
) -> Slices[AlterReplicaLogDirsResponse]:
    """The same of many replicas."""
    results: _Results = {}
    for piece, _ in split(request, ("dirs", "topics", "partitions"), SLICE_ITEMS):
        _move_all(context, piece, results)
        yield
    return AlterReplicaLogDirsResponse(results=list(results.values()))


def _move_all(context: RequestContext, request: AlterReplicaLogDirsRequest, results: _Results) -> None:
    for folder in request.dirs:
        for topic in folder.topics:
            result = results.setdefault(topic.name, AlterReplicaLogDirTopicResult(topic.name))
            for index in topic.partitions:
                code = _move(context, TopicPartition(topic.name, index), folder.path)
                result.partitions.append(AlterReplicaLogDirPartitionResult(index, code))


def _move(context: RequestContext, where: TopicPartition, path: str) -> ErrorCode:
    try:
        context.parts.replica_alter_log_dirs_manager.move(where, path)
    except ApiError as error:
        return error.code
    return ErrorCode.NONE
