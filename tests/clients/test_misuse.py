"""What a user gets wrong, and what is said to that: one sentence with the way out, never a wrong result."""

import asyncio
from typing import Any

import pytest

from headrace.base.ids import TopicPartition
from headrace.clients import Admin, Consumer, Producer, RebalanceListener
from headrace.clients.errors import ClientError, ClosedError
from headrace.clients.internals.consumer.subscription_state import SubscriptionState
from headrace.wire.schemas.delete_topics import DeletableTopicResult, DeleteTopicsResponse
from headrace.wire.schemas.incremental_alter_configs import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsResponse,
)
from tests.clients.scripted import ScriptedCluster

PLACES = [TopicPartition("t", 0)]


def test_a_poll_without_anything_to_read() -> None:
    with ScriptedCluster() as cluster, Consumer(bootstrap_servers=cluster.address) as consumer:
        for poll in (consumer.poll, consumer.poll_arrow):
            with pytest.raises(ClientError, match="nothing to read yet: subscribe to topics or assign"):
                poll(0.1)
        consumer.assign([])
        assert consumer.poll(0) == []


@pytest.mark.filterwarnings("error")
def test_a_client_that_is_closed() -> None:
    with ScriptedCluster() as cluster:
        consumer = Consumer(bootstrap_servers=cluster.address)
        producer = Producer(bootstrap_servers=cluster.address)
        admin = Admin(bootstrap_servers=cluster.address)
        for client in (consumer, producer, admin):
            client.close()
        for name, call in {
            "consumer": lambda: consumer.poll(0.1),
            "producer": lambda: producer.send("t", b"v"),
            "admin": lambda: admin.list_topics(),
        }.items():
            with pytest.raises(ClosedError, match=f"the {name} is closed: make another one"):
                call()
        with pytest.raises(ClosedError, match="the consumer is closed"):
            consumer.subscribe(["t"])


def test_settings_by_a_kinds_name() -> None:
    with ScriptedCluster() as cluster, Admin(bootstrap_servers=cluster.address) as admin:
        cluster.handlers["IncrementalAlterConfigs"] = lambda request, node: IncrementalAlterConfigsResponse(
            responses=[AlterConfigsResourceResponse(resource_type=2, resource_name="t")]
        )
        values = {"retention.ms": 5, "preallocate": True, "cleanup.policy": "compact"}
        admin.alter_configs("topic", "t", set_to=values, delete="segment.ms")
        (asked,) = cluster.asked("IncrementalAlterConfigs")[0].resources
        assert asked.resource_type == 2
        assert [(each.name, each.value) for each in asked.configs] == [
            ("retention.ms", "5"),
            ("preallocate", "true"),
            ("cleanup.policy", "compact"),
            ("segment.ms", None),
        ]
        with pytest.raises(ClientError, match=r"'queue' has no settings: what has is one of 'topic', "):
            admin.alter_configs("queue", "t", set_to=values)
        with pytest.raises(ClientError, match="a setting is a text, a number, True or False"):
            admin.alter_configs("topic", "t", set_to={"retention.ms": [1]})  # type: ignore[dict-item]
        with pytest.raises(ClientError, match="nothing to change of topic 't'"):
            admin.alter_configs("topic", "t")


def test_a_text_is_one_name_and_not_its_letters() -> None:
    """`delete_topics("logs")` asked for the topics l, o, g and s to be deleted."""
    with ScriptedCluster() as cluster, Admin(bootstrap_servers=cluster.address) as admin:
        cluster.handlers["DeleteTopics"] = lambda request, node: DeleteTopicsResponse(
            responses=[DeletableTopicResult(name="logs")]
        )
        admin.delete_topics("logs")
        (asked,) = cluster.asked("DeleteTopics")
        assert [each.name for each in asked.topics] == ["logs"]
        assert [each.name for each in admin.describe_topics("t")] == ["t"]


