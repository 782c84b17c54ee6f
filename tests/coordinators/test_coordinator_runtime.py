"""The coordinators' runtime: loading in pieces, writing, and leadership that comes and goes."""

from collections.abc import Iterator

import pytest

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.base.ids import NO_TOPIC_ID, TopicPartition
from headrace.base.producer_id_and_epoch import ProducerIdAndEpoch
from headrace.coordinators.coordinator_shard import CoordinatorRecord
from headrace.coordinators.drivers import coordinator_runtime as runtime_module
from headrace.coordinators.drivers.coordinator_runtime import APPEND_ERRORS, CoordinatorRuntime
from headrace.log.append import AppendOrigin
from headrace.log.log_loader import open_log
from headrace.log.storage import Storage
from headrace.metadata.topics import PartitionImage
from headrace.records.batch import Record, build_batch, build_txn_marker
from headrace.replication.partition import Partition
from headrace.settings.topic import TopicConfig
from headrace.testing.clock import VirtualClock
from headrace.testing.disk import VirtualDisk
from headrace.testing.loop import SimulatedLoop
from headrace.wire.record_frames import GROUP, encode_key, encode_value
from headrace.wire.schemas.group_records import OffsetCommitKey, OffsetCommitValue

TOPIC = "__consumer_offsets"
TP = TopicPartition(TOPIC, 0)


class Ledger:
    """A machine that only notes what happens to it."""

    def __init__(self) -> None:
        self.replayed: list[tuple[object, object | None]] = []
        self.pending: list[tuple[int, object]] = []
        self.states: list[str] = []

    def replay(self, key: object, value: object | None) -> None:
        self.replayed.append((key, value))

    def replay_transactional(self, producer_id: int, key: object, value: object | None) -> None:
        self.pending.append((producer_id, key))

    def replay_end_transaction_marker(self, producer_id: int, *, committed: bool) -> None:
        self.pending.append((producer_id, "committed" if committed else "aborted"))

    def on_loaded(self) -> None:
        self.states.append("loaded")

    def on_unloaded(self) -> None:
        self.states.append("unloaded")


class Bench:
    """One partition, led or not as told, and a runtime that follows it."""

    def __init__(self) -> None:
        self.loop = SimulatedLoop()
        self.clock = VirtualClock()
        self.disk = VirtualDisk()
        self.disk.make_folder("/data")
        log = open_log(Storage(self.disk), f"/data/{TP}", TP, TopicConfig(), now_ms=self.clock.now_ms())
        self.partition = Partition(TP, NO_TOPIC_ID, log, node_id=1, on_advance=self._advanced)
        self.shards: list[Ledger] = []
        self.activations = 0
        self.runtime: CoordinatorRuntime[Ledger] = CoordinatorRuntime(
            TOPIC,
            GROUP,
            clock=self.clock,
            loop=self.loop,
            make_shard=self._make,
            on_active=self._active,
        )
        self.lead()

    def _make(self, partition: int) -> Ledger:
        self.shards.append(Ledger())
        return self.shards[-1]

    def _active(self) -> None:
        self.activations += 1

    def _advanced(self, topic_partition: TopicPartition) -> None:
        self.runtime.on_high_watermark_updated(topic_partition)

    def lead(self, *in_sync: int, epoch: int = 0, leader: int = 1) -> None:
        image = PartitionImage((1, 2), in_sync or (1,), leader, epoch, partition_epoch=epoch)
        self.partition.follow_metadata(image)

    def follow(self) -> None:
        self.runtime.on_leadership_change(self.partition)

    def run(self) -> None:
        """Until nothing is left to do."""
        while self.loop.has_work():
            self.loop.run_round()

    def append(self, *records: Record, **options: object) -> None:
        batch = build_batch(records, **options)  # type: ignore[arg-type]
        self.partition.append(batch, now_ms=0, origin=AppendOrigin.COORDINATOR, api_version=-1)

    def write(self, *records: CoordinatorRecord, replay: bool = True) -> list[ErrorCode]:
        done: list[ErrorCode] = []
        self.runtime.write(0, records, done.append, replay=replay)
        return done


def offset(group: str, number: int = 5, metadata: str = "") -> CoordinatorRecord:
    key = OffsetCommitKey(group=group, topic="t", partition=0)
    return CoordinatorRecord(key, OffsetCommitValue(offset=number, metadata=metadata), 4)


def raw(record: CoordinatorRecord) -> Record:
    value = None if record.value is None else encode_value(record.value, record.version)
    return Record(0, 0, encode_key(record.key), value, ())


@pytest.fixture
def bench() -> Iterator[Bench]:
    bench = Bench()
    yield bench
    bench.loop.kill()


# --- loading ----------------------------------------------------------------------------------------------


def test_an_empty_partition_serves_at_once(bench: Bench) -> None:
    bench.follow()
    assert bench.shards[0].states == ["loaded"]
    assert bench.runtime.shards() == bench.shards
    assert bench.activations == 1


