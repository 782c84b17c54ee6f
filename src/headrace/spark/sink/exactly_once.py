"""Exactly once: each task leaves an open transaction, and one durable decision says which of them count.

A task first sees to it that its run of the query is the one that decides (`DecisionLog.claim`), and writes
nothing where its batch is decided already: then Spark only did not hear of it. It writes in a transaction of
its own, named after the sink, the run, the batch, the task and the attempt, so that no attempt disturbs
another, and leaves it open. The driver's commit decides, then commits the transactions that the decision
names, and aborts all others of this sink: those of attempts that lost, and of runs that died. Whatever dies
in between, the next run of the batch finds either no decision, and everything is written anew, or one, and
finishes it.

Where brokers allow two-phase commit (KIP-939) open transactions wait for as long as it takes. Elsewhere they
wait for transaction.timeout.ms: a batch that was decided and is not finished in that time is lost, and that
is an error.
"""

import uuid
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, closing
from typing import Final

import pyarrow as pa

from headrace.base.error_codes import ErrorCode
from headrace.clients import Producer
from headrace.clients.errors import ClientError, RefusedError, UnsupportedError
from headrace.spark.options import WriteOptions
from headrace.spark.sink import SinkError
from headrace.spark.sink.columns import WriteColumns
from headrace.spark.sink.commit_message import TaskCommitMessage, TaskIdentity
from headrace.spark.sink.decision_log import PREFIX, BatchDecision, DecisionLog, SinkTransaction
from headrace.spark.sink.producers import opened_producer, producer_settings
from headrace.spark.sink.rows import send_rows
from headrace.spark.worker import WorkerClients

# Batches that share transactional ids are so far apart: a stray attempt of one cannot meet the other.
_SLOTS: Final = 8
# What Apache Kafka's brokers allow at most by default (transaction.max.timeout.ms).
_TIMEOUT_MS: Final = 900_000
_TWO_PHASE: Final = "transaction.two.phase.commit.enable"
_REFUSES_TWO_PHASE: Final = frozenset(
    {
        ErrorCode.UNSUPPORTED_VERSION,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INVALID_TRANSACTION_TIMEOUT,
    }
)
_ENDING_THREADS: Final = 8

# The decision logs that no task of this worker uses now.
_LOGS: Final = WorkerClients(DecisionLog.close)