def test_a_subscription_without_a_group_leaves_nothing_behind() -> None:
    with ScriptedCluster() as cluster, Consumer(bootstrap_servers=cluster.address) as consumer:
        with pytest.raises(ClientError, match=r"give a group\.id, or assign partitions to read them alone"):
            consumer.subscribe(["t"])
        with pytest.raises(ClientError, match="nothing to read yet"):
            consumer.poll(0)
        consumer.assign(PLACES)
        assert consumer.assignment == set(PLACES)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("t", r"give a list of partitions, as \[TopicPartition\('orders', 0\)\], not 't'"),
        (TopicPartition("t", 0), "give a list of partitions"),
        (["t"], r"a partition has to be TopicPartition\(topic, number\), not 't'"),
    ],
)
def test_what_is_no_list_of_partitions(given: Any, message: str) -> None:
    with ScriptedCluster() as cluster, Consumer(bootstrap_servers=cluster.address) as consumer:
        with pytest.raises(TypeError, match=message):
            consumer.assign(given)
        consumer.assign([("t", 0)])  # type: ignore[list-item]
        assert consumer.assignment == set(PLACES)


def test_names_that_no_topic_can_have() -> None:
    with (
        ScriptedCluster() as cluster,
        Producer(bootstrap_servers=cluster.address) as producer,
        Consumer(bootstrap_servers=cluster.address, group_id="g") as consumer,
    ):
        with pytest.raises(ClientError, match="no topic can have this name: 'a b' "):
            producer.send("a b", b"v")
        for name in (None, b"t"):
            with pytest.raises(TypeError, match=f"a topic's name has to be a str, not {name!r}"):
                producer.send(name, b"v")  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="a topic's name has to be a str, not b't'"):
            consumer.subscribe([b"t"])  # type: ignore[list-item]
        assert not cluster.asked("Metadata")


def test_records_that_cannot_be_sent() -> None:
    with ScriptedCluster() as cluster, Producer(bootstrap_servers=cluster.address) as producer:
        wrong: dict[str, dict[str, Any]] = {
            "a partition has to be a number, not '0'": {"partition": "0"},
            r"headers have to be pairs, .*: give list\(headers.items\(\)\)": {"headers": {"a": b"1"}},
            "headers have to be pairs of a text and bytes or None, not .'abc'": {"headers": ["abc"]},
        }
        for message, options in wrong.items():
            with pytest.raises(TypeError, match=message):
                producer.send("t", b"v", **options)


class KafkaPythons:
    """A listener as kafka-python's and aiokafka's programs have it."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, list[TopicPartition]]] = []

    async def on_partitions_assigned(self, assigned: Any) -> None:
        self.heard.append(("assigned", assigned))

    def on_partitions_revoked(self, revoked: Any) -> None:
        self.heard.append(("revoked", revoked))


class Ours(KafkaPythons, RebalanceListener):
    """The same, derived from our class: its own on_assigned must not stand in the way."""


class WithLost(Ours):
    def on_lost(self, partitions: list[TopicPartition]) -> None:
        self.heard.append(("lost", partitions))


@pytest.mark.parametrize("kind", [KafkaPythons, Ours, WithLost])
def test_a_listener_by_kafkas_names_is_called(kind: type[KafkaPythons]) -> None:
    subscription, listener = SubscriptionState(), kind()
    subscription.to_names(["t"], listener)
    called = subscription.listener
    asyncio.run(called.on_assigned(PLACES))  # type: ignore[arg-type]
    called.on_revoked(PLACES)
    called.on_lost(PLACES)
    last = "lost" if kind is WithLost else "revoked"
    assert listener.heard == [("assigned", PLACES), ("revoked", PLACES), (last, PLACES)]


def test_a_listener_that_hears_nothing() -> None:
    with pytest.raises(ClientError, match=r"object is no rebalance listener: it has none of on_assigned"):
        SubscriptionState().to_names(["t"], object())  # type: ignore[arg-type]