def test_a_large_partition_is_loaded_in_pieces_and_others_are_served_between(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runtime_module, "LOAD_BYTES", 1000)
    for number in range(100):
        bench.append(raw(offset(f"group-{number}", metadata="m" * 50)))
    bench.follow()
    turns = 0
    while bench.runtime.loading:
        with pytest.raises(ApiError) as refused:
            bench.runtime.shard(0)
        assert refused.value.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert bench.write(offset("g")) == [ErrorCode.NOT_COORDINATOR]
        bench.loop.run_round()
        turns += 1
    assert turns > 10
    assert [key.group for key, _ in bench.shards[0].replayed] == [f"group-{n}" for n in range(100)]  # type: ignore[attr-defined]
    assert bench.runtime.shard(0) is bench.shards[0]
    assert bench.activations == 1


def test_what_nobody_here_knows_is_left_out(bench: Bench) -> None:
    of_the_future = Record(0, 0, (999).to_bytes(2, "big") + b"whatever", b"\x00\x00", ())
    without_key = Record(0, 0, None, b"value", ())
    bench.append(of_the_future, raw(offset("g")), without_key)
    marker = build_txn_marker(
        commit=True, producer_id=1, producer_epoch=0, coordinator_epoch=0, timestamp_ms=0
    )
    bench.partition.append(marker, now_ms=0, origin=AppendOrigin.COORDINATOR, api_version=-1)
    bench.append(raw(offset("h")._replace(value=None)))
    bench.follow()
    bench.run()
    assert [(key.group, value is None) for key, value in bench.shards[0].replayed] == [  # type: ignore[attr-defined]
        ("g", False),
        ("h", True),
    ]


def test_compressed_and_large_batches_are_loaded_too(bench: Bench) -> None:
    bench.append(*(raw(offset(f"g{number}", metadata="m" * 1000)) for number in range(2000)), codec=4)
    bench.append(*(raw(offset(f"h{number}", metadata="m" * 1000)) for number in range(2000)))
    bench.follow()
    bench.run()
    assert len(bench.shards[0].replayed) == 4000


@pytest.mark.parametrize("value", [b"", b"\x00", b"\x00\x63", b"\x00\x04\x00"])
def test_a_value_that_cannot_be_read_is_served_by_nobody(bench: Bench, value: bytes) -> None:
    bench.append(raw(offset("g")), Record(0, 0, encode_key(offset("h").key), value, ()))
    bench.follow()
    bench.run()
    assert bench.shards[0].states == ["unloaded"]
    assert not bench.runtime.loading
    with pytest.raises(ApiError) as refused:
        bench.runtime.shard(0)
    assert refused.value.code is ErrorCode.NOT_COORDINATOR


def test_a_disk_that_fails_while_loading(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime_module, "LOAD_BYTES", 1000)
    for number in range(100):
        bench.append(raw(offset(f"group-{number}", metadata="m" * 50)))
    bench.follow()
    bench.loop.run_round()
    bench.disk.faults.read_error_rate = 1.0
    bench.run()
    assert bench.shards[0].states == ["unloaded"]
    assert not bench.runtime.loading


def test_a_log_that_is_offline_is_not_loading_for_ever(bench: Bench) -> None:
    bench.partition.log = None
    bench.follow()
    assert not bench.runtime.loading
    assert bench.runtime.shards() == []


def test_leadership_that_goes_while_loading(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime_module, "LOAD_BYTES", 1000)
    for number in range(100):
        bench.append(raw(offset(f"group-{number}", metadata="m" * 50)))
    bench.follow()
    bench.loop.run_round()
    bench.lead(leader=2, epoch=1)
    bench.follow()
    bench.run()
    assert bench.shards[0].states == ["unloaded"]
    assert len(bench.shards[0].replayed) < 100
    bench.lead(epoch=2)
    bench.follow()
    bench.run()
    assert (len(bench.shards[1].replayed), bench.shards[1].states) == (100, ["loaded"])


# --- writing ----------------------------------------------------------------------------------------------


def test_a_write_is_replayed_and_answered(bench: Bench) -> None:
    bench.follow()
    assert bench.write(offset("g"), offset("h")) == [ErrorCode.NONE]
    assert [key.group for key, _ in bench.shards[0].replayed] == ["g", "h"]  # type: ignore[attr-defined]
    assert bench.write(offset("i"), replay=False) == [ErrorCode.NONE]
    assert len(bench.shards[0].replayed) == 2
    bench.runtime.unload(0)
    bench.follow()
    bench.run()
    assert [key.group for key, _ in bench.shards[1].replayed] == ["g", "h", "i"]  # type: ignore[attr-defined]


def test_a_write_waits_for_the_replicas_in_order(bench: Bench) -> None:
    bench.follow()
    bench.lead(1, 2)
    first, second = bench.write(offset("g")), bench.write(offset("h"))
    assert first == second == []
    bench.lead(1)
    assert first == second == [ErrorCode.NONE]


