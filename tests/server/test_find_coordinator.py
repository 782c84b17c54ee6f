"""FindCoordinator: the internal topic is there when the first answer comes."""

import asyncio

import pytest

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.base.internal_topics import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from headrace.metadata.config_resource import ConfigKey, ResourceType
from headrace.server.handlers import find_coordinator
from tests.server.beside_kafka.compare import assert_answers_as_kafka
from tests.server.beside_kafka.find_coordinator import ask_for
from tests.server.node_world import NodeWorld, simulated

NEWEST = 6


def test_answers_as_kafka_does() -> None:
    assert_answers_as_kafka("find_coordinator")


@pytest.mark.parametrize("version", [0, NEWEST])
@simulated(offsets_topic_num_partitions="7", offsets_topic_segment_bytes="2000000")
async def test_the_first_question_makes_the_topic(world: NodeWorld, version: int) -> None:
    client = await world.connect()
    assert OFFSETS_TOPIC not in world.node.image.topics_by_name
    response = await client.ask(ask_for(version, "g"), version)
    found = response if version == 0 else response.coordinators[0]
    assert (found.error_code, found.node_id, found.host, found.port) == (0, 1, "node", 9092)
    assert len(world.node.image.topics_by_name[OFFSETS_TOPIC].partitions) == 7
    config = world.node.image.configs[ConfigKey(ResourceType.TOPIC, OFFSETS_TOPIC)]
    assert config["cleanup.policy"] == "compact"
    assert config["segment.bytes"] == "2000000"
    assert world.log(OFFSETS_TOPIC).config.compression_type == "producer"


@simulated()
async def test_many_first_questions_make_one_topic(world: NodeWorld) -> None:
    clients = [await world.connect(f"c{number}") for number in range(5)]
    asked = [client.ask(ask_for(NEWEST, f"g{number}"), NEWEST) for number, client in enumerate(clients)]
    answers = await asyncio.gather(*asked)
    assert [answer.coordinators[0].error_code for answer in answers] == [0] * 5


@simulated(offsets_topic_replication_factor="3")
async def test_a_topic_that_cannot_be_made_is_not_available(world: NodeWorld) -> None:
    client = await world.connect()
    response = await client.ask(ask_for(NEWEST, "g"), NEWEST)
    assert response.coordinators[0].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE


@simulated()
async def test_a_controller_that_cannot_make_it_is_asked_again_by_the_client(
    world: NodeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = await world.connect()
    refused = asyncio.get_running_loop().create_future()
    refused.set_exception(ApiError(ErrorCode.KAFKA_STORAGE_ERROR, "the disk is full"))
    monkeypatch.setattr(world.node.parts.controller, "ask", lambda request: refused)
    response = await client.ask(ask_for(NEWEST, "g"), NEWEST)
    assert response.coordinators[0].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE


@simulated()
async def test_a_fault_in_an_answer_that_waited_is_told(
    world: NodeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first question waits for the topic: the client must hear of a fault then, too."""
    client = await world.connect()
    monkeypatch.setattr(find_coordinator, "_find", lambda *asked: 1 / 0)
    response = await client.ask(ask_for(NEWEST, "g"), NEWEST)
    assert response.coordinators[0].error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    (trace,) = world.tracebacks.seen
    assert "ZeroDivisionError" in trace
    world.tracebacks.seen.clear()


@simulated()
async def test_transactions_have_a_topic_of_their_own(world: NodeWorld) -> None:
    client = await world.connect()
    response = await client.ask(ask_for(NEWEST, "t", key_type=1), NEWEST)
    assert (response.coordinators[0].error_code, response.coordinators[0].node_id) == (0, 1)
    assert TRANSACTIONS_TOPIC in world.node.image.topics_by_name
    assert OFFSETS_TOPIC not in world.node.image.topics_by_name
