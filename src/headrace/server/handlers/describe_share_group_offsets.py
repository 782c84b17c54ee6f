"""DescribeShareGroupOffsets (90), v0-v1: where share groups stand (KIP-932).

Checks, in order, for each group: share groups offered? coordinator here? Without topics all of the group's
partitions are told. Of one that the group has not read the start offset is -1. v1: the lag (KIP-1226), which
is what lies behind the start offset and is not done; -1 where it is not known.
"""

from __future__ import annotations

from asyncio import Future
from collections.abc import Callable

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.base.futures import completer
from headrace.base.ids import NO_TOPIC_ID, TopicPartition
from headrace.coordinators.drivers.persister import Results, StateSummary
from headrace.coordinators.share.share_coordinator_shard import UNINITIALIZED, SharePartitionKey
from headrace.server.authorizer import Operation, Resource, allows, tell_denied
from headrace.server.context import RequestContext
from headrace.server.share.partition_metadata_client import EndOffsets
from headrace.wire.schemas.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)

Wanted = dict[str, list[int]]


def handle(
    context: RequestContext, request: DescribeShareGroupOffsetsRequest
) -> DescribeShareGroupOffsetsResponse | Future[DescribeShareGroupOffsetsResponse]:
    response = DescribeShareGroupOffsetsResponse(
        groups=[DescribeShareGroupOffsetsResponseGroup(each.group_id) for each in request.groups]
    )
    answer: Future[DescribeShareGroupOffsetsResponse] = context.parts.loop.create_future()
    complete = completer(answer)
    left = len(request.groups)

    def one_done() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            complete(response)

    if not left:
        return response
    for asked, group in zip(request.groups, response.groups, strict=True):
        _Describing(context, asked, group, one_done).run()
    return answer


class _Describing:
    """One group of the request."""

    def __init__(
        self,
        context: RequestContext,
        asked: DescribeShareGroupOffsetsRequestGroup,
        group: DescribeShareGroupOffsetsResponseGroup,
        done: Callable[[], None],
    ) -> None:
        self._context = context
        self._asked = asked
        self._group = group
        self._done = done

    def run(self) -> None:
        try:
            wanted = self._wanted()
        except ApiError as error:
            self._group.error_code, self._group.error_message = error.code, error.message
            self._done()
            return
        names = self._context.parts.image.topics_by_name
        keys = {
            SharePartitionKey(self._group.group_id, names[name].id, index): -1
            for name, indexes in wanted.items()
            if name in names
            for index in indexes
            if index in names[name].partitions
        }
        share = self._context.parts.share_groups
        share.persister.read_summaries(
            keys,
            lambda summaries: share.end_offsets.list_latest_offsets(
                _named(self._context, summaries), lambda ends: self._tell(wanted, summaries, ends)
            ),
        )

    def _wanted(self) -> Wanted:
        context = self._context
        groups = context.parts.groups
        if not groups.share_groups_enabled:
            raise ApiError(ErrorCode.UNSUPPORTED_VERSION)
        shard = groups.shard_for(self._asked.group_id)
        if self._asked.topics is not None:
            return {each.topic_name: each.partitions for each in self._asked.topics if self._may_see(each)}
        wanted: Wanted = {}
        group = shard.share.groups.get(self._asked.group_id)
        for (_, index), name in sorted(group.with_state().items()) if group is not None else ():
            if allows(context, Operation.DESCRIBE, Resource.TOPIC, name):
                wanted.setdefault(name, []).append(index)
        return wanted

    def _may_see(self, topic: object) -> bool:
        name: str = topic.topic_name  # type: ignore[attr-defined]
        if allows(self._context, Operation.DESCRIBE, Resource.TOPIC, name):
            return True
        tell_denied(self._context, Operation.DESCRIBE, Resource.TOPIC, name)
        code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        partitions = [
            DescribeShareGroupOffsetsResponsePartition(index, error_code=code, error_message=code.name)
            for index in topic.partitions  # type: ignore[attr-defined]
        ]
        self._group.topics.append(DescribeShareGroupOffsetsResponseTopic(name, partitions=partitions))
        return False

    def _tell(self, wanted: Wanted, summaries: Results, ends: EndOffsets) -> None:
        names = self._context.parts.image.topics_by_name
        for name, indexes in wanted.items():
            topic_id = names[name].id if name in names else NO_TOPIC_ID
            partitions = [
                _partition(
                    index,
                    summaries.get(SharePartitionKey(self._group.group_id, topic_id, index)),
                    ends.get(TopicPartition(name, index)),
                )
                for index in indexes
            ]
            self._group.topics.append(DescribeShareGroupOffsetsResponseTopic(name, topic_id, partitions))
        self._done()


def _named(context: RequestContext, summaries: Results) -> list[TopicPartition]:
    """The partitions whose lag can be told."""
    ids = context.parts.image.topics_by_id
    return [
        TopicPartition(ids[key.topic_id].name, key.partition)  # type: ignore[index]
        for key, summary in summaries.items()
        if isinstance(summary, StateSummary) and summary.start_offset != UNINITIALIZED
        if key.topic_id in ids
    ]


def _partition(
    index: int, summary: object, end_offset: int | None
) -> DescribeShareGroupOffsetsResponsePartition:
    if isinstance(summary, ErrorCode):
        return DescribeShareGroupOffsetsResponsePartition(
            index, error_code=summary, error_message=summary.name
        )
    if not isinstance(summary, StateSummary) or summary.start_offset == UNINITIALIZED:
        return DescribeShareGroupOffsetsResponsePartition(index, UNINITIALIZED, 0)
    told = DescribeShareGroupOffsetsResponsePartition(index, summary.start_offset, summary.leader_epoch)
    if end_offset is not None and summary.delivery_complete_count >= 0:
        told.lag = max(0, end_offset - summary.start_offset - summary.delivery_complete_count)
    return told
