"""Exactly once without Spark: tasks and commits are called as Spark calls them, and die wherever they can.

On headrace, and on Apache Kafka, whose brokers know no two-phase commit. There a transaction takes a second,
so CI has each kind of death and each kind of abort on it, and `pytest -m slow` all the others.
"""

import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from typing import Any

import pyarrow as pa
import pytest

from headrace.clients import Admin, Producer
from headrace.clients.errors import ClientError
from headrace.spark.option_values import OptionError
from headrace.spark.options import write_options
from headrace.spark.sink import SinkError, decision_log, exactly_once
from headrace.spark.sink.columns import WriteColumns
from headrace.spark.sink.commit_message import TaskCommitMessage, TaskIdentity
from headrace.spark.sink.decision_log import BatchDecision, DecisionLog
from headrace.spark.sink.exactly_once import ExactlyOnce
from headrace.spark.sink.rows import KEYLESS_PIECE_BYTES
from headrace.spark.worker import IDLE_MAX
from headrace.testing import Cluster
from tests.compat.brokers import NEVER_FENCED, ApacheKafkaBroker
from tests.compat.prepare import UnavailableError
from tests.spark.whole_topics import whole_topic

TASKS, ROWS = 3, 20
HEADRACE = ("headrace", "headrace with two phases")
LONG_ON_KAFKA = pytest.mark.parametrize(
    "brokers",
    [*HEADRACE, pytest.param("kafka", marks=[pytest.mark.java, pytest.mark.slow])],
    indirect=True,
    scope="module",
)


