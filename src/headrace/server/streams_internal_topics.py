"""The internal topics of streams groups: made on behalf of the members that need them.

A heartbeat's answer says which repartition topics and changelogs are missing. They are asked of the
controller in the name of the member, whose rights and quotas count there; the answer does not wait. While a
topic is asked for it is not asked for again. What could not be made is told to the group's members for two
heartbeat intervals, and then tried again.
"""

from __future__ import annotations

from asyncio import Future
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.base.futures import then
from headrace.coordinators.group.streams.internal_topics import StreamsStatus
from headrace.server.authorizer import CLUSTER_NAME, Operation, Resource, allows, tell_denied
from headrace.server.context import RequestContext
from headrace.wire.schemas.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from headrace.wire.schemas.streams_group_heartbeat import Status, StreamsGroupHeartbeatResponse

ERRORS_SHOWN_MAX: Final = 3
CREATE_TIMEOUT_MS: Final = 30_000


class StreamsInternalTopics:
    """What this node has asked for, and what came of it."""

    def __init__(self) -> None:
        self._asked: set[str] = set()
        self._failed: dict[str, tuple[str, int]] = {}

    def make(
        self,
        context: RequestContext,
        topics: Mapping[str, CreatableTopic],
        response: StreamsGroupHeartbeatResponse,
        *,
        retry_ms: int,
    ) -> None:
        """Have the topics made, or tell in the response why they cannot be."""
        refused = _may_not_make(context, topics)
        if refused:
            _tell(response, f"Unauthorized to CREATE on topics {', '.join(refused)}.")
            return
        now_ms = context.parts.clock.monotonic_ms()
        self._forget_old(now_ms)
        wanted = [name for name in topics if name not in self._asked and name not in self._failed]
        if wanted:
            self._ask(context, [topics[name] for name in wanted], retry_ms)
        failed = [f"{name} ({self._failed[name][0]})" for name in topics if name in self._failed]
        if failed:
            more = len(failed) - ERRORS_SHOWN_MAX
            shown = ", ".join(failed[:ERRORS_SHOWN_MAX]) + (f" and {more} more" if more > 0 else "")
            _tell(response, f"Creation failed: {shown}.")

    def _forget_old(self, now_ms: int) -> None:
        self._failed = {name: each for name, each in self._failed.items() if each[1] > now_ms}

    def _ask(self, context: RequestContext, topics: Sequence[CreatableTopic], retry_ms: int) -> None:
        parts = context.parts
        names = [topic.name for topic in topics]

        def note(name: str, why: str) -> None:
            self._failed[name] = (why, parts.clock.monotonic_ms() + retry_ms)

        def made(response: CreateTopicsResponse) -> None:
            self._asked.difference_update(names)
            for result in response.topics:
                # One that is there already will be heard of soon.
                if result.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                    note(result.name, result.error_message or ErrorCode(result.error_code).name)

        def not_made(error: BaseException) -> None:
            self._asked.difference_update(names)
            if not isinstance(error, ApiError):
                raise error
            for name in names:
                note(name, error.message or error.code.name)

        self._asked.update(names)
        asked: Future[CreateTopicsResponse] = context.controller.ask(
            CreateTopicsRequest(list(topics), CREATE_TIMEOUT_MS)
        )
        # Shared: the topics are made even where this client is gone by then.
        then(asked, made, loop=parts.loop, on_error=not_made, shared=True)


def _may_not_make(context: RequestContext, names: Iterable[str]) -> list[str]:
    if allows(context, Operation.CREATE, Resource.CLUSTER, CLUSTER_NAME):
        return []
    refused = [name for name in names if not allows(context, Operation.CREATE, Resource.TOPIC, name)]
    for name in refused:
        tell_denied(context, Operation.CREATE, Resource.TOPIC, name)
    return refused


def _tell(response: StreamsGroupHeartbeatResponse, detail: str) -> None:
    """Behind the status that says what is missing."""
    response.status = response.status or []
    for status in response.status:
        if status.status_code == StreamsStatus.MISSING_INTERNAL_TOPICS:
            status.status_detail += f"; {detail}"
            return
    response.status.append(Status(StreamsStatus.MISSING_INTERNAL_TOPICS, detail))
