"""The in-process broker, used as a user's test uses it: with a client that we did not write."""

import os
import threading

import pytest
from confluent_kafka import Consumer, Producer

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.clients import Admin, ClientError
from headrace.testing import Cluster


def test_a_client_of_others_writes_and_reads():
    with Cluster() as cluster:
        cluster.create_topic("events", partitions=3, configs={"retention.ms": "60000"})
        producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
        for number in range(10):
            producer.produce("events", value=b"%d" % number, partition=0)
        assert producer.flush(30) == 0
        consumer = Consumer(
            {
                "bootstrap.servers": cluster.bootstrap_servers,
                "group.id": "g",
                "auto.offset.reset": "earliest",
            }
        )
        consumer.subscribe(["events"])
        messages = consumer.consume(10, timeout=90)
        consumer.close()
    assert [message.value() for message in messages] == [b"%d" % number for number in range(10)]


def test_refusals_are_told():
    with Cluster() as cluster:
        cluster.create_topic("events")
        with pytest.raises(ApiError) as raised:
            cluster.create_topic("events")
    assert raised.value.code is ErrorCode.TOPIC_ALREADY_EXISTS


def test_two_clusters_do_not_meet_and_nothing_is_left(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    before = set(threading.enumerate())
    with Cluster() as one, Cluster() as other:
        assert one.bootstrap_servers != other.bootstrap_servers
        assert len(os.listdir(tmp_path)) == 2
    assert os.listdir(tmp_path) == []
    assert not [each for each in set(threading.enumerate()) - before if each.name == "headrace-cluster"]


def test_settings_reach_the_node_and_wrong_ones_are_told():
    with pytest.raises(ValueError, match=r"num\.partitions"), Cluster(settings={"num.partitions": "many"}):
        pass


def test_what_cannot_be_had_is_said():
    with pytest.raises(ValueError, match="at least one"):
        Cluster(nodes=0)
    with pytest.raises(RuntimeError, match="with statement"):
        _ = Cluster().bootstrap_servers


def test_three_nodes_are_a_cluster_that_goes_on_without_one():
    with Cluster(nodes=3) as cluster:
        assert len(cluster.bootstrap_servers.split(",")) == 3
        cluster.create_topic("before", 3, replication_factor=3)
        cluster.stop_node(1)
        assert cluster.node_ids == [2, 3]
        cluster.create_topic("after", 2, replication_factor=2)
        cluster.start_node(1)
        with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
            assert {"before", "after"} <= {each.name for each in admin.list_topics()}
            quorum = admin.describe_quorum()
            assert [each.node_id for each in quorum.members if each.is_voter] == [1, 2, 3]


@pytest.mark.parametrize("nodes", [1, 3])
def test_a_secure_one_lets_in_who_logs_in(nodes):
    with Cluster(nodes, secure=True) as cluster:
        cluster.create_topic("events", replication_factor=nodes)
        producer = Producer(cluster.librdkafka_settings())
        producer.produce("events", value=b"1")
        assert producer.flush(30) == 0
        with Admin(cluster.client_settings()) as admin:
            assert [topic.name for topic in admin.list_topics()] == ["events"]
        with pytest.raises(ClientError), Admin(bootstrap_servers=cluster.bootstrap_servers) as stranger:
            stranger.list_topics()