class ExactlyOnce:
    """Of a streaming query, or of one batch write, which is never repeated."""

    def __init__(self, options: WriteOptions, columns: WriteColumns) -> None:
        self._settings = producer_settings(options.settings)
        if "transactional.id" in self._settings:
            raise SinkError("kafka.transactional.id: the sink names its transactions itself; use `sinkId`")
        self._topic = options.topic
        self._columns = columns
        self._sink_id = options.sink_id
        self._job = uuid.uuid4().hex  # of a batch write, which has no query

    def write(self, batches: Iterable[pa.RecordBatch], task: TaskIdentity) -> TaskCommitMessage:
        sink, query, run, batch = self._names(task)
        with self._log(sink) as log:
            decision = log.claim(run).decision
            if decision is not None and decision.is_about(query, batch):
                return TaskCommitMessage(task, {})
            name = f"{PREFIX}{sink}/{run}/{batch % _SLOTS}/{task.partition}/{task.attempt}"
            opened = self._opened(log, name)
        with closing(opened) as producer:  # what was prepared stays open, all else is aborted
            producer.begin_transaction()
            written = send_rows(producer, batches, self._columns, self._topic)
            if not written:
                return TaskCommitMessage(task, {})
            return TaskCommitMessage(task, written, SinkTransaction(name, *producer.prepare_transaction()))

    def commit(self, messages: Sequence[TaskCommitMessage | None], batch_id: int | None) -> None:
        tasks = [message.task for message in messages if message is not None]
        if not tasks:
            return
        sink, query, run, batch = self._names(tasks[0])
        with self._log(sink, is_last=sink == self._job) as log:
            before = log.claim(run).decision
            is_repeat = before is not None and before.is_about(query, batch)
            if before is not None and (is_repeat or before.run != run):
                self._finish(log, before)  # who decided that may have died before it was done
            found = tuple(each.transaction for each in messages if each is not None and each.transaction)
            if found and not is_repeat:
                self._finish(log, log.decide(BatchDecision(run, query, batch, found)))
            self._sweep(log, sink, run)

    def abort(self, messages: Sequence[TaskCommitMessage | None], batch_id: int | None) -> None:
        """Give up what is not decided. What fails here is left to the next run, which sweeps too."""
        tasks = [message.task for message in messages if message is not None]
        if tasks:
            sink, _, run, _ = self._names(tasks[0])
            named = {each.transaction.transactional_id for each in messages if each and each.transaction}
            with self._log(sink, is_last=sink == self._job) as log:
                self._sweep(log, sink, run, named)

    def _names(self, task: TaskIdentity) -> tuple[str, str, str, int]:
        """Sink, query, run and batch."""
        if task.query_id is None:
            return self._sink_id or self._job, self._job, self._job, 0
        return self._sink_id or task.query_id, task.query_id, task.run_id or self._job, task.batch_id or 0

    def _log(self, sink: str, *, is_last: bool = False) -> AbstractContextManager[DecisionLog]:
        """The sink's log for one task, or for one commit, which is a batch write's last use of it."""
        key = (sink, *sorted(self._settings.items()))
        return _LOGS.lent(key, lambda: DecisionLog(self._settings, sink), is_last=is_last)

    # A task's transaction

    def _opened(self, log: DecisionLog, name: str) -> Producer:
        settings = {**self._settings, "transactional.id": name}
        if _TWO_PHASE not in settings and log.allows_two_phase:
            try:
                return _begun({**_without_timeout(settings), _TWO_PHASE: "true"})
            except (UnsupportedError, RefusedError) as error:
                if isinstance(error, RefusedError) and error.code not in _REFUSES_TWO_PHASE:
                    raise
                log.allows_two_phase = False
        if settings.get(_TWO_PHASE) == "true":
            return _begun(_without_timeout(settings))
        return _begun({"transaction.timeout.ms": str(_TIMEOUT_MS), **settings})

    # After a decision

    def _finish(self, log: DecisionLog, decision: BatchDecision) -> None:
        """Commit what was decided on. Again is harmless."""

        def commit(each: SinkTransaction) -> None:
            log.admin.end_transaction(each.transactional_id, each.producer_id, each.epoch, committed=True)

        try:
            with ThreadPoolExecutor(_ENDING_THREADS) as threads:
                list(threads.map(commit, decision.transactions))
        except RefusedError as error:
            raise SinkError(
                f"batch {decision.batch} of query {decision.query} was decided, but its transactions are "
                f"gone ({error}). Where brokers have no two-phase commit, they abort a transaction after "
                "transaction.timeout.ms: raise it, and start a query again before it is over"
            ) from error

    def _sweep(self, log: DecisionLog, sink: str, run: str, given_up: AbstractSet[str] = frozenset()) -> None:
        """Abort this sink's open transactions that no decision names, and those that tasks told of.

        They are listed before it is read who decides now: where that is still this run, none of them can be
        that of a later one, whose tasks claim before they write. A run that slept must not abort those.
        """
        prefix = f"{PREFIX}{sink}/"
        names = {each.transactional_id for each in log.admin.list_transactions(states=("Ongoing",))}
        # A broker that is fenced for a moment is asked by nobody what it coordinates.
        names = {name for name in names if name.startswith(prefix)} | given_up
        if not names:
            return
        state = log.read()
        if state.run != run:
            return
        if state.decision is not None:
            names.difference_update(each.transactional_id for each in state.decision.transactions)
        for name in names:
            log.admin.fence_producer(name)


def _begun(settings: Mapping[str, str]) -> Producer:
    producer = opened_producer(settings)
    try:
        producer.init_transactions()
    except ClientError:
        producer.close(timeout_ms=0)
        raise
    return producer


def _without_timeout(settings: Mapping[str, str]) -> dict[str, str]:
    """Transactions of two-phase commit have none."""
    return {name: value for name, value in settings.items() if name != "transaction.timeout.ms"}
