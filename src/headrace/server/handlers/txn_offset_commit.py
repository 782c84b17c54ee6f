"""TxnOffsetCommit (28), v0-v6: commit a group's offsets as part of a transaction.

They are pending in the group's partition until the transaction's marker comes there, and count then. Answered
when they are in the log. v3: who commits, so that a member that lost its partitions is refused (KIP-447). v5:
the group's partition is added to the transaction by this request (KIP-890); before, AddOffsetsToTxn has done
so, and the coordinator is asked whether it has. v6: topics by id, and the errors STALE_MEMBER_EPOCH and
GROUP_ID_NOT_FOUND (KIP-1319).

Checks, in order: topic and partition known? group id given,
and its coordinator here? member, instance and generation right, where they are given? metadata within
`offset.metadata.max.bytes`? partition part of the transaction? then the log's: the producer's epoch.
"""

from asyncio import Future
from typing import Final

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.base.futures import completer
from headrace.base.ids import TopicId, TopicPartition
from headrace.base.internal_topics import OFFSETS_TOPIC
from headrace.base.producer_id_and_epoch import ProducerIdAndEpoch
from headrace.coordinators.group.offset_metadata_manager import (
    OffsetToCommit,
    check_batch_size,
    within_metadata_limit,
)
from headrace.coordinators.group.shard import GroupCoordinatorShard
from headrace.log.producer_state_manager import NO_OFFSET
from headrace.server.context import RequestContext
from headrace.server.long_requests import Slices, awaited
from headrace.server.request_pieces import answered_in_pieces
from headrace.server.txn_partitions import Errors
from headrace.wire.schemas.offset_commit import MEMBER_EPOCH_SINCE
from headrace.wire.schemas.txn_offset_commit import (
    TOPIC_ID_SINCE,
    TRANSACTION_ABORTABLE_SINCE,
    TRANSACTION_V2_SINCE,
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

_Wanted = tuple[TxnOffsetCommitResponsePartition, OffsetToCommit]

# What stands in the way of asking the coordinator will pass: the client asks again.
_PASSING: Final = frozenset(
    {ErrorCode.NETWORK_EXCEPTION, ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE}
)


_Answer = TxnOffsetCommitResponse | Future[TxnOffsetCommitResponse]


def handle(context: RequestContext, request: TxnOffsetCommitRequest) -> _Answer:
    wanted: list[_Wanted] = []
    return _decide(context, request, _sort_out_all(context, request, wanted), wanted)


def handle_in_slices(
    context: RequestContext, request: TxnOffsetCommitRequest
) -> Slices[TxnOffsetCommitResponse]:
    """The same of many partitions, which are still written together."""
    wanted: list[_Wanted] = []
    response = yield from answered_in_pieces(
        request, "topics.partitions", lambda piece: _sort_out_all(context, piece, wanted)
    )
    answer: TxnOffsetCommitResponse = yield from awaited(
        _decide(context, request, response, wanted, is_long=True)
    )
    return answer


def _decide(
    context: RequestContext,
    request: TxnOffsetCommitRequest,
    response: TxnOffsetCommitResponse,
    wanted: list[_Wanted],
    *,
    is_long: bool = False,
) -> _Answer:
    if not wanted:
        return response
    try:
        if not request.group_id:
            raise ApiError(ErrorCode.INVALID_GROUP_ID)
        shard = context.parts.groups.shard_for(request.group_id)
        _check_member(context, request, shard, wanted)
        if is_long:
            home = context.parts.replica_manager.find(*_home(context, request))
            check_batch_size(request.group_id, wanted, home.local_log().config.max_message_bytes)
    except ApiError as error:
        return _failed(response, wanted, error.code)
    context.parts.groups.arm()
    small = within_metadata_limit(wanted, shard.limits.offset_metadata_bytes_max)
    return _commit(context, request, response, small) if small else response


def _home(context: RequestContext, request: TxnOffsetCommitRequest) -> TopicPartition:
    """The partition that keeps the group's offsets."""
    return TopicPartition(OFFSETS_TOPIC, context.parts.groups.partition_of(request.group_id))


def _sort_out_all(
    context: RequestContext, request: TxnOffsetCommitRequest, wanted: list[_Wanted]
) -> TxnOffsetCommitResponse:
    return TxnOffsetCommitResponse(topics=[_sort_out(context, topic, wanted) for topic in request.topics])


def _sort_out(
    context: RequestContext, topic: TxnOffsetCommitRequestTopic, wanted: list[_Wanted]
) -> TxnOffsetCommitResponseTopic:
    """The topic's part of the reply; what can be committed goes to `wanted`."""
    by_id = context.api_version >= TOPIC_ID_SINCE
    known = context.parts.image
    image = known.topics_by_id.get(TopicId(topic.topic_id)) if by_id else known.topics_by_name.get(topic.name)
    answer = TxnOffsetCommitResponseTopic(topic.name, topic.topic_id)
    for partition in topic.partitions:
        result = TxnOffsetCommitResponsePartition(partition.partition_index)
        answer.partitions.append(result)
        if image is None and by_id:
            result.error_code = ErrorCode.UNKNOWN_TOPIC_ID
        elif image is None or partition.partition_index not in image.partitions:
            result.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        else:
            wanted.append((result, OffsetToCommit.from_request(image, partition)))
    return answer


def _check_member(
    context: RequestContext,
    request: TxnOffsetCommitRequest,
    shard: GroupCoordinatorShard,
    wanted: list[_Wanted],
) -> None:
    error = shard.offsets.validate_offset_commit(
        request.group_id,
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        generation=request.generation_id,
        api_version=MEMBER_EPOCH_SINCE,
        partitions=((commit.topic_id, commit.topic_partition.partition) for _, commit in wanted),
        transactional=True,
    )
    tells_apart = context.api_version >= TOPIC_ID_SINCE
    # Before v6 there is no word for a member epoch that is over: to the client it is a generation.
    if error is ErrorCode.STALE_MEMBER_EPOCH and not tells_apart:
        error = ErrorCode.ILLEGAL_GENERATION
    if error is ErrorCode.ILLEGAL_GENERATION and tells_apart and not shard.exists(request.group_id):
        error = ErrorCode.GROUP_ID_NOT_FOUND
    if error is not ErrorCode.NONE:
        raise ApiError(error)


def _commit(
    context: RequestContext,
    request: TxnOffsetCommitRequest,
    response: TxnOffsetCommitResponse,
    wanted: list[_Wanted],
) -> Future[TxnOffsetCommitResponse]:
    parts = context.parts
    home = _home(context, request)
    log = parts.replica_manager.find(*home).leading_log()
    owner = ProducerIdAndEpoch(request.producer_id, request.producer_epoch)
    future: Future[TxnOffsetCommitResponse] = parts.loop.create_future()
    complete = completer(future)

    def done(error: ErrorCode) -> None:
        complete(_failed(response, wanted, _told(context, error)))

    def write() -> None:
        commits = [commit for _, commit in wanted]
        parts.groups.commit_in_transaction(request.group_id, commits, ProducerIdAndEpoch(*owner), done)

    def verified(errors: Errors) -> None:
        if error := errors[home]:
            done(error)
        else:
            write()

    state = log.producer_state_manager.producers.get(owner.producer_id)
    is_open = state is not None and state.epoch == owner.epoch and state.txn_first_offset != NO_OFFSET
    adds = context.api_version >= TRANSACTION_V2_SINCE
    if is_open or not (adds or parts.config.bool("transaction.partition.verification.enable")):
        write()
    else:
        asked = {home: log.producer_state_manager}
        parts.txn_partitions.ask(request.transactional_id, owner, asked, adds=adds, done=verified)
    return future


def _told(context: RequestContext, error: ErrorCode) -> ErrorCode:
    """What a client of this version is told."""
    if error in (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE):
        return ErrorCode.INVALID_COMMIT_OFFSET_SIZE
    if error in _PASSING or error is ErrorCode.CONCURRENT_TRANSACTIONS:
        is_known = error is ErrorCode.CONCURRENT_TRANSACTIONS and context.api_version >= TRANSACTION_V2_SINCE
        return error if is_known else ErrorCode.COORDINATOR_NOT_AVAILABLE
    if error is ErrorCode.TRANSACTION_ABORTABLE and context.api_version < TRANSACTION_ABORTABLE_SINCE:
        return ErrorCode.INVALID_TXN_STATE
    if error is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return error


def _failed(
    response: TxnOffsetCommitResponse, wanted: list[_Wanted], error: ErrorCode
) -> TxnOffsetCommitResponse:
    for result, _ in wanted:
        result.error_code = error
    return response
