"""`headrace dlq` and `headrace cluster features`, on a node in this process."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from click.testing import CliRunner

from headrace.base.ids import TopicPartition
from headrace.cli.main import cli
from headrace.clients import AcknowledgeType, Admin, Consumer, Producer, ShareConsumer
from headrace.testing import Cluster
from tests.clients.test_share_consumer import SETTINGS, group_with
from tests.compat.clients.face import eventually

Run = Callable[..., Any]
QUEUE = "dlq.tasks"


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with Cluster(settings=SETTINGS) as cluster:
        yield cluster.bootstrap_servers


@pytest.fixture
def run(bootstrap: str) -> Run:
    runner = CliRunner(env={"HEADRACE_BOOTSTRAP_SERVER": bootstrap})

    def call(*words: str) -> Any:
        result = runner.invoke(cli, [*words, "--json"])
        assert result.exit_code == 0, (result.output, result.exception)
        return json.loads(result.stdout)

    return call


def reject_all(bootstrap: str, group: str, count: int) -> None:
    with ShareConsumer(
        bootstrap_servers=bootstrap, group_id=group, share_acknowledgement_mode="explicit"
    ) as consumer:
        consumer.subscribe(["tasks"])
        left = count

        def is_over() -> bool:
            nonlocal left
            for record in consumer.poll(1.0):
                consumer.acknowledge(record, AcknowledgeType.REJECT)
                left -= 1
            consumer.commit()
            return left == 0

        eventually(is_over, "all records")


def test_what_a_group_gave_up_is_listed_shown_and_replayed_once(bootstrap: str, run: Run) -> None:
    raised = {each["feature"]: each["level"] for each in run("cluster", "features")}
    assert (raised["metadata.version"], raised["share.version"]) == (30, 1)
    run("cluster", "features", "--set", "metadata.version=31", "--set", "share.version=2")
    with Admin(bootstrap_servers=bootstrap) as admin:
        eventually(lambda: admin.describe_features()["share.version"].level == 2, "the new level")
        admin.create_topic("tasks", partitions=2)
        admin.create_topic(QUEUE, partitions=1, configs={"errors.deadletterqueue.group.enable": "true"})
    with Producer(bootstrap_servers=bootstrap) as producer:
        for number in range(4):
            producer.send("tasks", b"%d" % number, key=b"k", partition=number % 2, headers=[("a", b"b")])
    settings = {"share.auto.offset.reset": "earliest", "errors.deadletterqueue.topic.name": QUEUE}
    group = group_with(bootstrap, settings)
    reject_all(bootstrap, group, 4)

    def listed() -> Any:
        return next(each for each in run("dlq", "list") if each["topic"] == QUEUE)

    eventually(lambda: listed()["letters"] == 4, "the letters")
    shown = run("dlq", "show", QUEUE, "--group", group)
    assert sorted((each["topic"], each["partition"], each["offset"]) for each in shown) == [
        ("tasks", partition, offset) for partition in range(2) for offset in range(2)
    ]
    assert {(each["deliveries"], each["reason"]) for each in shown} == {(1, "Offset rejected by client.")}
    assert run("dlq", "show", QUEUE, "--group", "another") == []
    assert run("dlq", "replay", QUEUE)["replayed"] == 4
    assert listed()["not_replayed"] == 4
    assert run("dlq", "replay", QUEUE, "--execute")["replayed"] == 4
    assert listed()["not_replayed"] == 0
    assert run("dlq", "replay", QUEUE, "--execute")["replayed"] == 0
    places = [TopicPartition("tasks", index) for index in range(2)]
    with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign(places)
        found: list[tuple[int, bytes, Any]] = []

        def has_all() -> bool:
            found.extend((each.partition, each.value, each.headers) for each in consumer.poll(1.0))
            return len(found) >= 8

        eventually(has_all, "each record twice")
    assert sorted(value for _, value, _ in found) == sorted(2 * [b"%d" % number for number in range(4)])
    assert all([tuple(each) for each in headers] == [("a", b"b")] for _, _, headers in found)
