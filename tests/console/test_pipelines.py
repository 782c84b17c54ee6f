"""The page of pipelines: what a run's /metrics becomes, and dead letters that are sent again."""

from collections.abc import Iterator
from typing import Any

import pytest

from headrace.base.ids import TopicPartition
from headrace.clients import Admin, Consumer, ConsumerRecord, Producer
from headrace.console.api import pipelines
from headrace.console.cluster_connection import ClusterSpec
from headrace.console.pipeline_run import RATE_MS, PipelineRun, PipelineSample, QueryCourse
from headrace.testing.cluster import Cluster
from tests.compat.clients.face import eventually
from tests.console.pipeline_runs import TestedRun, running_pipeline
from tests.console.visitors import Visitor, running_console

QUERY = {"pipeline": "p", "query": "q"}
MARK = "headrace.dead-letter."


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with Cluster(settings={"auto.create.topics.enable": "false"}) as cluster:
        with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
            for name in ("orders", "orders-dead"):
                admin.create_topic(name, partitions=2)
        yield cluster.bootstrap_servers


@pytest.fixture
def run() -> Iterator[TestedRun]:
    with running_pipeline() as run:
        yield run


@pytest.fixture
def visitor(bootstrap: str, run: TestedRun) -> Iterator[Visitor]:
    spec = ClusterSpec("c", {"bootstrap.servers": bootstrap}, (run.url,))
    with running_console([spec]) as address:
        yield Visitor(address)


def counted(rows: float, batches: float = 1.0) -> list[PipelineSample]:
    return [PipelineSample("rows_in_total", QUERY, rows), PipelineSample("batches_total", QUERY, batches)]


def test_rates_are_over_some_seconds_and_begin_anew_with_a_run() -> None:
    run = PipelineRun()
    for second, rows in ((0, 0.0), (2, 100.0), (4, 100.0), (20, 1000.0)):
        run.take(counted(rows), second * 1000)
    state = run.queries["p", "q"]
    assert state.rates() == (900 / 16, 0.0), f"over {RATE_MS} ms and a little more"
    assert state.course() == [None, 50.0, 25.0, 900 / 16]
    run.take(counted(10.0), 22_000)
    assert state.rates() is None, "it was started again"
    assert QueryCourse().rates() is None


def test_when_a_batch_was_last_seen_to_end() -> None:
    run = PipelineRun()
    run.take([PipelineSample("edge", {**QUERY, "direction": "in", "kind": "feed", "name": "f"}, 1.0)], 1_000)
    assert run.queries["p", "q"].batch_ms is None, "it is planned, and has finished none"
    run.take(counted(5.0), 2_000)
    run.take(counted(5.0), 9_000)
    assert run.queries["p", "q"].batch_ms == 2_000
    run.take([], 10_000)
    assert run.queries, "an address that answers nothing has not ended"


def test_a_run_is_a_graph_with_figures(visitor: Visitor, run: TestedRun) -> None:
    run.batch(lag=500)

    def found() -> Any:
        told = visitor.get("pipelines")
        return told if any("batches" in each for each in told["queries"]) else None

    told = eventually(found, "the console has read the run's metrics", 60)
    figures = {each["query"]: each for each in told["queries"]}
    assert set(figures) == {"big", "dead letters of orders"}
    main = figures["big"]
    assert (main["rows_in"], main["rows_out"], main["lag"], main["batch_seconds"]) == (10, 4, 500, 0.25)
    assert (main["state_rows"], main["bad_rows"], main["violations"]) == (30, 2, {"n > 0": 1})
    edges = {(each["query"], each["direction"], each["kind"], each["name"]) for each in told["edges"]}
    assert ("big", "in", "feed", "orders") in edges
    assert ("big", "out", "feed", "big-orders") in edges
    assert ("dead letters of orders", "out", "dead", "orders-dead") in edges
    assert told["alerts"] == [{"pipeline": "big", "alert": "lag above 100", "stands": True}]
    assert told["dead"] == ["orders-dead"]
    assert set(told["feeds"]) == {"orders", "orders-dead"}, "those that are there"
    assert visitor.get("brokers")["metrics"] == [], "a run of pipelines is no broker"
    shown = {each["query"]: each["lag"] for each in visitor.get("overview")["queries"]}
    assert shown == {"big": 500, "dead letters of orders": None}


def test_a_console_that_reads_no_metrics_says_so(bootstrap: str) -> None:
    with running_console([ClusterSpec("c", {"bootstrap.servers": bootstrap})]) as address:
        told = Visitor(address).get("pipelines")
    assert (told["is_configured"], told["queries"]) == (False, [])


def test_who_may_not_see_a_feed_does_not_see_its_queries() -> None:
    run = PipelineRun()
    edge = {**QUERY, "direction": "in", "kind": "feed", "name": "secret"}
    other = {"pipeline": "p", "query": "open", "direction": "out", "kind": "table", "name": "secret"}
    run.take([PipelineSample("edge", each, 1.0) for each in (edge, other)], 0)
    assert pipelines._unseen(run, {"orders"}) == {("p", "q")}
    assert pipelines._unseen(run, {"secret"}) == set()


def letter(producer: Producer, value: bytes, *more: tuple[str, bytes]) -> int:
    """A dead letter of the first record of partition 1; its offset."""
    origin = ((f"{MARK}topic", b"orders"), (f"{MARK}partition", b"1"), (f"{MARK}error", b"no JSON"))
    headers = (("own", b"kept"), *origin, *more)
    delivery = producer.send("orders-dead", value, key=b"\xff\x00", partition=0, headers=headers)
    producer.flush()
    return delivery.result(60).offset


def test_dead_letters_go_to_their_feed_as_they_were(visitor: Visitor, bootstrap: str) -> None:
    with Producer(bootstrap_servers=bootstrap) as producer:
        offsets = [letter(producer, value) for value in (b"{broken", b"\xfe\xff")]
        cut = letter(producer, b"much", (f"{MARK}bytes", b"2000000"))
        plain = producer.send("orders-dead", b"no letter", partition=0)
        producer.flush()
    wanted = [{"partition": 0, "offset": offset} for offset in offsets]
    sent = visitor.change("POST", "topics/orders-dead/send-again", {"letters": wanted})["sent"]
    assert [(each["topic"], each["partition"]) for each in sent] == [("orders", 1)] * 2
    with Consumer(bootstrap_servers=bootstrap) as consumer:
        place = TopicPartition("orders", 1)
        consumer.assign([place])
        consumer.seek(place, sent[0]["offset"])
        records: list[ConsumerRecord] = []
        eventually(lambda: records.extend(consumer.poll(1.0)) or len(records) == 2, "they are there", 60)
    assert [each.value for each in records] == [b"{broken", b"\xfe\xff"]
    assert {each.key for each in records} == {b"\xff\x00"}
    assert {each.headers for each in records} == {(("own", b"kept"),)}
    for offset, reason in ((cut, "cut short"), (plain.result(60).offset, "no dead letter"), (10**6, "")):
        body = {"letters": [{"partition": 0, "offset": offset}]}
        status, told = visitor.refused("POST", "topics/orders-dead/send-again", body)
        assert status in (404, 409)
        assert reason in told


@pytest.mark.parametrize("letters", [None, [], [{}], [{"partition": 0}], "all", [3], [{}] * 501])
def test_letters_are_named_by_their_places(visitor: Visitor, letters: Any) -> None:
    assert visitor.refused("POST", "topics/orders-dead/send-again", {"letters": letters})[0] == 400
