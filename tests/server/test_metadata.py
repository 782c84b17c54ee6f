"""Metadata: which topics are told in which version, and topics that are made because somebody asked."""

import asyncio
from pathlib import Path

import pytest

from headrace.base.error_codes import ErrorCode
from headrace.base.internal_topics import OFFSETS_TOPIC
from headrace.server.authorizer import NOT_ASKED_FOR
from headrace.wire.schemas import metadata_records as wire
from headrace.wire.schemas.create_topics import (
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from headrace.wire.schemas.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from tests.server.desk import Desk, at_desk
from tests.server.node_world import NodeWorld, simulated


def by_name(*names: str, auto: bool = False, **more: bool) -> MetadataRequest:
    topics = [MetadataRequestTopic(name=name) for name in names]
    return MetadataRequest(topics=topics, allow_auto_topic_creation=auto, **more)


def told(response: MetadataResponse) -> dict[str | None, int]:
    return {topic.name: topic.error_code for topic in response.topics}


def test_null_and_empty_ask_for_all_or_none_by_version(tmp_path: Path) -> None:
    async def script(desk: Desk) -> None:
        await desk.create("a", "b")
        assert told(await desk.ask(MetadataRequest(topics=[]), 0)) == {"a": 0, "b": 0}
        assert told(await desk.ask(MetadataRequest(topics=[]), 1)) == {}
        for version in range(1, 14):
            assert told(await desk.ask(MetadataRequest(topics=None), version)) == {"a": 0, "b": 0}

    at_desk(tmp_path, script)


def test_brokers_topics_and_partitions_are_told(tmp_path: Path) -> None:
    async def script(desk: Desk) -> None:
        await desk.create("a", partitions=2)
        response = await desk.ask(by_name("a", "a"), 12)
        assert [(b.node_id, b.host, b.port, b.rack) for b in response.brokers] == [
            (1, "localhost", 9092, None)
        ]
        assert (response.cluster_id, response.controller_id) == (desk.parts.cluster_id, 1)
        (topic,) = response.topics
        assert topic.topic_id == desk.image.topics_by_name["a"].id
        assert [
            (p.error_code, p.partition_index, p.leader_id, p.leader_epoch, p.replica_nodes, p.isr_nodes)
            for p in topic.partitions
        ] == [(0, 0, 1, 0, [1], [1]), (0, 1, 1, 0, [1], [1])]
        assert topic.topic_authorized_operations == NOT_ASKED_FOR
        asked = by_name(
            "a", include_topic_authorized_operations=True, include_cluster_authorized_operations=True
        )
        response = await desk.ask(asked, 9)
        assert response.topics[0].topic_authorized_operations == 3576, "as Kafka was seen to tell"
        assert response.cluster_authorized_operations == 8096

    at_desk(tmp_path, script)


def test_unknown_names_and_ids_are_told(tmp_path: Path) -> None:
    async def script(desk: Desk) -> None:
        assert told(await desk.ask(by_name("nope", "a b"))) == {
            "nope": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            "a b": ErrorCode.INVALID_TOPIC_EXCEPTION,
        }
        await desk.create("a")
        known, unknown = desk.image.topics_by_name["a"].id, b"x" * 16
        request = MetadataRequest(
            topics=[MetadataRequestTopic(known, None), MetadataRequestTopic(unknown, None)]
        )
        response = await desk.ask(request, 12)
        assert [(t.name, t.topic_id, t.error_code) for t in response.topics] == [
            ("a", known, 0),
            (None, unknown, ErrorCode.UNKNOWN_TOPIC_ID),
        ]

    at_desk(tmp_path, script)


@pytest.mark.parametrize(
    ("topic", "version"),
    [
        (MetadataRequestTopic(b"y" * 16, "a"), 10),
        (MetadataRequestTopic(b"y" * 16, None), 11),
        (MetadataRequestTopic(name=None), 12),
    ],
)
def test_names_and_ids_must_fit_the_version(
    tmp_path: Path, topic: MetadataRequestTopic, version: int
) -> None:
    async def script(desk: Desk) -> None:
        response = await desk.ask(MetadataRequest(topics=[topic]), version)
        assert [t.error_code for t in response.topics] == [ErrorCode.INVALID_REQUEST]

    at_desk(tmp_path, script)


def test_what_may_be_done_with_a_topic_is_told_also_where_there_is_none(tmp_path: Path) -> None:
    async def script(desk: Desk) -> None:
        await desk.create("a")
        response = await desk.ask(by_name("a", "nope", include_topic_authorized_operations=True), 12)
        one, other = response.topics
        assert one.topic_authorized_operations == other.topic_authorized_operations != NOT_ASKED_FOR

    at_desk(tmp_path, script)


def test_a_topic_is_made_when_client_and_broker_allow_it_and_told_at_once(tmp_path: Path) -> None:
    async def script(desk: Desk) -> None:
        assert told(await desk.ask(by_name("new"), 4)) == {"new": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        response = await desk.ask(by_name("new", "a b", auto=True))
        assert told(response) == {"new": 0, "a b": ErrorCode.INVALID_TOPIC_EXCEPTION}
        assert [p.leader_id for p in response.topics[0].partitions] == [1] * 3, "num.partitions of them"
        assert told(await desk.ask(by_name("old", auto=True), 3)) == {"old": 0}, (
            "before v4 no client could decline"
        )
        assert told(await desk.ask(by_name("n.ew", auto=True))) == {"n.ew": 0}
        assert told(await desk.ask(by_name("n_ew", auto=True))) == {"n_ew": ErrorCode.INVALID_TOPIC_EXCEPTION}

    at_desk(tmp_path, script, num_partitions=3)


def test_a_topic_that_only_the_controller_knows_is_to_be_asked_for_again(tmp_path: Path) -> None:
    """A node that has just come back lacks what was made while it was away."""

    async def script(desk: Desk) -> None:
        await desk.create("elsewhere")
        del desk.image.topics_by_name["elsewhere"]
        desk.parts.controller = NodeBehind(desk.parts.loop)
        response = await desk.ask(by_name("elsewhere", auto=True))
        assert told(response) == {"elsewhere": ErrorCode.LEADER_NOT_AVAILABLE}
        desk.parts.controller.stops = True
        with pytest.raises(asyncio.CancelledError):
            await desk.ask(by_name("elsewhere", auto=True))

    at_desk(tmp_path, script)


class NodeBehind:
    """The way to a controller that knows more than this node, until the node stops."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.stops = False

    def ask(self, request: CreateTopicsRequest) -> "asyncio.Future[CreateTopicsResponse]":
        answer: asyncio.Future[CreateTopicsResponse] = self.loop.create_future()
        if self.stops:
            answer.cancel()
        else:
            exists = ErrorCode.TOPIC_ALREADY_EXISTS
            answer.set_result(
                CreateTopicsResponse(
                    topics=[CreatableTopicResult(each.name, error_code=exists) for each in request.topics]
                )
            )
        return answer


def test_no_topic_is_made_where_the_broker_does_not_allow_it(tmp_path: Path) -> None:
    async def script(desk: Desk) -> None:
        response = await desk.ask(by_name("new", auto=True))
        assert told(response) == {"new": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}

    at_desk(tmp_path, script, auto_create_topics_enable="false")


def test_internal_topics_are_made_as_the_system_needs_them(tmp_path: Path) -> None:
    async def script(desk: Desk) -> None:
        names = (OFFSETS_TOPIC, "__transaction_state", "__share_group_state")
        response = await desk.ask(by_name(*names, auto=True))
        assert {t.name: (t.is_internal, len(t.partitions)) for t in response.topics} == {
            OFFSETS_TOPIC: (True, 4),
            "__transaction_state": (True, 5),
            "__share_group_state": (True, 6),
        }
        assert desk.image.topic_config_of(OFFSETS_TOPIC)["cleanup.policy"] == "compact"

    at_desk(
        tmp_path,
        script,
        **{
            "offsets.topic.num.partitions": 4,
            "offsets.topic.replication.factor": 1,
            "transaction.state.log.num.partitions": 5,
            "transaction.state.log.replication.factor": 1,
            "transaction.state.log.min.isr": 1,
            "share.coordinator.state.topic.num.partitions": 6,
            "share.coordinator.state.topic.replication.factor": 1,
            "share.coordinator.state.topic.min.isr": 1,
        },
    )


def test_a_topic_that_cannot_be_made_says_why(tmp_path: Path) -> None:
    async def script(desk: Desk) -> None:
        assert told(await desk.ask(by_name("new", auto=True))) == {
            "new": ErrorCode.INVALID_REPLICATION_FACTOR
        }
        desk.node.controller.stop()
        assert told(await desk.ask(by_name("new", auto=True))) == {"new": ErrorCode.NOT_CONTROLLER}

    at_desk(tmp_path, script, default_replication_factor=3)


def test_partitions_without_a_reachable_leader_are_told_as_such(tmp_path: Path) -> None:
    async def script(desk: Desk) -> None:
        await desk.create("a")
        other = desk.image.copy()
        desk.parts.image = other
        desk.peer.listener = "ELSEWHERE"
        (partition,) = (await desk.ask(by_name("a"), 6)).topics[0].partitions
        assert (partition.error_code, partition.leader_id) == (ErrorCode.LISTENER_NOT_FOUND, -1)
        assert partition.offline_replicas == [1]
        (partition,) = (await desk.ask(by_name("a"), 5)).topics[0].partitions
        assert partition.error_code == ErrorCode.LEADER_NOT_AVAILABLE
        desk.peer.listener = "PLAINTEXT"
        other.replay(wire.FenceBrokerRecord(id=1, epoch=other.brokers[1].epoch))
        response = await desk.ask(by_name("a"))
        assert response.brokers == [], "fenced brokers are not shown"
        assert response.topics[0].partitions[0].error_code == ErrorCode.LEADER_NOT_AVAILABLE

    at_desk(tmp_path, script)


@simulated()
async def test_several_ids_in_a_version_that_goes_by_names_are_refused(world: NodeWorld) -> None:
    client = await world.connect()
    topics = [MetadataRequestTopic(bytes([each]) * 16, None) for each in (1, 2)]
    response = await client.ask(MetadataRequest(topics), 11)
    assert [(t.name, t.error_code) for t in response.topics] == [("", ErrorCode.INVALID_REQUEST)] * 2
