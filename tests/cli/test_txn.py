"""`headrace txn` on a node in this process: what is open, what hangs, and how both are ended."""

import json
from collections.abc import Callable, Iterator

import pytest
from click.testing import CliRunner, Result

from headrace.base.ids import TopicPartition
from headrace.cli.main import cli
from headrace.clients import Admin, Consumer, Producer
from headrace.records.batch import Record, build_batch
from headrace.testing import Cluster
from headrace.wire.schemas.produce import PartitionProduceData, ProduceRequest, TopicProduceData

Run = Callable[..., Result]

# Without verification an old client can still write what no coordinator knows.
SETTINGS = {
    "transaction.partition.verification.enable": "false",
    "transaction.state.log.num.partitions": "3",
}


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with Cluster(settings=SETTINGS) as cluster:
        cluster.create_topic("t", 2)
        yield cluster.bootstrap_servers


@pytest.fixture
def run(bootstrap: str) -> Run:
    runner = CliRunner(env={"HEADRACE_BOOTSTRAP_SERVER": bootstrap})

    def call(*words: str, code: int = 0) -> Result:
        result = runner.invoke(cli, ["txn", *words])
        assert result.exit_code == code, (result.output, result.exception)
        return result

    return call


def committed(bootstrap: str, partition: int) -> list[bytes | None]:
    where = TopicPartition("t", partition)
    with Consumer(bootstrap_servers=bootstrap, isolation_level="read_committed") as consumer:
        consumer.assign([where])
        consumer.seek_to_beginning()
        (end,) = consumer.end_offsets([where]).values()
        found: list[bytes | None] = []
        while consumer.position(where) < end:
            found += [record.value for record in consumer.poll(1.0)]
        return found


def test_an_open_transaction_is_seen_and_aborted(run: Run, bootstrap: str) -> None:
    with Producer(bootstrap_servers=bootstrap, transactional_id="seen") as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("t", b"lost", partition=0).result(30)
        (listed,) = json.loads(run("list", "--pattern", "se+n", "--state", "Ongoing", "--json").stdout)
        assert (listed["transactional_id"], listed["state"]) == ("seen", "Ongoing")
        (described,) = json.loads(run("describe", "seen", "--json").stdout)
        assert described["partitions"] == ["t-0"]
        assert described["producer"] == listed["producer"]
        assert "Ongoing" in run("describe", "seen").stdout
        assert json.loads(run("find-hanging", "--older-than-ms", "0", "--json").stdout) == []
        run("abort", "seen")
        (described,) = json.loads(run("describe", "seen", "--json").stdout)
        assert described["partitions"] == []
        with pytest.raises(Exception, match=r"(?i)fenced|epoch"):
            producer.commit_transaction()
    assert b"lost" not in committed(bootstrap, 0)
    assert "seen" in run("list").stdout
    assert "nobody" in run("describe", "nobody", code=1).output


def test_what_hangs_is_found_and_ended(run: Run, bootstrap: str) -> None:
    records = build_batch(
        [Record(0, 1000, None, b"hanging")],
        producer_id=4711,
        producer_epoch=0,
        base_sequence=0,
        transactional=True,
    )
    request = ProduceRequest(
        "gone", -1, 5_000, [TopicProduceData("t", bytes(16), [PartitionProduceData(1, records)])]
    )
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin._background.run(admin._async.client.call, request, node=1, at_most=11)
    with Producer(bootstrap_servers=bootstrap) as producer:
        producer.send("t", b"behind it", partition=1).result(30)
    assert committed(bootstrap, 1) == []
    (found,) = json.loads(run("find-hanging", "--topic", "t", "--json").stdout)
    assert (found["topic"], found["partition"], found["producer"], found["start"]) == ("t", 1, 4711, 0)
    assert "4711" in run("find-hanging").stdout
    where = ("--topic", "t", "--partition", "1")
    assert "those open: 0" in run("abort", *where, "--start-offset", "5", code=1).output
    run("abort", *where, "--start-offset", "0")
    assert "hangs" in run("find-hanging").output
    assert committed(bootstrap, 1) == [b"behind it"]


def test_an_abort_must_say_what(run: Run) -> None:
    for words in ([], ["x", "--topic", "t"], ["--topic", "t", "--partition", "1"]):
        assert "give a transactional id" in run("abort", *words, code=2).output


def test_an_id_that_nobody_uses_is_not_made(run: Run) -> None:
    """It was made, and said to be aborted."""
    assert "no coordinator knows nosuch: see `headrace txn list`" in run("abort", "nosuch", code=1).stderr
    assert "nosuch" not in [each["transactional_id"] for each in json.loads(run("list", "--json").stdout)]
    assert "'ongoin' is not one of" in run("list", "--state", "ongoin", code=2).stderr
