"""The small cores: fetch sessions, metadata, partitioners, back-off, settings, aborted records, the bell."""

import random
from collections import Counter

import pytest

from headrace.base.error_codes import ErrorCode
from headrace.base.ids import TopicPartition
from headrace.clients.config import CONSUMER, PRODUCER, TABLES, ClientConfig
from headrace.clients.errors import ClientError
from headrace.clients.internals.consumer.completed_fetch import CompletedFetch
from headrace.clients.internals.consumer.fetcher import FetchSessionHandler, FetchTarget
from headrace.clients.internals.consumer.subscription_state import TopicPartitionState
from headrace.clients.internals.metadata import NOBODY, LeaderAndEpoch, Metadata
from headrace.clients.internals.producer.encoding import encode_rows
from headrace.clients.internals.producer.partitioners import RoundRobinPartitioner, StickyPartitioner
from headrace.records.batch import Record, build_batch, build_txn_marker, encode_record
from headrace.records.columns import schema
from headrace.settings.definition import SettingError
from headrace.transport.backoff import Backoff
from headrace.wire.schemas.fetch import FetchRequest
from headrace.wire.schemas.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
ID = bytes(range(16))


def wanted(offset: int) -> FetchTarget:
    return FetchTarget(ID, offset, 0, 1_000)


class TestFetchSession:
    def ask(self, session: FetchSessionHandler, **offsets: int) -> FetchRequest:
        request = FetchRequest()
        partitions = {TopicPartition("t", int(name[1:])): wanted(offset) for name, offset in offsets.items()}
        session.fill(request, partitions)
        return request

    def names(self, request: FetchRequest) -> tuple[list[int], list[int]]:
        return (
            [each.partition for topic in request.topics for each in topic.partitions],
            [each for topic in request.forgotten_topics_data for each in topic.partitions],
        )

    def test_everything_once_then_what_changed(self) -> None:
        session = FetchSessionHandler()
        first = self.ask(session, p0=0, p1=0)
        assert (first.session_id, first.session_epoch, self.names(first)) == (0, 0, ([0, 1], []))
        assert session.answered(0, 77)
        second = self.ask(session, p0=5, p1=0)
        assert (second.session_id, second.session_epoch, self.names(second)) == (77, 1, ([0], []))
        session.answered(0, 77)
        third = self.ask(session, p1=0, p2=0)
        assert (third.session_epoch, self.names(third)) == (2, ([2], [0]))

    @pytest.mark.parametrize(
        "code", [ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.INVALID_FETCH_SESSION_EPOCH]
    )
    def test_a_lost_session_begins_anew(self, code: ErrorCode) -> None:
        session = FetchSessionHandler()
        self.ask(session, p0=0)
        session.answered(0, 77)
        self.ask(session, p0=3)
        assert not session.answered(code, 0)
        again = self.ask(session, p0=3)
        assert (again.session_id, again.session_epoch, self.names(again)) == (0, 0, ([0], []))

    def test_a_broker_without_sessions(self) -> None:
        session = FetchSessionHandler()
        for _ in range(2):
            assert self.ask(session, p0=0).session_epoch == 0
            session.answered(0, 0)


def metadata(leader: int, epoch: int, topic_id: bytes = ID, error: int = 0) -> MetadataResponse:
    partition = MetadataResponsePartition(partition_index=0, leader_id=leader, leader_epoch=epoch)
    topic = MetadataResponseTopic(error_code=error, name="t", topic_id=topic_id, partitions=[partition])
    return MetadataResponse(brokers=[MetadataResponseBroker(1, "h", 1)], topics=[topic])