@pytest.fixture(scope="module", params=[*HEADRACE, pytest.param("kafka", marks=pytest.mark.java)])
def brokers(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if request.param.startswith("headrace"):
        enable = str("phases" in request.param).lower()
        with Cluster(settings={"transaction.two.phase.commit.enable": enable}) as cluster:
            yield cluster.bootstrap_servers
        return
    try:
        with ApacheKafkaBroker(tmp_path_factory.mktemp("kafka") / "data", NEVER_FENCED) as broker:
            broker.start()
            yield broker.bootstrap
    except UnavailableError as reason:
        pytest.skip(str(reason))


class Died(BaseException):
    """The process is gone here: nobody can do anything about it."""


class Query:
    """A streaming query that writes numbers; every start is a new run, which repeats the batch that died."""

    def __init__(self, brokers: str) -> None:
        self.brokers = brokers
        self.id = uuid.uuid4().hex
        self.topic = f"t-{self.id[:8]}"
        self.run = 0
        with Admin(bootstrap_servers=brokers) as admin:
            admin.create_topic(self.topic, partitions=2)

    def strategy(self, **more: str) -> ExactlyOnce:
        given = {"kafka.bootstrap.servers": self.brokers, "topic": self.topic} | more
        return ExactlyOnce(write_options(given), WriteColumns(("value",), has_topic=False))

    def task(self, batch: int, number: int, *, attempt: int = 0, run: int | None = None) -> TaskCommitMessage:
        first = (batch * TASKS + number) * ROWS
        rows = pa.record_batch({"value": [b"%d" % each for each in range(first, first + ROWS)]})
        name = f"run{self.run if run is None else run}"
        return self.strategy().write([rows], TaskIdentity(self.id, batch, number, attempt, name))

    def tasks(self, batch: int) -> list[TaskCommitMessage]:
        return [self.task(batch, number) for number in range(TASKS)]

    def restart(self) -> None:
        self.run += 1

    def batch(self, number: int) -> None:
        self.strategy().commit(self.tasks(number), number)

    def values(self) -> list[int]:
        """What a reader of committed records sees."""
        return sorted(int(record.value) for record in whole_topic(self.brokers, self.topic))

    def open(self) -> list[str]:
        with Admin(bootstrap_servers=self.brokers) as admin:
            listed = admin.list_transactions(states=("Ongoing",))
        return [each.transactional_id for each in listed if self.id in each.transactional_id]


@pytest.fixture
def query(brokers: str) -> Query:
    return Query(brokers)


def expected(batches: int) -> list[int]:
    return list(range(batches * TASKS * ROWS))


def test_batches_are_seen_when_they_are_committed(query: Query) -> None:
    messages = query.tasks(0)
    assert query.values() == []
    assert len(query.open()) == TASKS
    query.strategy().commit(messages, 0)
    assert query.values() == expected(1)
    query.batch(1)
    assert query.values() == expected(2)
    assert query.open() == []


def test_a_run_that_dies_in_its_tasks_leaves_nothing(query: Query) -> None:
    query.batch(0)
    query.task(1, 0)
    query.task(1, 2)
    query.restart()
    query.batch(1)
    assert query.values() == expected(2)
    assert query.open() == []


def dies_before(monkeypatch: pytest.MonkeyPatch, target: object, name: str) -> Callable[[], None]:
    def die(*_: object, **__: object) -> None:
        raise Died

    monkeypatch.setattr(target, name, die)
    return monkeypatch.undo


@LONG_ON_KAFKA
def test_a_driver_that_dies_before_it_decides_has_decided_nothing(
    query: Query, monkeypatch: pytest.MonkeyPatch
) -> None:
    messages = query.tasks(0)
    undo = dies_before(monkeypatch, DecisionLog, "decide")
    with pytest.raises(Died):
        query.strategy().commit(messages, 0)
    undo()
    query.restart()
    query.batch(0)
    assert query.values() == expected(1)
    assert query.open() == []


def test_a_driver_that_dies_while_it_decides_has_decided_nothing(
    query: Query, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its decision is written, but not committed: the next run fences it and does not wait for its end."""
    left: list[Producer] = []

    class DyingProducer(Producer):
        def commit_transaction(self) -> None:
            self.flush()
            left.append(self)
            raise Died

        def abort_transaction(self) -> None:
            pass  # who is dead cannot

        def close(self, timeout_ms: int | None = None) -> None:
            pass

    messages = query.tasks(0)
    monkeypatch.setattr(decision_log, "_DECIDING_MS", 600_000)
    monkeypatch.setattr(decision_log, "Producer", DyingProducer)
    with pytest.raises(Died):
        query.strategy().commit(messages, 0)
    monkeypatch.undo()
    query.restart()
    query.batch(0)
    assert query.values() == expected(1)
    assert query.open() == []
    for producer in left:
        producer.close(timeout_ms=0)


def test_a_driver_that_dies_amid_what_it_decided_is_finished_by_the_next(
    query: Query, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_death_after_decision(query, monkeypatch, 1)


@LONG_ON_KAFKA
@pytest.mark.parametrize("finished", [0, *range(2, TASKS + 1)])
def test_a_driver_that_dies_elsewhere_after_it_decided_is_finished_too(
    query: Query, monkeypatch: pytest.MonkeyPatch, finished: int
) -> None:
    check_death_after_decision(query, monkeypatch, finished)


def check_death_after_decision(query: Query, monkeypatch: pytest.MonkeyPatch, finished: int) -> None:
    def finish_some(_: object, log: DecisionLog, decision: BatchDecision) -> None:
        for each in decision.transactions[:finished]:
            log.admin.end_transaction(each.transactional_id, each.producer_id, each.epoch, committed=True)
        raise Died

    query.batch(0)
    messages = query.tasks(1)
    monkeypatch.setattr(ExactlyOnce, "_finish", finish_some)
    with pytest.raises(Died):
        query.strategy().commit(messages, 1)
    monkeypatch.undo()
    # An abort may come after a commit that did its work.
    query.strategy().abort(messages, 1)
    query.restart()
    repeated = query.tasks(1)
    assert all(message.transaction is None for message in repeated), "it is decided: nothing is written"
    query.strategy().commit(repeated, 1)
    query.batch(2)
    assert query.values() == expected(3)
    assert query.open() == []


@LONG_ON_KAFKA
def test_a_batch_that_spark_repeats_though_it_was_committed_is_written_once(query: Query) -> None:
    query.batch(0)
    query.restart()
    query.batch(0)
    query.batch(1)
    assert query.values() == expected(2)


def test_attempts_that_lose_are_aborted(query: Query) -> None:
    messages = [query.task(0, 0), query.task(0, 1)]
    query.task(0, 2, attempt=0)
    messages.append(query.task(0, 2, attempt=1))
    query.strategy().commit(messages, 0)
    assert query.values() == expected(1)
    assert query.open() == []


@LONG_ON_KAFKA
@pytest.mark.parametrize(("size", "count"), [(1, 1), (KEYLESS_PIECE_BYTES, 16)])
def test_an_attempt_that_still_writes_when_its_twin_has_won_is_in_vain(
    query: Query, size: int, count: int
) -> None:
    """As with speculation: both write at once, and Spark commits without waiting for the slower one. Small
    rows are still with it by then, and its transaction begins late; many fill batches that it has sent."""
    rows = pa.record_batch({"value": [b"x" * size] * count})

    def slower() -> Iterator[pa.RecordBatch]:
        yield rows
        yield rows
        query.batch(0)
        yield rows

    with pytest.raises(ClientError) if count > 1 else nullcontext():
        query.strategy().write(slower(), TaskIdentity(query.id, 0, 1, 1, "run0"))
    query.batch(1)
    assert query.values() == expected(2)
    assert query.open() == []


def test_a_run_that_was_thought_dead_can_decide_nothing(query: Query) -> None:
    """Its driver slept while another run wrote the batch, or began to."""
    old = query.tasks(0)
    query.restart()
    new = query.tasks(0)
    with pytest.raises(SinkError, match="another run"):
        query.strategy().commit(old, 0)
    query.strategy().abort(old, 0)
    query.strategy().commit(new, 0)
    with pytest.raises(SinkError, match="another run"):
        query.task(0, 0, run=0)
    assert query.values() == expected(1)
    assert query.open() == []


@LONG_ON_KAFKA
@pytest.mark.parametrize("asleep", ["in its commit", "in its abort"])
def test_a_run_that_wakes_up_late_aborts_nothing_of_the_next(
    query: Query, monkeypatch: pytest.MonkeyPatch, asleep: str
) -> None:
    """It has decided and finished, sleeps, and goes on to tidy up while another run writes."""
    old = query.tasks(0)
    sweep, newer = ExactlyOnce._sweep, list[TaskCommitMessage]()

    def sleep_then_sweep(strategy: ExactlyOnce, *arguments: Any) -> None:
        monkeypatch.undo()
        query.restart()
        query.batch(0)
        newer.extend(query.tasks(1))
        sweep(strategy, *arguments)

    if asleep == "in its abort":
        query.strategy().commit(old, 0)
    monkeypatch.setattr(ExactlyOnce, "_sweep", sleep_then_sweep)
    (query.strategy().commit if asleep == "in its commit" else query.strategy().abort)(old, 0)
    assert len(query.open()) == TASKS
    query.strategy().commit(newer, 1)
    assert query.values() == expected(2)
    assert query.open() == []


@LONG_ON_KAFKA
def test_an_abort_gives_up_what_is_not_decided(query: Query) -> None:
    messages = query.tasks(0)
    query.strategy().abort([*messages, None], 0)
    assert query.open() == []
    query.restart()
    query.batch(0)
    assert query.values() == expected(1)


def test_an_abort_gives_up_what_no_broker_lists(query: Query, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody comes after a batch write: what its abort does not find would be open for as long as may be."""
    rows = pa.record_batch({"value": [b"1"]})
    strategy = query.strategy()
    message = strategy.write([rows], TaskIdentity(None, None, 0, 0))
    assert message.transaction is not None
    with monkeypatch.context() as patch:
        patch.setattr(Admin, "list_transactions", lambda *_, **__: [])
        strategy.abort([message, None], None)
    with Admin(bootstrap_servers=query.brokers) as admin:
        still_open = {each.transactional_id for each in admin.list_transactions(states=("Ongoing",))}
    assert message.transaction.transactional_id not in still_open


def test_a_batch_write_is_all_or_nothing(query: Query) -> None:
    rows = pa.record_batch({"value": [b"1", b"2"]})
    for is_committed in (False, True):
        strategy = query.strategy()
        messages = [strategy.write([rows], TaskIdentity(None, None, number, 0)) for number in range(2)]
        assert query.values() == []
        (strategy.commit if is_committed else strategy.abort)(messages, None)
    assert query.values() == [1, 1, 2, 2]


def idle_logs(query: Query) -> list[str]:
    return [each.key[0] for each in exactly_once._LOGS._idle if each.key[0] == query.id]


def client_threads() -> set[threading.Thread]:
    """Those of clients; the brokers of this process have others, as many as they need just now."""
    names = ("headrace-producer", "headrace-consumer", "headrace-admin")
    return {each for each in threading.enumerate() if each.name in names}


@LONG_ON_KAFKA
def test_a_worker_keeps_the_decision_logs_of_a_few_queries_only(brokers: str) -> None:
    exactly_once._LOGS.close()
    before = client_threads()
    queries = [Query(brokers) for _ in range(IDLE_MAX + 2)]
    for each in queries:
        each.batch(0)
    assert [len(idle_logs(each)) for each in queries] == [0, 0, *[1] * IDLE_MAX]
    assert len(exactly_once._LOGS._idle) == IDLE_MAX
    exactly_once._LOGS.close()
    assert exactly_once._LOGS._idle == []
    assert client_threads() <= before
    queries[-1].batch(1)
    assert queries[-1].values() == expected(2)


@LONG_ON_KAFKA
def test_a_batch_write_closes_its_decision_log(query: Query) -> None:
    rows = pa.record_batch({"value": [b"1"]})
    exactly_once._LOGS.close()
    for end in ("commit", "abort"):
        strategy = query.strategy()
        message = strategy.write([rows], TaskIdentity(None, None, 0, 0))
        assert len(exactly_once._LOGS._idle) == 1
        getattr(strategy, end)([message], None)
        assert exactly_once._LOGS._idle == []


@LONG_ON_KAFKA
def test_an_empty_task_opens_nothing(query: Query) -> None:
    message = query.strategy().write([], TaskIdentity(query.id, 0, 0, 0, "run0"))
    assert message.transaction is None
    query.strategy().commit([message], 0)
    assert query.open() == []


def test_two_phases_are_used_where_brokers_allow_them(
    brokers: str, query: Query, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[Mapping[str, str]] = []
    open_one = exactly_once.opened_producer
    monkeypatch.setattr(
        exactly_once, "opened_producer", lambda given: opened.append(given) or open_one(given)
    )
    query.tasks(0)
    allows = "phases" in request.node.callspec.params["brokers"]
    # A refusal is remembered: only the first task has asked.
    assert len(opened) == TASKS + (not allows)
    with Admin(bootstrap_servers=brokers) as admin:
        (name, *_) = query.open()
        timeout_ms = admin.describe_transactions(name)[name].timeout_ms
    assert (timeout_ms == 2**31 - 1) is allows


def test_names_that_are_the_sinks_own_are_refused() -> None:
    settings = {"kafka.bootstrap.servers": "h:1", "topic": "t"}
    with pytest.raises(OptionError, match="slash"):
        write_options(settings | {"sinkId": "a/b"})
    with pytest.raises(SinkError, match="sinkId"):
        ExactlyOnce(
            write_options(settings | {"kafka.transactional.id": "x"}),
            WriteColumns(("value",), has_topic=False),
        )
