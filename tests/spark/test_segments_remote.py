"""Direct reading of what has left the brokers' disks: out of the remote store, and no broker is asked."""

import pickle
import random
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from headrace.base.ids import TopicPartition
from headrace.clients import Admin, OffsetSpec, Producer
from headrace.log.system_disk import SystemDisk
from headrace.spark.data_loss import LostDataError
from headrace.spark.offsets import partition_offsets
from headrace.spark.option_values import OptionError
from headrace.spark.options import ReadOptions, read_options
from headrace.spark.ranges import OffsetRange
from headrace.spark.segments import direct, remote_tier
from headrace.spark.segments.direct import read_segments
from headrace.testing import Cluster
from headrace.testing.disk import VirtualDisk
from headrace.tiered.stores.folder import FolderStore
from tests.compat.clients.face import eventually
from tests.spark.test_segments_live import all_ranges, direct_rows, ends, fetched_rows, options, plan, rows
from tests.spark.whole_topics import await_markers_on
from tests.tiered.tiered_cluster import TOPIC, tiered_cluster, wait_for_tail

WRITTEN = 1500


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("remote") / "store"


@pytest.fixture(scope="module")
def cluster(store: Path) -> Iterator[Cluster]:
    """A topic `tiered` with plain records and transactions, committed and aborted, across both tiers."""
    with tiered_cluster(store) as started:
        started.create_topic("tiered", configs=TOPIC)
        at_least = write_transactions(started.bootstrap_servers, "tiered")
        await_markers_on(started.bootstrap_servers, "tiered")
        wait_for_tail(started, "tiered", at_least=at_least)
        yield started


def write_transactions(bootstrap: str, topic: str) -> int:
    """Many, and a last one whose marker lies in the local part when its records, below the offset returned,
    are in the store.
    """
    rng = random.Random(5)

    def send(producer: Producer, count: int) -> None:
        for _ in range(count):
            producer.send(topic, value=rng.randbytes(rng.randrange(200)), partition=0)

    with (
        Producer(bootstrap_servers=bootstrap) as plain,
        Producer(bootstrap_servers=bootstrap, transactional_id="long") as long,
        Producer(bootstrap_servers=bootstrap, transactional_id="short") as short,
    ):
        long.init_transactions()
        short.init_transactions()
        written = 0
        while written < WRITTEN:
            long.begin_transaction()
            send(long, 5)
            long.flush()
            for _ in range(rng.randrange(8)):  # others come and go meanwhile
                short.begin_transaction()
                send(short, 20)
                (short.commit_transaction if rng.random() < 0.5 else short.abort_transaction)()
                send(plain, 20)
                plain.flush()
                written += 40
            send(long, 5)
            (long.commit_transaction if rng.random() < 0.5 else long.abort_transaction)()
        long.begin_transaction()
        last = producer_offset(long, topic)
        for _ in range(40):
            send(plain, 10)
            plain.flush()
        long.abort_transaction()
        return last + 1


def producer_offset(producer: Producer, topic: str) -> int:
    """Where a record lands that is sent now."""
    return producer.send(topic, value=b"in vain", partition=0).result().offset


