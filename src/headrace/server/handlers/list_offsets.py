"""ListOffsets (2), v1-v11: find an offset by time, or by a named place in the log.

Places are negative timestamps: -1 latest (the high watermark, or the last stable offset for read_committed),
-2 earliest, -3 the record with the largest timestamp (v7), -4 earliest local (v8), -5 last tiered (v9), -6
earliest not yet tiered (v11). Of a topic that is not tiered -4 is the earliest, -5 and -6 are none. A time
later than every record finds nothing: offset -1. A record found beyond what the reader may see counts as
none. v4: leader epochs.

Where only the remote tier can tell, a thread asks it, and the answer waits: as long as the request says
(v10), or `remote.list.offsets.request.timeout.ms`; then that partition has REQUEST_TIMED_OUT. Unlike in
Kafka, whose -3 looks at the local part alone, the record with the largest timestamp is that of both tiers.

A leader that has just been elected may not know yet how far its predecessor's high watermark was. Until its
own has reached the start of its epoch, a consumer gets OFFSET_NOT_AVAILABLE (before v5 LEADER_NOT_AVAILABLE)
where the answer depends on it: else the end of the log would go back (KIP-207). The same holds for its start,
until it has read what its predecessor removed from the remote tier. That takes milliseconds, so it is waited
for before it is refused: clients show the error to their users.

Checks, in order: isolation level known? partition named once? place known to this version? partition known?
leader epoch ours? leader here (a debugging client, -2, may ask any replica)?
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Iterator
from typing import Final, NamedTuple, TypeAlias

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.base.ids import TopicPartition
from headrace.log.unified_log import TimestampAndOffset, UnifiedLog
from headrace.replication.partition import READ_COMMITTED, Partition
from headrace.server.context import RequestContext
from headrace.server.long_requests import SLICE_ITEMS, Slices, awaited
from headrace.server.request_pieces import answered_in_pieces, split
from headrace.wire.schemas.list_offsets import (
    LEADER_EPOCH_SINCE,
    OFFSET_NOT_AVAILABLE_SINCE,
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL: Final = -4
LATEST_TIERED: Final = -5
EARLIEST_PENDING_UPLOAD: Final = -6

# The first version of the request that knows the place.
_SINCE: Final = {MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, EARLIEST_PENDING_UPLOAD: 11}

_Named: TypeAlias = Counter[tuple[str, int]]
"""How often the request names a partition."""

NOT_FOUND: Final = (-1, -1)
CONSUMER: Final = -1
DEBUGGING: Final = -2

_TIMEOUT: Final = "remote.list.offsets.request.timeout.ms"

START_WAIT_MS: Final = 500
"""As long as a fetch waits for records; whoever sends requests one behind the other waits with it."""

logger = logging.getLogger(__name__)


class _OffsetLookup(NamedTuple):
    """What a reader of one kind asks of a partition that was found."""

    context: RequestContext
    partition: Partition
    log: UnifiedLog
    is_consumer: bool
    query: ListOffsetsPartition
    end: int


class _Pending(NamedTuple):
    """An answer that the remote tier has to give."""

    lookup: _OffsetLookup
    found: asyncio.Future[TimestampAndOffset | None]
    result: ListOffsetsPartitionResponse


def handle(
    context: RequestContext, request: ListOffsetsRequest
) -> ListOffsetsResponse | asyncio.Future[ListOffsetsResponse]:
    if request.replica_id == CONSUMER and context.parts.remote_log_offset_reader is not None:
        unsure = _unsure_of_start(context, request)
        if unsure:
            return context.parts.loop.create_task(_answer_when_sure(context, request, unsure))
    return _answer(context, request)


def handle_in_slices(context: RequestContext, request: ListOffsetsRequest) -> Slices[ListOffsetsResponse]:
    """The same of many partitions."""
    asks_for_start = request.replica_id == CONSUMER and context.parts.remote_log_offset_reader is not None
    named: _Named = Counter()
    unsure: list[Partition] = []
    for piece, _ in split(request, ("topics", "partitions"), SLICE_ITEMS):
        named.update(_names(piece))
        if asks_for_start:
            unsure += _unsure_of_start(context, piece)
        yield
    if unsure:
        yield _until_sure(context, unsure)
    pending: list[_Pending] = []
    response = yield from answered_in_pieces(
        request, "topics.partitions", lambda piece: _look_up(context, piece, named, pending)
    )
    if pending:
        response = yield from awaited(_wait(context, request, response, pending))
    return response


def _unsure_of_start(context: RequestContext, request: ListOffsetsRequest) -> list[Partition]:
    """Partitions that do not know yet where they start, which a consumer asks about."""
    asked = (
        context.parts.replica_manager.get(TopicPartition(topic.name, query.partition_index))
        for topic in request.topics
        for query in topic.partitions
        if _depends_on_start(query.timestamp)
    )
    return [partition for partition in asked if partition is not None and _is_unsure(partition)]


def _is_unsure(partition: Partition) -> bool:
    return partition.is_leader and not partition.knows_start


async def _answer_when_sure(
    context: RequestContext, request: ListOffsetsRequest, unsure: list[Partition]
) -> ListOffsetsResponse:
    await _until_sure(context, unsure)
    answer = _answer(context, request)
    return await answer if isinstance(answer, asyncio.Future) else answer


def _until_sure(context: RequestContext, unsure: list[Partition]) -> asyncio.Future[bool]:
    def attempt(expired: bool) -> bool | None:
        return True if expired or not any(_is_unsure(each) for each in unsure) else None

    return context.parts.purgatory.watch([each.topic_partition for each in unsure], attempt, START_WAIT_MS)


def _answer(
    context: RequestContext, request: ListOffsetsRequest
) -> ListOffsetsResponse | asyncio.Future[ListOffsetsResponse]:
    pending: list[_Pending] = []
    response = _look_up(context, request, Counter(_names(request)), pending)
    return _wait(context, request, response, pending) if pending else response


def _names(request: ListOffsetsRequest) -> Iterator[tuple[str, int]]:
    return ((topic.name, query.partition_index) for topic in request.topics for query in topic.partitions)


def _look_up(
    context: RequestContext, request: ListOffsetsRequest, named: _Named, pending: list[_Pending]
) -> ListOffsetsResponse:
    """What is known now; the rest is `pending`."""
    topics = []
    for topic in request.topics:
        # A partition that is named twice is answered once: which of its queries would the answer be to?
        queries = {query.partition_index: query for query in topic.partitions}.values()
        results = []
        for query in queries:
            result = ListOffsetsPartitionResponse(query.partition_index)
            results.append(result)
            try:
                if named[topic.name, query.partition_index] > 1:
                    raise ApiError(ErrorCode.INVALID_REQUEST)
                _look(_find(context, request, topic.name, query), result, pending)
            except ApiError as error:
                result.error_code = error.code
        topics.append(ListOffsetsTopicResponse(topic.name, results))
    return ListOffsetsResponse(topics=topics)


def _find(
    context: RequestContext, request: ListOffsetsRequest, topic: str, query: ListOffsetsPartition
) -> _OffsetLookup:
    if request.isolation_level not in (0, READ_COMMITTED):
        raise ApiError(ErrorCode.INVALID_REQUEST)
    if query.timestamp < 0 and context.api_version < _SINCE.get(query.timestamp, 0):
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION)
    if query.timestamp < EARLIEST_PENDING_UPLOAD:
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION, f"{query.timestamp} names no place in a log")
    partition = context.parts.replica_manager.find(topic, query.partition_index)
    if request.replica_id == DEBUGGING:
        log = partition.following_log(query.current_leader_epoch)
    else:
        log = partition.leading_log(query.current_leader_epoch)
    is_consumer = request.replica_id == CONSUMER
    end = partition.end_for_consumer(request.isolation_level) if is_consumer else log.log_end_offset
    return _OffsetLookup(context, partition, log, is_consumer, query, end)


def _look(lookup: _OffsetLookup, result: ListOffsetsPartitionResponse, pending: list[_Pending]) -> None:
    """Answer, or have the remote tier asked first."""
    timestamp, log = lookup.query.timestamp, lookup.log
    if lookup.is_consumer and _depends_on_start(timestamp) and not lookup.partition.knows_start:
        raise _not_available(lookup.context.api_version)
    if timestamp >= 0 or timestamp == MAX_TIMESTAMP:
        remote = lookup.context.parts.remote_log_offset_reader
        found = None
        if remote is not None and timestamp >= 0:
            found = remote.find(log, timestamp)
        elif remote is not None and log.log_start_offset < log.local_start_offset:
            local = log.offset_of_max_timestamp()
            found = remote.largest(log, -1 if local is None else local.timestamp)
        if found is not None:
            pending.append(_Pending(lookup, found, result))
        else:
            _tell(lookup, result, _local_record(log, timestamp))
    else:
        _tell(lookup, result, (-1, _place(lookup)))


def _wait(
    context: RequestContext,
    request: ListOffsetsRequest,
    response: ListOffsetsResponse,
    pending: list[_Pending],
) -> asyncio.Future[ListOffsetsResponse]:
    waiting, key = context.parts.purgatory, object()

    def attempt(expired: bool) -> ListOffsetsResponse | None:
        if not expired and not all(each.found.done() for each in pending):
            return None
        for each in pending:
            _take(each)
        return response

    for each in pending:
        each.found.add_done_callback(lambda _: waiting.notify(key))
    config = context.parts.config
    wait_ms = request.timeout_ms if request.timeout_ms > 0 else config.int(_TIMEOUT)
    answer = waiting.watch([key], attempt, wait_ms)
    answer.add_done_callback(lambda _: _give_up(pending))
    return answer


def _give_up(pending: list[_Pending]) -> None:
    """Nobody waits any more for what the remote tier has not told by now."""
    for each in pending:
        each.found.cancel()


def _take(each: _Pending) -> None:
    """The remote tier's answer, or none in time. Where it has no such record the local part is asked."""
    result, log = each.result, each.lookup.log
    try:
        if not each.found.done() or each.found.cancelled():
            raise ApiError(ErrorCode.REQUEST_TIMED_OUT)
        failure = each.found.exception()
        if failure is not None:
            logger.error("%s: an offset cannot be looked up in the remote tier: %s", log, failure)
            raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR)
        record = each.found.result()
        found = (record.timestamp, record.offset) if record is not None else None
        _tell(each.lookup, result, found or _local_record(log, each.lookup.query.timestamp))
    except ApiError as error:
        result.error_code = error.code


