"""Every client's administration calls: topics, partitions, configurations, the cluster, deleted records."""

import uuid
from typing import Any

import pytest

from tests.compat.brokers import REPLICAS, Broker
from tests.compat.clients.face import Client, Record, RefusedError, eventually
from tests.compat.clients.roster import Entry, as_params
from tests.compat.conftest import MakeTopic
from tests.compat.dump_check import check_files
from tests.compat.samples import hour_ago_ms


@pytest.mark.parametrize("entry", as_params())
def test_topic_from_creation_to_deletion(entry: Entry, client: Client) -> None:
    topic = f"t-{uuid.uuid4().hex[:12]}"
    client.create_topic(topic, 3, {"retention.ms": "86400000"})
    eventually(lambda: topic in client.topics(), "the topic to be listed")
    brokers = {broker_id for broker_id, _, _ in client.cluster()["brokers"]}
    eventually(lambda: _is_in_place(client.describe_topic(topic), brokers), "leaders everywhere")
    assert client.topic_config(topic)["retention.ms"] == "86400000"
    assert _refusal_of(lambda: client.create_topic(topic, 1, {})) == 36  # TOPIC_ALREADY_EXISTS
    client.delete_topic(topic)
    eventually(lambda: topic not in client.topics(), "the topic to be gone")
    assert _refusal_of(lambda: client.delete_topic(topic)) == 3  # UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("entry", as_params())
def test_topic_is_refused(entry: Entry, client: Client) -> None:
    topic = f"t-{uuid.uuid4().hex[:12]}"
    assert _refusal_of(lambda: client.create_topic("no/such/name", 1, {})) == 17  # INVALID_TOPIC_EXCEPTION
    assert (
        _refusal_of(lambda: client.create_topic(topic, 1, {"retention.ms": "soon"})) == 40
    )  # INVALID_CONFIG
    assert topic not in client.topics()


@pytest.mark.parametrize("entry", as_params())
def test_partitions_are_added_but_not_taken_away(entry: Entry, client: Client, make_topic: MakeTopic) -> None:
    topic = make_topic(2)
    client.produce(topic, [Record(1, hour_ago_ms(), b"key", b"value")], "none")
    client.add_partitions(topic, 5)
    eventually(lambda: sorted(client.describe_topic(topic)) == list(range(5)), "five partitions")
    eventually(lambda: all(each["leader"] >= 0 for each in client.describe_topic(topic).values()), "leaders")
    client.produce(topic, [Record(4, hour_ago_ms(), b"key", b"value")], "none")
    assert client.bounds(topic) == {0: (0, 0), 1: (0, 1), 2: (0, 0), 3: (0, 0), 4: (0, 1)}
    assert _refusal_of(lambda: client.add_partitions(topic, 3)) == 37  # INVALID_PARTITIONS


@pytest.mark.parametrize("entry", as_params())
def test_topic_configuration(entry: Entry, client: Client, make_topic: MakeTopic) -> None:
    topic = make_topic(1, {"max.message.bytes": "500000"})
    before = client.topic_config(topic)
    assert before["max.message.bytes"] == "500000"
    assert before["cleanup.policy"] == "delete"
    assert before["retention.ms"] == "604800000"
    assert before["segment.bytes"] == "1073741824"
    change = {"max.message.bytes": "1000", "cleanup.policy": "compact,delete"}
    client.alter_topic_config(topic, change)
    eventually(lambda: client.topic_config(topic) == before | change, "the change to be seen")
    too_large = Record(0, hour_ago_ms(), b"key", bytes(2000))
    assert _refusal_of(lambda: client.produce(topic, [too_large], "none")) == 10  # MESSAGE_TOO_LARGE
    refusal = _refusal_of(lambda: client.alter_topic_config(topic, {"segment.bytes": "-1"}))
    assert refusal == 40  # INVALID_CONFIG


@pytest.mark.parametrize("entry", as_params())
def test_cluster(broker: Broker, entry: Entry, client: Client) -> None:
    found = client.cluster()
    assert {f"{host}:{port}" for _, host, port in found["brokers"]} == set(broker.addresses)
    assert found["controller"] in {broker_id for broker_id, _, _ in found["brokers"]}


@pytest.mark.parametrize("entry", as_params("delete_records"))
def test_deleted_records(entry: Entry, client: Client, make_topic: MakeTopic) -> None:
    topic = make_topic(2)
    sent = [Record(0, hour_ago_ms() + at, b"key", b"%d" % at) for at in range(30)]
    client.produce(topic, sent, "none")
    client.delete_records(topic, {0: 12})
    assert client.bounds(topic) == {0: (12, 30), 1: (0, 0)}
    assert [record.value for record in client.consume(topic, {0: 30})] == [b"%d" % at for at in range(12, 30)]
    assert _refusal_of(lambda: client.delete_records(topic, {0: 31})) == 1  # OFFSET_OUT_OF_RANGE
    client.delete_records(topic, {0: 30})
    assert client.bounds(topic)[0] == (30, 30)


@pytest.mark.java
def test_apache_kafka_reads_every_file(broker: Broker) -> None:
    check_files(broker)


def _is_in_place(described: dict[int, dict[str, Any]], brokers: set[int]) -> bool:
    """Three partitions, each with as many replicas as it should have, all of them in sync."""
    return sorted(described) == [0, 1, 2] and all(
        each["leader"] in each["replicas"]
        and len(each["replicas"]) == REPLICAS
        and set(each["replicas"]) == set(each["isr"])
        and set(each["isr"]) <= brokers
        for each in described.values()
    )


def _refusal_of(call: object) -> int:
    assert callable(call)
    with pytest.raises(RefusedError) as refusal:
        call()
    return refusal.value.code