@pytest.fixture
def no_fetching(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("records were fetched from the broker")

    monkeypatch.setattr(direct, "read_range", refuse)


@pytest.fixture
def small_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(direct, "TASK_BYTES", 6000)


def given_for(cluster: Cluster, store: Path, **more: str) -> ReadOptions:
    return options(cluster.bootstrap_servers, "tiered", store_url=str(store), **more)


@pytest.mark.usefixtures("no_fetching", "small_tasks")
@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
def test_both_tiers_are_read_without_a_broker(cluster: Cluster, store: Path, isolation: str) -> None:
    given = given_for(cluster, store, kafka_isolation_level=isolation)
    ranges = all_ranges(given)
    assert ranges[0].start == 0
    fetched = fetched_rows(given, ranges)
    tasks = plan(given, ranges)
    assert len(tasks) > 10
    assert direct_rows(given, pickle.loads(pickle.dumps(tasks))) == fetched
    rng = random.Random(7)
    for _ in range(8):
        start, end = sorted(rng.sample(range(ranges[0].end + 1), 2))
        piece = [OffsetRange("tiered", 0, start, end)]
        assert direct_rows(given, plan(given, piece)) == fetched_rows(given, piece)


class OwnStore(FolderStore):
    """A class of a user's own."""

    def __init__(self, settings: dict[str, str]) -> None:
        super().__init__(SystemDisk(), settings["shelf"])


@pytest.mark.usefixtures("no_fetching", "small_tasks")
def test_a_store_of_the_users_own_class(cluster: Cluster, store: Path) -> None:
    given = options(
        cluster.bootstrap_servers,
        "tiered",
        store_class_name=f"{__name__}.{OwnStore.__name__}",
        store_shelf=str(store),
    )
    ranges = all_ranges(given)
    tasks = plan(given, ranges)
    assert all(each.remote is not None for _, each in tasks[:-1])
    assert direct_rows(given, pickle.loads(pickle.dumps(tasks))) == fetched_rows(given, ranges)


def test_without_the_store_brokers_are_asked_for_what_is_in_it(cluster: Cluster) -> None:
    given = options(cluster.bootstrap_servers, "tiered")
    ranges = all_ranges(given)
    assert direct_rows(given, plan(given, ranges)) == fetched_rows(given, ranges)


@pytest.mark.usefixtures("small_tasks")
@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
def test_a_machine_that_sees_the_store_but_no_folder(
    cluster: Cluster, store: Path, monkeypatch: pytest.MonkeyPatch, isolation: str
) -> None:
    """The local tail is fetched, and what was before it is read out of the store. Which records were aborted
    may be told in the tail: who cannot see it must not take them for committed.
    """
    given = given_for(cluster, store, kafka_isolation_level=isolation)
    ranges = all_ranges(given)
    tasks = plan(given, ranges)
    expected = fetched_rows(given, ranges)
    asked: list[int] = []
    fetch = direct.read_range
    monkeypatch.setattr(
        direct, "read_range", lambda wanted, *more: (asked.append(wanted.start), fetch(wanted, *more))[1]
    )
    elsewhere = VirtualDisk()
    found = [
        row for wanted, each in tasks for row in rows(read_segments(wanted, given, each, None, elsewhere))
    ]
    assert found == expected
    remote_end = max(each.remote.end_offset for _, each in tasks if each.remote is not None)
    assert asked
    if isolation == "read_uncommitted":
        assert min(asked) >= remote_end
    else:  # some depend on the marker in the local part
        assert ranges[0].end // 2 < min(asked) < remote_end


def test_a_store_that_lost_an_object_or_is_away_is_made_up_for_by_brokers(
    cluster: Cluster, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here the broker reads the very store, which is whole for it."""
    given = given_for(cluster, store)
    ranges = all_ranges(given)
    expected = fetched_rows(given, ranges)
    tasks = plan(given, ranges)
    empty = VirtualDisk()
    empty.make_folder("/elsewhere")
    for troubled in (FolderStore(empty, "/elsewhere"), FolderStore(empty, "/not-there")):
        monkeypatch.setattr("headrace.spark.segments.manifest.open_remote", lambda *_, it=troubled: it)
        assert direct_rows(given, tasks) == expected


def test_segments_that_left_the_folder_after_planning_are_not_skipped(
    cluster: Cluster, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder's first segment lies behind the last remote one that is known: no gap of a compaction."""
    given = given_for(cluster, store)
    ranges = all_ranges(given)
    ((wanted, manifest),) = plan(given, ranges)
    assert manifest.remote is not None
    fewer = manifest.remote.segments[: len(manifest.remote.segments) // 2]
    tier = remote_tier.RemoteTier(manifest.remote.store, fewer)
    apart = replace(manifest, remote=tier, segments=())
    assert rows(read_segments(wanted, given, apart)) == fetched_rows(given, ranges)


def test_credentials_are_not_shown(cluster: Cluster, store: Path) -> None:
    given = given_for(cluster, store, store_secret_access_key="do-not-tell")
    assert given.store_settings == (("secret.access.key", "do-not-tell"),)
    assert "do-not-tell" not in repr(given)
    tier = remote_tier.RemoteTier(remote_tier.StoreAddress("s3://b", None, given.store_settings), ())
    assert "do-not-tell" not in repr(tier)


@pytest.mark.parametrize(
    ("more", "complaint"),
    [
        ({"store.region": "x", "read.mode": "segments"}, "store.url is missing"),
        ({"store.url": "/x"}, "need read.mode=segments"),
    ],
)
def test_store_options_that_make_no_sense(more: dict[str, str], complaint: str) -> None:
    given = {"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "t", **more}
    with pytest.raises(OptionError, match=complaint):
        read_options(given, streaming=False)


@pytest.fixture(scope="module")
def log_directory(cluster: Cluster) -> str:
    """Where a broker keeps the local part, once it has written down how far it may be read."""
    with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
        (described,) = admin.describe_log_dirs(1)
        partition = TopicPartition("tiered", 0)
        end = admin.list_offsets({partition: OffsetSpec.LATEST})[partition].offset
    given = without_broker(described.path)
    eventually(lambda: ends(given)[partition][1] == end, lambda: f"{ends(given)} to reach {end}")
    return described.path


def without_broker(path: str, **more: str) -> ReadOptions:
    given = {"path": path, "subscribe": "tiered", "includeHeaders": "true"}
    return read_options(
        given | {name.replace("_", "."): text for name, text in more.items()}, streaming=False
    )


@pytest.mark.usefixtures("no_fetching", "small_tasks")
@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
def test_a_path_and_a_store_need_no_broker(
    cluster: Cluster, store: Path, log_directory: str, isolation: str
) -> None:
    beside = given_for(cluster, store, kafka_isolation_level=isolation)
    given = without_broker(log_directory, store_url=str(store), kafka_isolation_level=isolation)
    ranges = all_ranges(given)
    assert ranges == all_ranges(beside)
    assert ranges[0].start == 0
    tasks = plan(given, ranges)
    assert not any(each.has_broker for _, each in tasks)
    expected = fetched_rows(beside, ranges)
    assert direct_rows(given, pickle.loads(pickle.dumps(tasks))) == expected
    with closing(partition_offsets(given)) as asked, closing(partition_offsets(beside)) as broker:
        for row in expected[:: len(expected) // 5]:
            late = {TopicPartition("tiered", 0): int(row["timestamp"].timestamp() * 1000)}
            assert asked.at_times(late) == broker.at_times(late)


def test_a_path_without_its_store_says_what_is_missing(cluster: Cluster, log_directory: str) -> None:
    given = without_broker(log_directory)
    with pytest.raises(LostDataError, match=r"remote store: to read it, name store\.url too"):
        direct_rows(given, plan(given, all_ranges(given)))


def test_a_store_beside_a_folder_alone_is_not_enough(log_directory: str, store: Path) -> None:
    given = without_broker(f"{log_directory}/tiered-0", store_url=str(store))
    with pytest.raises(OptionError, match=r"no partition of __remote_log_metadata.*a whole log directory"):
        all_ranges(given)


def test_a_segment_is_fetched_once_and_ahead_of_its_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_tier, "_AHEAD_BYTES", 1 << 20)
    data = random.Random(1).randbytes(5 << 20)
    ranges: list[tuple[int, int]] = []
    file = remote_tier.AheadFile(StoreOf(data, ranges.append), "a.log", len(data))
    position, read = 0, []
    while piece := file.read(position, 1 << 20):
        read.append(piece[:-100] if position + len(piece) < len(data) else piece)  # batches end anywhere
        position += len(read[-1])
    assert b"".join(read) == data
    assert file.read(1 << 20, 2 << 20) == data[1 << 20 : 3 << 20]
    assert file.read(17, 100) == data[17:117]
    first_pass = [each for each in ranges if each[1] - each[0] <= 1 << 20][:5]
    assert first_pass == [(at << 20, (at + 1) << 20) for at in range(5)]


class StoreOf:
    """A store with one object."""

    def __init__(self, data: bytes, note: Callable[[tuple[int, int]], None]) -> None:
        self._data, self._note = data, note

    def read(self, name: str, start: int, end: int) -> bytes:
        self._note((start, end))
        return self._data[start:end]
