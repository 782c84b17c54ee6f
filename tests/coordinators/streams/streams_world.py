"""Streams groups without a node: heartbeats in, replies out, time and topics by hand.

A topology is written as text, a subtopology in a line: what it reads, `>` the repartition topics that it
writes, `=` the changelogs that it keeps. A name with `*` in front is a repartition topic that it reads.
Topics that are read together are one copartition group.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from headrace.coordinators.group.streams.streams_group import StreamsGroup
from headrace.coordinators.group.streams.streams_group_config import StreamsGroupConfig
from headrace.coordinators.group.streams.streams_group_manager import StreamsGroupHeartbeatResult
from headrace.wire.schemas.create_topics import CreatableTopic
from headrace.wire.schemas.streams_group_heartbeat import (
    CopartitionGroup,
    Endpoint,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    Subtopology,
    TaskIds,
    TopicInfo,
    Topology,
)
from tests.coordinators.consumer.consumer_world import GROUP, World

AT_ONCE = StreamsGroupConfig(
    heartbeat_interval_is_chosen=True, initial_rebalance_delay_ms=0, assignment_interval_ms=0
)
"""What a group does by itself it does with the next heartbeat."""

WITH_STANDBYS = replace(AT_ONCE, num_standby_replicas=1)

Held = Mapping[str, set[int]]


def topology(text: str, epoch: int = 0) -> Topology:
    return Topology(epoch, [_subtopology(number, line) for number, line in enumerate(text.split("\n"))])


def _subtopology(number: int, line: str) -> Subtopology:
    rest, _, kept = line.partition("=")
    read, _, written = rest.partition(">")
    sources = [name for name in read.split() if not name.startswith("*")]
    repartition = [name[1:] for name in read.split() if name.startswith("*")]
    positions = CopartitionGroup(list(range(len(sources))), [], list(range(len(repartition))))
    return Subtopology(
        str(number),
        sources,
        state_changelog_topics=[TopicInfo(name) for name in kept.split()],
        repartition_sink_topics=written.split(),
        repartition_source_topics=[_repartition_topic(name) for name in repartition],
        copartition_groups=[positions] if len(read.split()) > 1 else [],
    )


def _repartition_topic(name: str) -> TopicInfo:
    """`name:3` asks for so many partitions."""
    name, _, partitions = name.partition(":")
    return TopicInfo(name, int(partitions or 0))


class StreamsWorld(World):
    """One coordinator partition with a streams group, and what its members know of themselves."""

    def __init__(self, config: StreamsGroupConfig = AT_ONCE, text: str = "in", **topics: int) -> None:
        super().__init__(streams_settings=config)
        self.topology = topology(text)
        self.creatable: dict[str, CreatableTopic] = {}
        self.epochs: dict[str, int] = {}
        self.active: dict[str, dict[str, set[int]]] = {}
        self.standby: dict[str, dict[str, set[int]]] = {}
        for name, partitions in (topics or {"in": 4}).items():
            self.topic(name, partitions)

    @property
    def streams(self) -> StreamsGroup:
        return self.shard.streams.groups[GROUP]

    def ask(self, member: str, epoch: int, **fields: Any) -> StreamsGroupHeartbeatResponse:
        """One request, as it is."""
        results: list[StreamsGroupHeartbeatResult] = []
        request = StreamsGroupHeartbeatRequest(GROUP, member, epoch, **fields)
        self.shard.streams.heartbeat(
            request, client_id=f"client of {member}", client_host="/127.0.0.1", answer=results.append
        )
        (result,) = results
        self.creatable = dict(result.creatable_topics)
        return result.response

    def join(self, member: str, **fields: Any) -> StreamsGroupHeartbeatResponse:
        options: dict[str, Any] = {
            "rebalance_timeout_ms": 60_000,
            "topology": self.topology,
            "process_id": f"process of {member}",
            "active_tasks": [],
            "standby_tasks": [],
            "warmup_tasks": [],
        }
        return self._take(member, self.ask(member, 0, **(options | fields)))

    def beat(self, member: str) -> StreamsGroupHeartbeatResponse:
        """What a client says that has done all it was told."""
        tasks = {
            "active_tasks": _ids(self.active[member]),
            "standby_tasks": _ids(self.standby[member]),
            "warmup_tasks": [],
        }
        return self._take(member, self.ask(member, self.epochs[member], **tasks))

    def beat_all(self, times: int = 1) -> None:
        for _ in range(times):
            for member in list(self.epochs):
                assert self.beat(member).error_code == 0

    def leave(self, member: str) -> StreamsGroupHeartbeatResponse:
        reply = self.ask(member, -1)
        self.epochs.pop(member, None)
        return reply

    def _take(self, member: str, reply: StreamsGroupHeartbeatResponse) -> StreamsGroupHeartbeatResponse:
        if not reply.error_code:
            self.epochs[member] = reply.member_epoch
            if reply.active_tasks is not None:
                self.active[member] = held(reply.active_tasks)
                self.standby[member] = held(reply.standby_tasks or [])
        return reply

    def create_missing(self) -> None:
        """What the broker does with what a heartbeat found missing."""
        for topic in self.creatable.values():
            self.topic(topic.name, topic.num_partitions)


def held(tasks: list[TaskIds]) -> dict[str, set[int]]:
    return {each.subtopology_id: set(each.partitions) for each in tasks}


def statuses(reply: StreamsGroupHeartbeatResponse) -> list[int]:
    return [each.status_code for each in reply.status or []]


def at(host: str) -> Endpoint:
    return Endpoint(host, 80)


def _ids(tasks: Held) -> list[TaskIds]:
    return [TaskIds(each, sorted(partitions)) for each, partitions in tasks.items()]