def _tell(lookup: _OffsetLookup, result: ListOffsetsPartitionResponse, found: tuple[int, int]) -> None:
    """(timestamp, offset) as this reader may hear of it."""
    timestamp, log, version = lookup.query.timestamp, lookup.log, lookup.context.api_version
    is_record = timestamp >= 0 or timestamp == MAX_TIMESTAMP
    found_timestamp, offset = NOT_FOUND if is_record and found[1] >= lookup.end else found
    if lookup.is_consumer and lookup.partition.is_catching_up and _depends_on_end(timestamp, offset):
        raise _not_available(version)
    result.timestamp, result.offset = found_timestamp, offset
    if version >= LEADER_EPOCH_SINCE and offset >= 0:
        result.leader_epoch = (
            log.leader_epoch_cache.latest_epoch
            if offset >= lookup.end
            else log.leader_epoch_cache.epoch_for_offset(offset)
        )


def _not_available(version: int) -> ApiError:
    is_known = version >= OFFSET_NOT_AVAILABLE_SINCE
    return ApiError(ErrorCode.OFFSET_NOT_AVAILABLE if is_known else ErrorCode.LEADER_NOT_AVAILABLE)


def _depends_on_start(timestamp: int) -> bool:
    """Whether the answer would be another one if the log started elsewhere."""
    return timestamp >= 0 or timestamp in (EARLIEST, MAX_TIMESTAMP)


