"""OffsetFetch (9), v1-v10: what groups have committed.

No topics (null, from v2 on) asks for all. A partition without a commit, and every partition of an unknown
group, has offset -1 and no error; so has one whose commit was to an older topic of the same name. v8: several
groups at once (KIP-709). v9: members of the consumer protocol name themselves. v10: topics by id; a topic
that is gone gets UNKNOWN_TOPIC_ID. v7: who wants stable offsets (KIP-447) gets UNSTABLE_OFFSET_COMMIT where
an open transaction has committed too. The answer leaves once what it says is replicated: a commit that was
just made, or found by a coordinator that just took over, may yet be lost; and once the followers have shown
that nobody else coordinates by now: one that was replaced, and has not heard of it, would send the group
back. Checks, in order: coordinator here? member of a consumer group known, epoch its own? topic known (by
id), and may be described? Where all are asked for, those that may not be are left out.
"""

from asyncio import Future
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from functools import partial
from typing import Final

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.base.futures import completer
from headrace.base.ids import NO_TOPIC_ID, TopicId, TopicPartition
from headrace.coordinators.group.offset_metadata_manager import CommittedOffset
from headrace.metadata.topics import TopicImage
from headrace.server.authorizer import Operation, Resource, allows
from headrace.server.context import RequestContext
from headrace.server.long_requests import SLICE_ITEMS, Slices, unless_short
from headrace.wire.schemas.offset_fetch import (
    GROUP_ERROR_SINCE,
    GROUPS_SINCE,
    TOPIC_ID_SINCE,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

Committed = dict[TopicPartition, CommittedOffset]
_NOTHING: Final = CommittedOffset(-1, -1, "", -1)


Outcome = OffsetFetchResponse | Future[OffsetFetchResponse]


def handle(context: RequestContext, request: OffsetFetchRequest) -> Outcome | Slices[Outcome]:
    return unless_short(_items(context, request), _fetch_all(context, request))


def _items(context: RequestContext, request: OffsetFetchRequest) -> int:
    """About how many partitions the reply has; a client that wants many names many, or all."""
    if context.api_version >= GROUPS_SINCE:
        asked = [(group.group_id, group.topics) for group in request.groups]
    else:
        asked = [(request.group_id, request.topics)]  # type: ignore[list-item]  # alike in what counts here
    return sum(
        _committed_count(context, group_id) if topics is None else _named(topics)
        for group_id, topics in asked
    )


def _named(topics: list[OffsetFetchRequestTopics]) -> int:
    return sum(1 + len(topic.partition_indexes) for topic in topics)


def _committed_count(context: RequestContext, group_id: str) -> int:
    try:
        return len(context.parts.groups.shard_for(group_id).offsets.of(group_id))
    except ApiError:
        return 0


def _fetch_all(context: RequestContext, request: OffsetFetchRequest) -> Slices[Outcome]:
    stable = request.require_stable
    if context.api_version >= GROUPS_SINCE:
        groups = []
        for group in request.groups:
            groups.append((yield from _fetch(context, group, stable)))
            yield
        return _when_settled(context, groups, lambda: OffsetFetchResponse(groups=groups))
    topics = None
    if request.topics is not None:
        topics = [
            OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes)
            for topic in request.topics
        ]
    found = yield from _fetch(
        context, OffsetFetchRequestGroup(group_id=request.group_id, topics=topics), stable
    )
    return _when_settled(context, [found], lambda: _one_group(context, found, topics or []))


def _when_settled(
    context: RequestContext, groups: list[OffsetFetchResponseGroup], reply: Callable[[], OffsetFetchResponse]
) -> OffsetFetchResponse | Future[OffsetFetchResponse]:
    """The reply, once all that it says is replicated, and nobody else could say more."""
    coordinator = context.parts.groups
    waiting = [group for group in groups if group.error_code == ErrorCode.NONE]
    left = len(waiting)
    later: Future[OffsetFetchResponse] | None = None

    def settled(group: OffsetFetchResponseGroup, error: ErrorCode) -> None:
        nonlocal left
        left -= 1
        if error is not ErrorCode.NONE:
            group.error_code, group.topics = error, []
        if later is not None and not left:
            completer(later)(reply())

    for group in waiting:
        coordinator.when_committed(group.group_id, partial(settled, group))
    if not left:
        return reply()
    later = context.parts.loop.create_future()
    return later