class TestMetadata:
    def test_an_older_epoch_changes_nothing(self) -> None:
        view = Metadata()
        view.learn(metadata(leader=1, epoch=5))
        view.learn(metadata(leader=2, epoch=4))
        assert view.leader(T0) == LeaderAndEpoch(1, 5)
        assert view.learn_leader(T0, LeaderAndEpoch(3, 6))
        assert not view.learn_leader(T0, LeaderAndEpoch(3, 6))

    def test_a_topic_made_again_is_another_one(self) -> None:
        view = Metadata()
        view.learn(metadata(leader=1, epoch=5))
        view.learn(metadata(leader=2, epoch=0, topic_id=bytes(16)[:15] + b"x"))
        assert view.leader(T0) == LeaderAndEpoch(2, 0)
        assert ID not in view.names

    def test_a_topic_that_is_gone(self) -> None:
        view = Metadata()
        view.learn(metadata(leader=1, epoch=5))
        view.learn(metadata(leader=1, epoch=5, error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
        assert view.leader(T0) == NOBODY
        assert view.partition_count("t") == 0
        assert view.errors == {"t": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


class TestPartitioners:
    def test_sticky_moves_on_after_a_batch(self) -> None:
        chooser = StickyPartitioner(random.Random(1), batch_bytes=1_000)
        chosen = [chooser.partition("t", None, b"", 4, 100) for _ in range(400)]
        runs = [chosen[at : at + 10] for at in range(0, 400, 10)]
        assert all(len(set(run)) == 1 for run in runs)
        assert len(set(chosen)) == 4

    def test_a_busy_partition_gets_less(self) -> None:
        chooser = StickyPartitioner(random.Random(1), batch_bytes=1, loads=lambda topic, count: [9, 0])
        chosen = Counter(chooser.partition("t", None, b"", 2, 100) for _ in range(1_000))
        assert 30 < chosen[0] < 200

    def test_keys(self) -> None:
        chooser = StickyPartitioner(random.Random(1), batch_bytes=1)
        assert [chooser.partition("t", key, None, 5, 1) for key in (b"a", b"kafka", b"")] == [4, 0, 1]
        ignoring = StickyPartitioner(random.Random(1), batch_bytes=10**9, ignores_keys=True)
        assert len({ignoring.partition("t", b"%d" % n, None, 5, 1) for n in range(50)}) == 1

    def test_in_turn(self) -> None:
        chooser = RoundRobinPartitioner()
        assert [chooser.partition("t", b"k", None, 3, 1) for _ in range(5)] == [0, 1, 2, 0, 1]


def test_backoff_doubles_up_to_its_bound() -> None:
    backoff = Backoff(100, 1_000, random.Random(1))
    assert backoff.wait_ms(0) == 0
    for failures, plain in ((1, 100), (2, 200), (4, 800), (5, 1_000), (50, 1_000)):
        waits = {backoff.wait_ms(failures) for _ in range(50)}
        assert plain * 0.8 <= min(waits) < max(waits) <= plain * 1.2


class TestSettings:
    def test_names_as_keywords_and_values_as_python_has_them(self) -> None:
        config = ClientConfig(CONSUMER, bootstrap_servers=["a:1", "b:2"], enable_auto_commit=False)
        assert config.list("bootstrap.servers") == ("a:1", "b:2")
        assert not config.bool("enable.auto.commit")
        assert config.was_given("enable.auto.commit")
        assert not config.was_given("group.id")

    @pytest.mark.parametrize(
        ("given", "message"),
        [
            ({}, "bootstrap.servers: it must be given"),
            ({"bootstrap.servers": "a", "group.ids": "x"}, "did you mean group.id?"),
            ({"bootstrap.servers": "a", "fetch.min.bytes": "many"}, "is not a whole number"),
            ({"bootstrap.servers": "a", "isolation.level": "serial"}, "one of read_uncommitted"),
        ],
    )
    def test_what_is_wrong_is_named(self, given: dict[str, str], message: str) -> None:
        with pytest.raises(SettingError, match=message):
            ClientConfig(CONSUMER, given)

    def test_every_setting_is_explained(self) -> None:
        assert all(len(each.doc) > 10 for table in TABLES.values() for each in table.values())
        assert PRODUCER["linger.ms"].default == 5  # since Kafka 4.0


class TestChunks:
    def batch(self, first: int, *values: bytes, producer: int = -1, **options: bool) -> bytes:
        epoch = 0 if producer >= 0 else -1
        records = [Record(value=value, timestamp=5) for value in values]
        return bytes(
            build_batch(
                records,
                base_offset=first,
                producer_id=producer,
                producer_epoch=epoch,
                base_sequence=epoch,
                **options,
            )
        )

    def marker(self, offset: int, producer: int, *, commit: bool) -> bytes:
        return bytes(
            build_txn_marker(
                commit=commit,
                producer_id=producer,
                producer_epoch=0,
                coordinator_epoch=0,
                timestamp_ms=5,
                base_offset=offset,
            )
        )

    def values(
        self, data: bytes, position: int = 0, aborted: list[tuple[int, int]] | None = None
    ) -> list[bytes]:
        chunk = CompletedFetch(T0, data, aborted=aborted)
        found: list[bytes] = []
        while rows := chunk.next_rows(position):
            found += [row.value for row in rows.rows]
            position = rows.end
        return found

    def test_aborted_records_are_seen_by_those_who_ask_for_all(self) -> None:
        data = (
            self.batch(0, b"a", producer=1, transactional=True)
            + self.batch(1, b"b", producer=2, transactional=True)
            + self.marker(2, 1, commit=False)
            + self.batch(3, b"c", producer=1, transactional=True)
            + self.marker(4, 1, commit=True)
            + self.marker(5, 2, commit=True)
            + self.batch(6, b"d")
        )
        assert self.values(data) == [b"a", b"b", b"c", b"d"]
        assert self.values(data, aborted=[(0, 1)]) == [b"b", b"c", b"d"]
        assert self.values(data, aborted=[]) == [b"a", b"b", b"c", b"d"]

    def test_whole_batches_come_and_only_the_rest_is_given(self) -> None:
        data = self.batch(0, b"a", b"b", b"c") + self.batch(3, b"d")
        assert self.values(data, position=2) == [b"c", b"d"]
        assert self.values(data[:-3], position=2) == [b"c"]

    def test_a_flipped_bit_is_not_given_out(self) -> None:
        data = bytearray(self.batch(0, b"a" * 50))
        data[-10] ^= 1
        with pytest.raises(ClientError, match=r"t-0 at offset 0 is broken: the check sum"):
            self.values(bytes(data))

    @pytest.mark.parametrize("in_runs", [True, False])
    def test_nothing_is_passed_over(self, in_runs: bool, monkeypatch: pytest.MonkeyPatch) -> None:
        """What is broken fails each time, and what comes before it is given out first."""
        schema.column_kernels()
        if not in_runs:
            monkeypatch.setattr(schema, "_loaded", None)
        last = bytearray(self.batch(3, b"d"))
        last[-3] ^= 1
        chunk = CompletedFetch(
            T0, self.batch(0, b"a") + self.batch(1, b"b", b"c") + last + self.batch(4, b"e")
        )
        found: list[bytes] = []
        position = 0
        while position < 3:
            rows = chunk.next_rows(position)
            assert rows is not None
            found += [row.value for row in rows.rows]
            position = rows.end
        assert found == [b"a", b"b", b"c"]
        for _ in range(2):
            with pytest.raises(ClientError, match="offset 3 is wrong"):
                chunk.next_rows(position)

    def test_a_record_that_cannot_be_deserialized_waits(self) -> None:
        chunk = CompletedFetch(T0, self.batch(0, b"1", b"2", b"no number", b"4"))
        rows = chunk.next_rows(0, None, int)
        assert rows is not None
        assert ([row.value for row in rows.rows], rows.end) == ([1, 2], 2)
        for _ in range(2):
            with pytest.raises(ValueError, match="no number"):
                chunk.next_rows(2, None, int)
        again = chunk.next_rows(2)
        assert again is not None
        assert ([row.value for row in again.rows], again.end) == ([b"no number", b"4"], 4)


def test_rows_are_encoded_as_everywhere_else() -> None:
    rng = random.Random(1)

    def some_bytes() -> bytes | None:
        return rng.choice([None, b"", rng.randbytes(rng.choice([1, 70, 9_000]))])

    for _ in range(50):
        times = [rng.choice([0, 0, 5, -7, 9_000, 10**7]) for _ in range(rng.randint(1, 200))]
        headers = (("ä", b"1"), ("b", None))
        rows = [(10**12 + each, some_bytes(), some_bytes(), rng.choice([(), headers])) for each in times]
        expected = b"".join(
            encode_record(Record(0, *row), offset_delta=index, timestamp_delta=row[0] - 10**12)
            for index, row in enumerate(rows)
        )
        assert encode_rows(rows, 10**12) == expected


def test_what_was_fetched_before_a_seek_is_not_kept() -> None:
    state = TopicPartitionState(T0)
    state.seek(5)
    era = state.era
    state.add(CompletedFetch(T0, b""), 9, 0)
    assert (state.position, state.fetch_offset, state.has_data) == (5, 9, True)
    state.seek(2)
    assert (state.position, state.fetch_offset, state.has_data) == (2, 2, False)
    assert state.era > era
