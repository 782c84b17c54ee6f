"""Requests with many entries: the same answers in pieces, and no turn of the loop that grows with them."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any, Final

import pytest

from headrace.base.chunks import FileSlice
from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.base.internal_topics import OFFSETS_TOPIC
from headrace.records.header import batches
from headrace.server import dispatch
from headrace.server.api_table import BROKER, CONTROLLER
from headrace.server.handlers import describe_groups as describe_groups_handler
from headrace.server.handlers import fetch as fetch_handler
from headrace.server.handlers import share_fetch as share_fetch_handler
from headrace.server.request_pieces import LONG_REQUESTS, AtMost, Pieces, has_more, join, split
from headrace.settings.not_yet import STANDARD_AUTHORIZER
from headrace.testing.loop import SimulatedLoop
from headrace.transport.connection import Connection
from headrace.wire.apis import API, ApiKey
from headrace.wire.plan import fields_of
from headrace.wire.schemas.create_topics import CreatableTopic, CreateTopicsRequest
from headrace.wire.schemas.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from headrace.wire.schemas.delete_topics import DeleteTopicsRequest
from headrace.wire.schemas.describe_groups import DescribeGroupsRequest
from headrace.wire.schemas.describe_producers import DescribeProducersRequest, TopicRequest
from tests.compat.attacks.many_names import GROUP, KNOWN, MANY_NAMES
from tests.server.beside_kafka.find_coordinator import ask_for
from tests.server.group_requests import commit
from tests.server.node_world import API_OF, Client, NodeWorld, simulated

NEVER: Final = 1 << 40

NEED_NO_PIECES: Final = {
    "few, or the handler's own slices": {
        ApiKey.PRODUCE,
        ApiKey.METADATA,
        ApiKey.OFFSET_FETCH,
        ApiKey.LIST_GROUPS,
        ApiKey.LIST_TRANSACTIONS,
        ApiKey.DESCRIBE_CONFIGS,
        ApiKey.DESCRIBE_LOG_DIRS,
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
        ApiKey.LIST_CONFIG_RESOURCES,
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
        ApiKey.DESCRIBE_DELEGATION_TOKEN,
    },
    "a member says what it has, and its group takes it as a whole": {
        ApiKey.JOIN_GROUP,
        ApiKey.SYNC_GROUP,
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        ApiKey.SHARE_GROUP_HEARTBEAT,
        ApiKey.STREAMS_GROUP_HEARTBEAT,
    },
    "the list has one place for each kind or version that there is": {
        ApiKey.DESCRIBE_CLIENT_QUOTAS,
        ApiKey.UPDATE_FEATURES,
        ApiKey.ADD_RAFT_VOTER,
        ApiKey.CREATE_DELEGATION_TOKEN,
        ApiKey.DESCRIBE_QUORUM,
    },
    "asked by nodes": {
        ApiKey.WRITE_TXN_MARKERS,
        ApiKey.VOTE,
        ApiKey.BEGIN_QUORUM_EPOCH,
        ApiKey.END_QUORUM_EPOCH,
        ApiKey.ALTER_PARTITION,
        ApiKey.FETCH_SNAPSHOT,
        ApiKey.BROKER_REGISTRATION,
        ApiKey.BROKER_HEARTBEAT,
        ApiKey.CONTROLLER_REGISTRATION,
        ApiKey.ASSIGN_REPLICAS_TO_DIRS,
        ApiKey.UPDATE_RAFT_VOTER,
    },
}


def test_every_list_of_a_request_has_a_rule() -> None:
    with_lists = {
        row.key
        for row in (*BROKER, *CONTROLLER)
        if any(spec.is_array for spec in fields_of(API[row.key].request))
    }
    exempt = set().union(*NEED_NO_PIECES.values())
    assert with_lists - exempt == set(LONG_REQUESTS)
    assert exempt <= with_lists


def test_every_rule_is_attacked() -> None:
    attacked = {API_OF[type(request(1))].key for request, _ in MANY_NAMES.values()}
    of_nodes = {key for key in LONG_REQUESTS if "SHARE_GROUP_STATE" in key.name}
    assert set(LONG_REQUESTS) - of_nodes <= attacked


@pytest.mark.parametrize("key", LONG_REQUESTS, ids=lambda key: key.name)
def test_rules_name_lists_that_there_are(key: ApiKey) -> None:
    rule = LONG_REQUESTS[key]
    for row in (row for row in (*BROKER, *CONTROLLER) if row.key is key):
        assert callable(row.load_for_long())
    assert isinstance(rule, Pieces | AtMost) or row.load_for_long() is not row.load() or row.served_by
    for path in rule.paths if isinstance(rule, Pieces | AtMost) else ():
        cls: Any = API[key].request
        for name in path:
            (spec,) = (spec for spec in fields_of(cls) if spec.name == name and spec.is_array)
            cls = spec.struct


# -- splitting and joining -----------------------------------------------------------------------------------


def _cut(sizes: list[int], entries: int) -> list[tuple[list[tuple[str, list[int]]], int]]:
    topics = [TopicRequest(f"t{number}", [*range(size)]) for number, size in enumerate(sizes)]
    pieces = split(DescribeProducersRequest(topics), ("topics", "partition_indexes"), entries)
    return [
        ([(topic.name, topic.partition_indexes) for topic in piece.topics], goes_on)
        for piece, goes_on in pieces
    ]


def test_small_topics_share_a_piece_and_a_large_one_is_cut() -> None:
    assert _cut([1, 2, 5, 0, 1], entries=3) == [
        ([("t0", [0]), ("t1", [0, 1])], 0),
        ([("t2", [0, 1, 2])], 0),
        ([("t2", [3, 4])], 1),
        ([("t3", []), ("t4", [0])], 0),
    ]
    assert _cut([], entries=3) == []


@pytest.mark.parametrize("sizes", [[7], [3, 3, 3], [0, 0, 0, 0], [1, 9, 1], [4, 0, 4]])
def test_replies_to_pieces_are_joined_to_the_reply(sizes: list[int]) -> None:
    def reply(topics: list[tuple[str, list[int]]]) -> DeleteRecordsResponse:
        return DeleteRecordsResponse(
            topics=[
                DeleteRecordsTopicResult(name, [*map(DeleteRecordsPartitionResult, indexes)])
                for name, indexes in topics
            ]
        )

    joined = DeleteRecordsResponse()
    for topics, goes_on in _cut(sizes, entries=3):
        join(joined, reply(topics), goes_on)
    assert joined == reply([(f"t{number}", [*range(size)]) for number, size in enumerate(sizes)])


def test_two_topics_of_one_name_stay_two() -> None:
    joined = DeleteRecordsResponse(topics=[DeleteRecordsTopicResult("t")])
    join(joined, DeleteRecordsResponse(topics=[DeleteRecordsTopicResult("t")]), 0)
    assert [topic.name for topic in joined.topics] == ["t", "t"]
    join(joined, DeleteRecordsResponse(topics=[DeleteRecordsTopicResult("u")]), 1)
    assert [topic.name for topic in joined.topics] == ["t", "t", "u"]


def test_entries_are_counted_up_to_the_limit() -> None:
    request = DescribeProducersRequest([TopicRequest("t", [0, 1]), TopicRequest("u")])
    path = ("topics", "partition_indexes")
    assert not has_more(request, path, 3)  # a topic without partitions counts as one
    assert has_more(request, path, 2)
    assert has_more(request, path, 1)
    assert not has_more(request, ("topics",), 2)


# -- the same answers ----------------------------------------------------------------------------------------


async def prepared(world: NodeWorld) -> Client:
    """A client of a node that has what the requests name, and coordinates all groups and transactions."""
    await world.create_topic(KNOWN)
    client = await world.connect()
    for key_type in (0, 1):
        await client.ask(ask_for(4, "any", key_type=key_type), 4)
    assert not (await client.ask(commit(GROUP, KNOWN, {0: 1}), 9)).topics[0].partitions[0].error_code
    return client


def comparable(name: str, answer: Any) -> Any:
    """Without what is drawn anew for each answer."""
    if name == "fetch":
        answer.session_id = 0
    return answer


def test_a_request_in_pieces_is_answered_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    for rule in LONG_REQUESTS.values():
        if isinstance(rule, Pieces):
            monkeypatch.setattr(rule, "_entries", 50)

    @simulated()
    async def script(world: NodeWorld) -> None:
        client = await prepared(world)
        differ = []
        for name, (request, version) in MANY_NAMES.items():
            if isinstance(LONG_REQUESTS.get(API_OF[type(request(1))].key), AtMost):
                continue  # up to Kafka's limit they are one
            answers = []
            for frame_bytes, many in ((dispatch.LONG_FRAME_BYTES, 50), (NEVER, NEVER)):
                if name == "share-acknowledge":  # the session that it is for
                    await client.ask(MANY_NAMES["share-fetch"].request(1), 1)
                with pytest.MonkeyPatch.context() as patch:
                    patch.setattr(dispatch, "LONG_FRAME_BYTES", frame_bytes)
                    patch.setattr(fetch_handler, "MANY_PARTITIONS", many)
                    patch.setattr(share_fetch_handler, "MANY_PARTITIONS", many)
                    answer = await client.ask(request(300), version)
                answers.append(comparable(name, answer))
            if answers[0] != answers[1]:
                differ.append(name)
        assert differ == []

    script()


@simulated()
async def test_offsets_of_one_request_are_one_batch(world: NodeWorld) -> None:
    client = await prepared(world)
    await world.create_topic("wide", partitions=300)
    home = world.node.parts.groups.partition_of(GROUP)
    before = world.log(OFFSETS_TOPIC, home).log_end_offset
    answer = await client.ask(commit(GROUP, "wide", dict.fromkeys(range(400), 7)), 9)
    codes = [each.error_code for each in answer.topics[0].partitions]
    assert codes == [0] * 300 + [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * 100
    records = world.log(OFFSETS_TOPIC, home).read(before, max_bytes=1 << 20).chunk
    data = bytes(records.read() if isinstance(records, FileSlice) else records)
    assert [header.record_count for _, header in batches(data)] == [300]


@simulated(message_max_bytes="100000")
async def test_more_offsets_than_fit_a_batch_are_refused_before_they_are_records(world: NodeWorld) -> None:
    client = await prepared(world)
    home = world.node.parts.groups.partition_of(GROUP)
    before = world.log(OFFSETS_TOPIC, home).log_end_offset
    for name in ("offset-commit-again", "txn-offset-commit-again"):
        request, version = MANY_NAMES[name]
        answer = await client.ask(request(2_000), version)
        codes = {each.error_code for each in answer.topics[0].partitions}
        assert codes == {ErrorCode.INVALID_COMMIT_OFFSET_SIZE}
    assert world.log(OFFSETS_TOPIC, home).log_end_offset == before


@simulated()
async def test_more_than_kafka_decides_at_once_is_refused(world: NodeWorld) -> None:
    client = await prepared(world)
    names = [f"n{number}" for number in range(10_001)]
    answer = await client.ask(DeleteTopicsRequest(topic_names=[*names[1:], KNOWN], timeout_ms=1_000), 5)
    assert [each.name for each in answer.responses] == [*names[1:], KNOWN]
    assert {each.error_code for each in answer.responses} == {ErrorCode.POLICY_VIOLATION}
    assert KNOWN in world.node.image.topics_by_name
    at_the_limit = await client.ask(DeleteTopicsRequest(topic_names=names[1:], timeout_ms=1_000), 5)
    assert {each.error_code for each in at_the_limit.responses} == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


@simulated(authorizer_class_name=STANDARD_AUTHORIZER)
async def test_what_may_not_be_asked_is_refused_in_pieces(world: NodeWorld) -> None:
    client = await world.connect()
    groups = [f"g{number}" for number in range(600)]
    described = await client.ask(DescribeGroupsRequest(groups=groups), 5)
    assert [each.group_id for each in described.groups] == groups
    assert {each.error_code for each in described.groups} == {ErrorCode.GROUP_AUTHORIZATION_FAILED}
    topics = [CreatableTopic(f"n{number}", 1, 1) for number in range(600)]
    made = await client.ask(CreateTopicsRequest(topics, 1_000), 7)
    assert [each.name for each in made.topics] == [topic.name for topic in topics]
    assert {each.error_code for each in made.topics} == {ErrorCode.TOPIC_AUTHORIZATION_FAILED}


def test_a_request_that_fails_as_a_whole_fails_in_all_its_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def refuse(context: object, group_id: str) -> None:
        asked.append(group_id)
        raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE)

    monkeypatch.setattr(describe_groups_handler, "_describe", refuse)

    @simulated()
    async def script(world: NodeWorld) -> None:
        client = await world.connect()
        groups = [f"g{number}" for number in range(600)]
        described = await client.ask(DescribeGroupsRequest(groups=groups), 5)
        assert [each.group_id for each in described.groups] == groups
        assert {each.error_code for each in described.groups} == {ErrorCode.COORDINATOR_NOT_AVAILABLE}

    script()
    assert asked == ["g0"]


# -- no long turn --------------------------------------------------------------------------------------------


CALLS_MAX: Final = 3_000
"""Calls of our functions in one turn: some milliseconds. A slice takes a thousand; a thousand entries at
once take seven thousand and more."""

_RUN_ROUND: Final = SimulatedLoop.run_round.__code__


@dataclass
class Meter:
    """Counts calls, and notes the most between two places where others can have their turn."""

    calls: int = 0
    most: int = 0

    def on_event(self, frame: FrameType, event: str, argument: object) -> None:
        if event == "call":
            if frame.f_back is not None and frame.f_back.f_code is _RUN_ROUND:
                self.end_turn()  # the loop's next callback
            self.calls += 1

    def end_turn(self) -> None:
        self.most = max(self.most, self.calls)
        self.calls = 0

    def watched(self, work: Any) -> Iterator[Any]:
        """A connection's work: others have their turn between any two slices."""
        for awaited in work:
            self.end_turn()
            yield awaited


@contextmanager
def metered() -> Iterator[Meter]:
    meter = Meter()
    work_on = Connection.work_on
    before = sys.getprofile()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Connection, "work_on", lambda self, work: work_on(self, meter.watched(work)))
        sys.setprofile(meter.on_event)
        try:
            yield meter
        finally:
            sys.setprofile(before)
            meter.end_turn()


PLAYED: Final = (
    *("describe-groups", "describe-transactions", "find-coordinator", "delete-groups", "list-offsets"),
    *("describe-producers", "add-partitions-to-txn", "delete-records", "offset-for-leader-epoch"),
)


@simulated()
async def test_no_turn_grows_with_the_entries(world: NodeWorld) -> None:
    client = await prepared(world)
    most = {}
    for name in PLAYED:
        request, version = MANY_NAMES[name]
        await client.ask(request(300), version)  # what is loaded and compiled at the first of a kind
        message = request(1_000)
        with metered() as meter:
            await client.ask(message, version)
        most[name] = meter.most
    assert {name: calls for name, calls in most.items() if calls > CALLS_MAX} == {}, most