def _depends_on_end(timestamp: int, offset: int) -> bool:
    """Whether the answer would be another one if consumers saw more of the log."""
    return timestamp == LATEST or (offset < 0 and (timestamp >= 0 or timestamp == MAX_TIMESTAMP))


def _place(lookup: _OffsetLookup) -> int:
    """The offset of a named place."""
    timestamp, log = lookup.query.timestamp, lookup.log
    if timestamp == LATEST:
        return lookup.end
    if timestamp == EARLIEST:
        return log.log_start_offset
    if timestamp == EARLIEST_LOCAL:
        return log.local_start_offset
    if not log.config.remote_storage_enable:
        return NOT_FOUND[1]
    if timestamp == LATEST_TIERED:
        # Also where that has been removed since; copies that another lineage had are none of this log's.
        return max(log.copied_to, min(log.removed_to, log.log_start_offset)) - 1
    if log.tiered_to is not None:
        return max(log.tiered_to, log.log_start_offset)
    # Nothing has been copied yet; or it has, and this leader does not know what.
    return log.log_start_offset if log.local_start_offset == log.log_start_offset else NOT_FOUND[1]


def _local_record(log: UnifiedLog, timestamp: int) -> tuple[int, int]:
    record = (
        log.offset_of_max_timestamp() if timestamp == MAX_TIMESTAMP else log.offset_for_timestamp(timestamp)
    )
    return NOT_FOUND if record is None else (record.timestamp, record.offset)