def _fetch(
    context: RequestContext, request_group: OffsetFetchRequestGroup, require_stable: bool
) -> Slices[OffsetFetchResponseGroup]:
    try:
        shard = context.parts.groups.shard_for(request_group.group_id)
    except ApiError as error:
        return OffsetFetchResponseGroup(request_group.group_id, error_code=error.code)
    error_code = shard.offsets.validate_offset_fetch(
        request_group.group_id, member_id=request_group.member_id, epoch=request_group.member_epoch
    )
    if error_code is not ErrorCode.NONE:
        return OffsetFetchResponseGroup(request_group.group_id, error_code=error_code)
    committed = shard.offsets.of(request_group.group_id)
    topics = request_group.topics
    if topics is None:
        topics = yield from _all_topics(context, committed)
    unstable = shard.offsets.pending(request_group.group_id) if require_stable else frozenset()
    answers = []
    for topic in topics:
        if _may_describe(context, topic):
            answers.append((yield from _topic(context, topic, committed, unstable)))
        elif request_group.topics is not None:
            answers.append(_refused(topic))
        yield
    return OffsetFetchResponseGroup(request_group.group_id, answers)


def _may_describe(context: RequestContext, topic: OffsetFetchRequestTopics) -> bool:
    name: str | None = topic.name
    if context.api_version >= TOPIC_ID_SINCE:
        image = context.parts.image.topics_by_id.get(TopicId(topic.topic_id))
        name = None if image is None else image.name
    return not name or allows(context, Operation.DESCRIBE, Resource.TOPIC, name)


def _refused(topic: OffsetFetchRequestTopics) -> OffsetFetchResponseTopics:
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return OffsetFetchResponseTopics(
        topic.name,
        topic.topic_id,
        [OffsetFetchResponsePartitions(index, -1, -1, "", code) for index in topic.partition_indexes],
    )


def _all_topics(context: RequestContext, committed: Committed) -> Slices[list[OffsetFetchRequestTopics]]:
    by_name: dict[str, OffsetFetchRequestTopics] = {}
    for number, ((name, index), found) in enumerate(list(committed.items()), 1):
        if not number % SLICE_ITEMS:
            yield
        topic = by_name.get(name)
        image = context.parts.image.topics_by_name.get(name)
        if _is_older(found, image):
            continue
        if topic is None:
            if image is None and context.api_version >= TOPIC_ID_SINCE:
                continue  # the topic is gone, and without an id there is no way to name it
            topic = by_name[name] = OffsetFetchRequestTopics(name=name)
            if image is not None:
                topic.topic_id = image.id
        topic.partition_indexes.append(index)
    return list(by_name.values())


def _is_older(found: CommittedOffset, image: TopicImage | None) -> bool:
    """Whether this was committed to a topic that is not the one of that name now."""
    return image is not None and found.topic_id not in (NO_TOPIC_ID, image.id)


def _topic(
    context: RequestContext,
    topic: OffsetFetchRequestTopics,
    committed: Committed,
    unstable: AbstractSet[TopicPartition],
) -> Slices[OffsetFetchResponseTopics]:
    name = topic.name
    image = context.parts.image.topics_by_name.get(name)
    error = ErrorCode.NONE
    if context.api_version >= TOPIC_ID_SINCE:
        image = context.parts.image.topics_by_id.get(TopicId(topic.topic_id))
        name = image.name if image is not None else ""
        error = ErrorCode.NONE if image is not None else ErrorCode.UNKNOWN_TOPIC_ID
    results = []
    for number, index in enumerate(topic.partition_indexes, 1):
        if not number % SLICE_ITEMS:
            yield
        if TopicPartition(name, index) in unstable:
            code = ErrorCode.UNSTABLE_OFFSET_COMMIT
            results.append(OffsetFetchResponsePartitions(index, -1, -1, "", code))
            continue
        found = committed.get(TopicPartition(name, index), _NOTHING)
        if _is_older(found, image):
            found = _NOTHING
        results.append(
            OffsetFetchResponsePartitions(index, found.offset, found.leader_epoch, found.metadata, error)
        )
    return OffsetFetchResponseTopics(name, topic.topic_id, results)


def _one_group(
    context: RequestContext, found: OffsetFetchResponseGroup, asked: list[OffsetFetchRequestTopics]
) -> OffsetFetchResponse:
    """The form before v8: one group, and before v2 no place for its error but its partitions."""
    if found.error_code and context.api_version < GROUP_ERROR_SINCE:
        return OffsetFetchResponse(
            topics=[
                OffsetFetchResponseTopic(
                    topic.name,
                    [
                        OffsetFetchResponsePartition(index, -1, -1, "", found.error_code)
                        for index in topic.partition_indexes
                    ],
                )
                for topic in asked
            ]
        )
    return OffsetFetchResponse(
        error_code=found.error_code,
        topics=[
            OffsetFetchResponseTopic(
                topic.name,
                [
                    OffsetFetchResponsePartition(
                        each.partition_index,
                        each.committed_offset,
                        each.committed_leader_epoch,
                        each.metadata,
                        each.error_code,
                    )
                    for each in topic.partitions
                ],
            )
            for topic in found.topics
        ],
    )
