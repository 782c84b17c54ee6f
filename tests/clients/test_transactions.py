"""A producer's transactions with a coordinator that answers by script: what is told to whom, and what each
refusal leads to.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from headrace.base.error_codes import ErrorCode
from headrace.base.ids import TopicPartition
from headrace.clients import ConsumerGroupMetadata, PreparedTxnState, Producer
from headrace.clients.config import producer_config
from headrace.clients.errors import AbortableError, ClientError, CommitFailedError, FencedError
from headrace.records.batch import read_header
from headrace.settings.definition import SettingError
from headrace.wire.schemas.add_offsets_to_txn import AddOffsetsToTxnResponse
from headrace.wire.schemas.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from headrace.wire.schemas.end_txn import EndTxnResponse
from headrace.wire.schemas.find_coordinator import Coordinator, FindCoordinatorResponse
from headrace.wire.schemas.init_producer_id import InitProducerIdResponse
from headrace.wire.schemas.txn_offset_commit import (
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from tests.clients.scripted import ScriptedCluster, Written

VERSION_1, VERSION_2 = 1, 2


class Book:
    """A transaction coordinator by script: `errors` are answered first, by API name."""

    def __init__(self, scripted: ScriptedCluster, level: int) -> None:
        self.scripted = scripted
        self.level = level
        self.epoch = 0
        self.errors: dict[str, list[int]] = {}
        self.ongoing = (-1, -1)
        self.written = Written(scripted)
        scripted.features["transaction.version"] = level
        scripted.handlers |= {
            "FindCoordinator": self._find,
            "InitProducerId": self._init,
            "AddPartitionsToTxn": self._add,
            "AddOffsetsToTxn": lambda request, node: AddOffsetsToTxnResponse(
                error_code=self._error("AddOffsetsToTxn")
            ),
            "TxnOffsetCommit": self._commit,
            "EndTxn": self._end,
        }

    def ends(self) -> list[tuple[bool, int]]:
        return [(each.committed, each.producer_epoch) for each in self.scripted.asked("EndTxn")]

    def _error(self, name: str) -> int:
        return self.errors[name].pop(0) if self.errors.get(name) else 0

    def _find(self, request: Any, node: int) -> FindCoordinatorResponse:
        (key,) = request.coordinator_keys
        found = Coordinator(key=key, node_id=1, host="127.0.0.1", port=self.scripted.ports[1])
        return FindCoordinatorResponse(coordinators=[found])

    def _init(self, request: Any, node: int) -> InitProducerIdResponse:
        error = self._error("InitProducerId")
        self.epoch += request.producer_id >= 0
        return InitProducerIdResponse(
            error_code=error,
            producer_id=7,
            producer_epoch=self.epoch,
            ongoing_txn_producer_id=self.ongoing[0],
            ongoing_txn_producer_epoch=self.ongoing[1],
        )

    def _add(self, request: Any, node: int) -> AddPartitionsToTxnResponse:
        error = self._error("AddPartitionsToTxn")
        topics = [
            AddPartitionsToTxnTopicResult(
                each.name, [AddPartitionsToTxnPartitionResult(number, error) for number in each.partitions]
            )
            for each in request.v3_and_below_topics
        ]
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=topics)

    def _commit(self, request: Any, node: int) -> TxnOffsetCommitResponse:
        error = self._error("TxnOffsetCommit")
        topics = [
            TxnOffsetCommitResponseTopic(
                each.name,
                partitions=[
                    TxnOffsetCommitResponsePartition(part.partition_index, error) for part in each.partitions
                ],
            )
            for each in request.topics
        ]
        return TxnOffsetCommitResponse(topics=topics)

    def _end(self, request: Any, node: int) -> EndTxnResponse:
        error = self._error("EndTxn")
        if not error and self.level >= VERSION_2:
            self.epoch += 1
        return EndTxnResponse(error_code=error, producer_id=7, producer_epoch=self.epoch)


@pytest.fixture(params=[VERSION_1, VERSION_2], ids=["version 1", "version 2"])
def book(request: pytest.FixtureRequest) -> Iterator[Book]:
    with ScriptedCluster() as scripted:
        yield Book(scripted, request.param)


def producer_of(book: Book, **settings: Any) -> Producer:
    usual: dict[str, Any] = {"transactional_id": "x", "retry_backoff_ms": 10, "max_block_ms": 60_000}
    found = Producer(bootstrap_servers=book.scripted.address, **usual | settings)
    found.init_transactions()
    return found


def test_a_commit_writes_marked_batches_and_then_ends(book: Book) -> None:
    with producer_of(book) as producer:
        for _ in range(2):
            with producer.transaction():
                producer.send("t", b"a")
                producer.send("t", b"b")
    headers = [read_header(each) for each in book.written.batches[0]]
    assert all(each.is_transactional for each in headers)
    if book.level == VERSION_1:
        assert [each.v3_and_below_topics[0].partitions for each in book.scripted.asked("AddPartitionsToTxn")]
        # The same epoch: sequences go on.
        assert [(each.producer_epoch, each.base_sequence) for each in headers] == [(0, 0), (0, 2)]
        assert book.ends() == [(True, 0), (True, 0)]
    else:
        assert not book.scripted.asked("AddPartitionsToTxn")
        assert [(each.producer_epoch, each.base_sequence) for each in headers] == [(0, 0), (1, 0)]
        assert book.ends() == [(True, 0), (True, 1)]
    order = [name for _, name, _, _ in book.scripted.requests if name in ("Produce", "EndTxn")]
    assert order == ["Produce", "EndTxn"] * 2
    versions = {name: version for _, name, version, _ in book.scripted.requests}
    assert (versions["Produce"] >= 12, versions["EndTxn"] >= 5) == ((book.level == VERSION_2,) * 2)
    assert {each.transactional_id for each in book.scripted.asked("Produce")} == {"x"}


def test_an_abort_drops_what_was_not_sent(book: Book) -> None:
    with producer_of(book, linger_ms=60_000, delivery_timeout_ms=200_000) as producer:
        producer.begin_transaction()
        delivery = producer.send("t", b"never")
        producer.abort_transaction()
        assert "aborted" in str(delivery.exception(0))
        assert not book.scripted.asked("Produce")
        assert not book.ends(), "nobody has heard of the transaction"
        with producer.transaction():
            producer.send("t", b"later")
    assert book.written.values(0) == [b"later"]


def test_an_exception_in_the_block_aborts(book: Book) -> None:
    with producer_of(book) as producer:
        with pytest.raises(ZeroDivisionError), producer.transaction():
            producer.send("t", b"%d" % (producer.send("t", b"a").result(10).offset // 0))
        assert [committed for committed, _ in book.ends()] == [False]


def test_closing_aborts_what_is_open(book: Book) -> None:
    with producer_of(book) as producer:
        producer.begin_transaction()
        producer.send("t", b"a").result(10)
    assert [committed for committed, _ in book.ends()] == [False]


def test_a_refused_record_makes_the_commit_fail_and_an_abort_mends_it(book: Book) -> None:
    with producer_of(book) as producer:
        book.written.errors = [ErrorCode.INVALID_RECORD]
        producer.begin_transaction()
        producer.send("t", b"bad").exception(10)
        with pytest.raises(AbortableError, match="can only be aborted"):
            producer.send("t", b"more")
        with pytest.raises(AbortableError):
            producer.commit_transaction()
        producer.abort_transaction()
        with producer.transaction():
            producer.send("t", b"good")
    # Whether the first was written is not certain to the producer: it goes on with another epoch.
    assert read_header(book.written.batches[0][0]).producer_epoch == 1
    assert [committed for committed, _ in book.ends()] == [False, True]


def test_a_lost_answer_to_the_commit_is_asked_for_again(book: Book) -> None:
    with producer_of(book) as producer:
        book.errors["EndTxn"] = [ErrorCode.NOT_COORDINATOR, ErrorCode.CONCURRENT_TRANSACTIONS]
        with producer.transaction():
            producer.send("t", b"a")
    assert [committed for committed, _ in book.ends()] == [True] * 3
    # It was looked for anew when it had moved.
    assert len(book.scripted.asked("FindCoordinator")) == 2


@pytest.mark.parametrize("where", ["EndTxn", "InitProducerId", "Produce"])
def test_a_fenced_producer_can_do_nothing_more(book: Book, where: str) -> None:
    if where == "InitProducerId":
        book.errors[where] = [ErrorCode.PRODUCER_FENCED]
        with pytest.raises(FencedError):
            producer_of(book)
        return
    with producer_of(book) as producer:
        producer.begin_transaction()
        if where == "Produce":
            book.written.errors = [ErrorCode.PRODUCER_FENCED]
        else:
            book.errors[where] = [ErrorCode.INVALID_PRODUCER_EPOCH]
        producer.send("t", b"a")
        with pytest.raises(FencedError, match="another producer"):
            producer.commit_transaction()
        for forbidden in (producer.begin_transaction, producer.abort_transaction):
            with pytest.raises(FencedError):
                forbidden()


def test_a_stale_epoch_told_by_a_leader_can_be_aborted(book: Book) -> None:
    with producer_of(book) as producer:
        book.written.errors = [ErrorCode.INVALID_PRODUCER_EPOCH]
        producer.begin_transaction()
        producer.send("t", b"a").exception(10)
        with pytest.raises(AbortableError):
            producer.commit_transaction()
        producer.abort_transaction()
        with producer.transaction():
            producer.send("t", b"b")
    assert book.written.values(0) == [b"b"]


def test_offsets_go_with_the_transaction(book: Book) -> None:
    group = ConsumerGroupMetadata("g", 3, "member", None)
    with producer_of(book) as producer, producer.transaction():
        producer.send_offsets_to_transaction({TopicPartition("t", 0): 5}, group)
    (asked,) = book.scripted.asked("TxnOffsetCommit")
    assert (asked.group_id, asked.generation_id, asked.member_id) == ("g", 3, "member")
    assert asked.topics[0].partitions[0].committed_offset == 5
    assert len(book.scripted.asked("AddOffsetsToTxn")) == (book.level == VERSION_1)
    assert [committed for committed, _ in book.ends()] == [True]


def test_offsets_of_a_consumer_that_is_out_of_its_group_are_refused(book: Book) -> None:
    with producer_of(book) as producer:
        book.errors["TxnOffsetCommit"] = [ErrorCode.ILLEGAL_GENERATION]
        with pytest.raises(CommitFailedError, match="another member"), producer.transaction():
            producer.send_offsets_to_transaction({TopicPartition("t", 0): 5}, ConsumerGroupMetadata("g"))
        assert [committed for committed, _ in book.ends()] == [False]


def test_closing_does_not_wait_for_what_a_fenced_producer_holds(book: Book) -> None:
    with producer_of(book, linger_ms=60_000, delivery_timeout_ms=200_000) as producer:
        book.errors["TxnOffsetCommit"] = [ErrorCode.PRODUCER_FENCED]
        producer.begin_transaction()
        delivery = producer.send("t", b"a")
        with pytest.raises(FencedError):
            producer.send_offsets_to_transaction({TopicPartition("t", 0): 5}, ConsumerGroupMetadata("g"))
    assert isinstance(delivery.exception(0), FencedError)


def test_partitions_that_the_coordinator_refuses_end_the_transaction() -> None:
    with ScriptedCluster() as scripted:
        book = Book(scripted, VERSION_1)
        with producer_of(book) as producer:
            book.errors["AddPartitionsToTxn"] = [ErrorCode.TOPIC_AUTHORIZATION_FAILED]
            producer.begin_transaction()
            delivery = producer.send("t", b"a")
            with pytest.raises(AbortableError, match="add partitions"):
                producer.commit_transaction()
            assert isinstance(delivery.exception(10), AbortableError)
            producer.abort_transaction()
        assert not scripted.asked("Produce")


def test_a_prepared_transaction_is_completed_by_another_process() -> None:
    with ScriptedCluster() as scripted:
        scripted.versions[22] = (0, 6)
        book = Book(scripted, VERSION_2)
        settings: dict[str, Any] = {"transaction_two_phase_commit_enable": True}
        with producer_of(book, **settings) as producer:
            producer.begin_transaction()
            producer.send("t", b"a")
            prepared = producer.prepare_transaction()
            assert PreparedTxnState.parse(str(prepared)) == prepared == (7, 0)
            with pytest.raises(ClientError, match="prepared"):
                producer.send("t", b"b")
        assert not book.ends(), "closing leaves it prepared"
        for decided, is_committed in ((prepared, True), (PreparedTxnState(1, 1), False)):
            book.ongoing = (prepared.producer_id, prepared.epoch)
            with Producer(bootstrap_servers=scripted.address, transactional_id="x", **settings) as second:
                assert second.init_transactions(keep_prepared=True) == prepared
                assert second.complete_transaction(decided) is is_committed
        assert [committed for committed, _ in book.ends()] == [True, False]
        asked = scripted.asked("InitProducerId")
        assert [(each.enable_2pc, each.keep_prepared_txn) for each in asked] == [(True, False)] + [
            (True, True)
        ] * 2


def test_what_comes_out_of_order_is_said() -> None:
    with ScriptedCluster() as scripted:
        book = Book(scripted, VERSION_2)
        with producer_of(book) as producer:
            with pytest.raises(ClientError, match="send cannot be done now: the producer has no open"):
                producer.send("t", b"a")
            with pytest.raises(ClientError, match="commit_transaction cannot be done now"):
                producer.commit_transaction()
        with (
            Producer(bootstrap_servers=scripted.address) as plain,
            pytest.raises(ClientError, match=r"set transactional\.id"),
        ):
            plain.init_transactions()


def test_settings_that_do_not_go_with_transactions() -> None:
    for name, value in {"acks": "1", "enable.idempotence": False}.items():
        with pytest.raises(SettingError, match=r"transactional\.id|idempotence"):
            producer_config({"bootstrap.servers": "h:1", "transactional.id": "x", name: value})
    with pytest.raises(SettingError, match="never time out"):
        producer_config(
            {
                "bootstrap.servers": "h:1",
                "transaction.two.phase.commit.enable": True,
                "transaction.timeout.ms": 5,
            }
        )
