"""Moving partitions and electing leaders from the console, and a broker that comes back, in this process."""

from collections.abc import Iterator
from typing import Any

import pytest

from headrace.base.ids import TopicPartition
from headrace.clients import Admin, Producer
from headrace.console.cluster_connection import ClusterSpec
from headrace.testing.cluster import Cluster
from tests.compat.clients.face import eventually
from tests.console.visitors import Visitor, running_console

RECORDS = 40


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    # A fetch has one record: a throttle of a byte a second holds back all that come after the first.
    with Cluster(2, {"replica.fetch.max.bytes": "100", "replica.fetch.response.max.bytes": "100"}) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def visitor(cluster: Cluster) -> Iterator[Visitor]:
    with running_console([ClusterSpec("c", {"bootstrap.servers": cluster.bootstrap_servers})]) as address:
        yield Visitor(address)


def moving(visitor: Visitor) -> dict[str, Any]:
    """The only partition that moves; nothing where none does."""
    found = visitor.get("reassignments")["reassignments"]
    assert len(found) <= 1
    return found[0] if found else {}


def test_a_move_is_followed_stopped_and_done(cluster: Cluster, visitor: Visitor) -> None:
    place = TopicPartition("moved", 0)
    nodes = {"1", "2"}
    throttled = {"leader.replication.throttled.replicas": "*"}
    with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
        admin.create_topic("moved", partitions=1, replication_factor=1, configs=throttled)
        for node in nodes:
            admin.alter_configs("broker", node, set_to={"leader.replication.throttled.rate": 1})
        with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
            for _ in range(RECORDS):
                producer.send("moved", bytes(1000)).result(30)
        [home] = admin.describe_topics("moved")[0].partitions[0].replicas
        other = 3 - home
        wish = {"topic": "moved", "partition": 0}
        visitor.change("POST", "reassignments", wish | {"replicas": [other]})
        eventually(lambda: 0 < moving(visitor)["copied"].get(str(other), 0) < 1, "some of it is copied")
        assert (moving(visitor)["adding"], moving(visitor)["removing"]) == ([other], [home])
        visitor.change("POST", "reassignments", wish | {"replicas": None})
        eventually(lambda: moving(visitor) == {}, "nothing moves any more")
        assert admin.describe_topics("moved")[0].partitions[0].replicas == [home]
        assert visitor.refused("POST", "reassignments", wish | {"replicas": None})[0] == 409
        admin.alter_configs("topic", "moved", delete=throttled)
        visitor.change("POST", "reassignments", wish | {"replicas": [other]})
        eventually(lambda: moving(visitor) == {}, "it has moved")
        assert admin.describe_topics("moved")[0].partitions[0].replicas == [other]
        assert admin.end_offsets([place])[place] == RECORDS


def test_leaders_are_elected_by_a_plan(cluster: Cluster, visitor: Visitor) -> None:
    with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
        admin.create_topic("elected", partitions=2, replication_factor=2)
        eventually(lambda: all(len(each.isr) == 2 for each in partitions(admin)), "all are in sync")
        first = partitions(admin)[0]
        assert visitor.get("topics/elected/election")["changes"] == []
        admin.reassign({TopicPartition("elected", 0): first.replicas[::-1]})
        eventually(lambda: partitions(admin)[0].replicas == first.replicas[::-1], "they have another order")
        plan = {"partition": 0, "from": first.leader, "to": first.replicas[1], "in_sync": True}
        assert visitor.get("topics/elected/election")["changes"] == [plan]
        for wrong in ({}, {"partitions": []}, {"partitions": [True]}, {"partitions": "all"}):
            assert visitor.refused("POST", "topics/elected/elect", wrong)[0] == 400
        assert visitor.refused("POST", "topics/elected/elect", {"partitions": [99]})[0] == 400
        assert partitions(admin)[0].leader == first.leader, "nothing has been changed yet"
        assert visitor.change("POST", "topics/elected/elect", {"partitions": [0]}) == {"elected": 1}
        eventually(lambda: partitions(admin)[0].leader == first.replicas[1], "the first replica leads")
        assert visitor.get("topics/elected/election")["changes"] == []
        assert visitor.change("POST", "topics/elected/elect", {"partitions": [0]}), "it leads already"


def partitions(admin: Admin) -> list[Any]:
    return admin.describe_topics("elected")[0].partitions


def test_a_broker_that_is_gone_is_told_and_its_return() -> None:
    """On three nodes of its own: what is left must have a majority."""
    with Cluster(3) as cluster:
        spec = ClusterSpec("three", {"bootstrap.servers": cluster.bootstrap_servers})
        with running_console([spec]) as address:
            visitor = Visitor(address, "three")
            with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
                admin.create_topic("orders", partitions=3, replication_factor=3)
            eventually(lambda: visitor.get("overview")["troubles"] == [], "all is well")
            cluster.stop_node(2)
            eventually(lambda: visitor.get("overview")["brokers_up"] == 2, "it is missed")
            told = visitor.get("overview")["troubles"]
            assert ("error", "broker 2") in {(each["level"], each["where"]) for each in told}
            eventually(
                lambda: any(
                    "orders-" in each["where"] and "broker 2" in each["what"]
                    for each in visitor.get("overview")["troubles"]
                ),
                "its replicas are missed",
            )
            cluster.start_node(2)
            eventually(lambda: visitor.get("overview")["troubles"] == [], "it is back, and all is well")