def test_what_was_loaded_is_settled_when_the_replicas_have_it(bench: Bench) -> None:
    """The leader before may have told nobody else: if this one ends too, it never was."""
    bench.follow()
    bench.lead(1, 2)
    bench.write(offset("g"))
    bench.runtime.unload(0)
    bench.follow()
    bench.run()
    settled: list[ErrorCode] = []
    bench.runtime.when_committed(0, settled.append)
    assert (len(bench.shards[1].replayed), settled) == (1, [])
    bench.lead(1)
    assert settled == [ErrorCode.NONE]


def test_who_waits_hears_that_the_leadership_went(bench: Bench) -> None:
    bench.follow()
    bench.lead(1, 2)
    waiting = bench.write(offset("g"))
    bench.lead(leader=2, epoch=1)
    bench.follow()
    assert waiting == [ErrorCode.NOT_COORDINATOR]
    assert bench.shards[0].states == ["loaded", "unloaded"]
    assert bench.write(offset("g")) == [ErrorCode.NOT_COORDINATOR]


def test_a_new_epoch_of_the_same_leader_keeps_the_machine(bench: Bench) -> None:
    bench.follow()
    bench.write(offset("g"))
    bench.lead(epoch=3)
    bench.follow()
    assert len(bench.shards) == 1
    assert bench.write(offset("h")) == [ErrorCode.NONE]


@pytest.mark.parametrize("error", [*APPEND_ERRORS, ErrorCode.INVALID_RECORD])
def test_what_a_failed_append_is_called(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, error: ErrorCode
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ApiError(error)

    bench.follow()
    monkeypatch.setattr(Partition, "append", fail)
    assert bench.write(offset("g")) == [APPEND_ERRORS.get(error, error)]
    assert bench.shards[0].replayed == []


def test_a_full_disk_changes_nothing(bench: Bench) -> None:
    bench.follow()
    bench.disk.faults.is_full = True
    failed = bench.write(offset("g"))
    assert failed[0] is not ErrorCode.NONE
    assert bench.shards[0].replayed == []
    bench.disk.faults.is_full = False
    assert bench.write(offset("g")) == [ErrorCode.NONE]


def test_another_topics_partitions_are_none_of_its_business(bench: Bench) -> None:
    bench.follow()
    bench.lead(1, 2)
    waiting = bench.write(offset("g"))
    bench.runtime.on_high_watermark_updated(TopicPartition("other", 0))
    bench.runtime.on_high_watermark_updated(TopicPartition(TOPIC, 7))
    assert waiting == []


# --- transactions -----------------------------------------------------------------------------------------


def marker(*, commit: bool, epoch: int = 1) -> bytearray:
    return build_txn_marker(
        commit=commit, producer_id=7, producer_epoch=epoch, coordinator_epoch=0, timestamp_ms=0
    )


@pytest.mark.parametrize("commit", [True, False])
def test_records_of_a_transaction_are_pending_until_its_marker_live_and_loaded(
    bench: Bench, commit: bool
) -> None:
    bench.follow()
    done: list[ErrorCode] = []
    bench.runtime.write(0, [offset("g")], done.append, writer=ProducerIdAndEpoch(7, 0))
    assert bench.shards[0].pending == [(7, offset("g").key)]
    bench.runtime.write_marker(0, marker(commit=commit), done.append)
    ended = (7, "committed" if commit else "aborted")
    assert (done, bench.shards[0].pending[1:]) == ([ErrorCode.NONE] * 2, [ended])
    bench.runtime.unload(0)
    bench.follow()
    bench.run()
    assert bench.shards[1].pending == bench.shards[0].pending
    assert bench.shards[1].replayed == []


def test_a_marker_is_answered_as_to_who_writes_to_a_partition(bench: Bench) -> None:
    done: list[ErrorCode] = []
    bench.runtime.write_marker(0, marker(commit=True), done.append)
    bench.follow()
    bench.runtime.write_marker(0, marker(commit=True, epoch=3), done.append)
    bench.runtime.write_marker(0, marker(commit=True, epoch=2), done.append)
    bench.lead(1, 2, epoch=1)
    bench.runtime.write_marker(0, marker(commit=True, epoch=4), done.append)
    assert done == [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NONE, ErrorCode.INVALID_PRODUCER_EPOCH]
    bench.runtime.unload(0)
    assert done[3:] == [ErrorCode.NOT_LEADER_OR_FOLLOWER]


def test_an_answer_that_rests_on_what_was_written_waits_for_it(bench: Bench) -> None:
    bench.follow()
    done: list[ErrorCode] = []
    bench.runtime.when_committed(0, done.append)
    assert done == [ErrorCode.NONE]
    bench.lead(1, 2, epoch=1)
    written = bench.write(offset("g"))
    bench.runtime.when_committed(0, done.append)
    assert (written, len(done)) == ([], 1)
    bench.lead(1, epoch=2)
    assert (written, done) == ([ErrorCode.NONE], [ErrorCode.NONE] * 2)
    bench.runtime.when_committed(1, done.append)
    assert done[2:] == [ErrorCode.NOT_COORDINATOR]
