"""A real broker, killed with -9 at every step of a compaction's swap, of a copy to the remote store, of a
removal there, of a deleted topic's end and of a compaction in the store.

Each round has the work done again, dies one step later, and starts anew (`deadly`). Then a stock client finds
every acknowledged record that is to be there and none that is not to be, and the store has the objects that
`__remote_log_metadata` names: no more and no fewer.

Of a segment's files the first is enough here, of its objects the first and the last: `tests/log/compaction`
and `tests/remote_log` have a simulated node die at all of them. `pytest -m slow
tests/compat/test_kill_steps.py` takes all.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from headrace.base.ids import TopicPartition
from headrace.log.checkpoints import decode_offsets
from headrace.log.file_names import TXN_INDEX
from headrace.tiered.segment_metadata import OBJECT_SUFFIXES, RemoteLogSegmentState
from tests.compat.clients.confluent import Confluent
from tests.compat.clients.face import eventually
from tests.compat.deadly import DeadlyBroker, kill_at_every
from tests.compat.deadly.writer import BATCH_RECORDS, Writer, Written
from tests.compat.test_tiers_kill import SETTINGS as TIERS
from tests.compat.whole_logs import read_messages, start_of, told_segments

pytestmark = pytest.mark.timeout(600)

TOPIC = "rows"
VALUE = b"v" * 300
SETTINGS = TIERS | {
    "remote.log.manager.task.interval.ms": "50",
    "log.cleaner.backoff.ms": "20",
    "log.segment.delete.delay.ms": "10",
    "log.retention.check.interval.ms": "50",
    "log.cleaner.dedupe.buffer.size": "4194304",  # 128 MiB are not needed, and have to be cleared
    "rlmm.config.remote.log.metadata.topic.num.partitions": "1",
}
# What is written by and by: a round closes the segment of the one before it.
ROLLING = {"segment.ms": "20"}
COMPACTED = ROLLING | {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": "1",
}
# By age the active segment would be closed and copied, too.
TIERED = ROLLING | {"remote.storage.enable": "true", "local.retention.bytes": "1"}
RETENTION_BYTES = 5_000
Steps = list[tuple[str, int]]
# A segment's objects, in the order in which they are put and removed.
OBJECTS = (".log", ".index", ".timeindex", ".snapshot", ".epochs")
WHICH = pytest.mark.parametrize(
    "objects",
    [
        pytest.param((OBJECTS[-1],), id="last"),
        pytest.param(OBJECTS, id="all", marks=pytest.mark.slow),
    ],
)
AT_0 = r"/0{20}-[^/]{22}"
FILES = (".log", ".index", ".timeindex")
WHICH_FILES = pytest.mark.parametrize(
    "files",
    [
        pytest.param(FILES[:1], id="first"),
        pytest.param(FILES, id="all", marks=pytest.mark.slow),
    ],
)


def telling(first: int, last: int) -> Steps:
    """Records of `__remote_log_metadata`, by number."""
    return [(r"write .*__remote_log_metadata-", number) for number in range(first, last + 1)]


def putting(objects: Sequence[str], stem: str = "", *, empty: str = "") -> Steps:
    """The objects of a copy: while each is written, unless it is empty, and before it has its name."""
    written = [(rf"write \S*/store/\S*{stem}\{each}~", 1) for each in objects if each != empty]
    return written + [(rf"rename \S*/store/\S*{stem}\{each}~", 1) for each in objects]


def removing(objects: Sequence[str], stem: str = "") -> Steps:
    return [(rf"remove \S*/store/\S*{stem}\{each}$", 1) for each in objects]


@contextmanager
def started(folder: Path) -> Iterator[DeadlyBroker]:
    (folder / "store").mkdir()
    settings = SETTINGS | {"rsm.config.url": str(folder / "store")}
    with DeadlyBroker(folder / "data", settings) as broker:
        broker.start()
        yield broker
        broker.stop()


def sizes_of(paths: Iterable[Path]) -> list[int]:
    """Of those that are still there: a broker at work removes some meanwhile."""
    found = []
    for path in paths:
        with suppress(FileNotFoundError):
            found.append(path.stat().st_size)
    return found


class Keyed:
    """Three keys that are written with each round, and one that is deleted in the next."""

    def __init__(self, broker: DeadlyBroker) -> None:
        self._broker = broker
        self._writer = Writer(broker, TOPIC)
        self._rounds = 0

    def write(self) -> None:
        number = self._rounds = self._rounds + 1
        lasting: list[Written] = [(b"key-%d" % each, b"%d/" % number + VALUE) for each in range(3)]
        self._writer.write([*lasting, (b"gone-%d" % number, VALUE), (b"gone-%d" % (number - 1), None)])

    def is_acknowledged(self) -> bool:
        return self._writer.is_done()

    def check(self, is_done: Callable[[], bool]) -> None:
        """What is deleted is gone when compaction has come to rest. Before, a reader who takes longer than
        `delete.retention.ms` may be shown an old value, and no delete marker behind it.
        """
        self.check_lasting()
        eventually(is_done, "compaction to be done")
        found, expected = self._read(), self._expected()
        assert {**expected, **found} == expected, "what was superseded is the last again"
        assert there(found) == there(expected)

    def check_lasting(self) -> None:
        """The last values are there at any time."""
        self._writer.resume()
        found, expected = self._read(), there(self._expected())
        assert {key: found.get(key) for key in expected} == expected

    def _read(self) -> dict[bytes, bytes | None]:
        messages = read_messages(self._broker.bootstrap, [(TOPIC, 0)])
        return {message.key(): message.value() for message in messages}

    def _expected(self) -> dict[bytes, bytes | None]:
        return dict(value for _, value in sorted(self._writer.acknowledged.items()))


def there(last: dict[bytes, bytes | None]) -> dict[bytes, bytes | None]:
    return {key: value for key, value in last.items() if value is not None}


def is_clean(broker: DeadlyBroker) -> bool:
    """Compaction has been up to the active segment, and left nothing lying about."""
    names = [path.name for path in broker.partition_folder(TOPIC, 0).iterdir()]
    active = max(int(name[:20]) for name in names if name.endswith(".log"))
    assert broker.data is not None
    checkpoint = broker.data / "cleaner-offset-checkpoint"
    cleaned = decode_offsets(checkpoint.read_bytes()) if checkpoint.exists() else {}
    is_up = cleaned.get(TopicPartition(TOPIC, 0), 0) >= active
    return is_up and not any(name.endswith((".deleted", ".cleaned", ".swap")) for name in names)


@WHICH_FILES
def test_the_swap_of_a_compaction(tmp_path: Path, files: Sequence[str]) -> None:
    steps = [(rf"rename \S*\{each}\.cleaned", 1) for each in files]
    steps += [(rf"rename \S*\{each} \S*\.deleted", number) for number in (1, 2) for each in files]
    steps += [(rf"rename \S*\{each}\.swap", 1) for each in files]
    steps += [(r"rename \S*/cleaner-offset-checkpoint", 1)]
    steps += [(rf"remove \S*\{each}\.deleted", 1) for each in files]
    with started(tmp_path) as broker:
        Confluent(broker.bootstrap).create_topic(TOPIC, 1, COMPACTED)
        keyed = Keyed(broker)

        def check() -> None:
            keyed.check(lambda: is_clean(broker))

        for _ in range(2):
            keyed.write()
            check()
        kill_at_every(steps, broker, act=keyed.write, check=check)


class Store:
    """The folder that a broker uses as its remote store."""

    def __init__(self, broker: DeadlyBroker) -> None:
        assert broker.data is not None
        self._data = broker.data
        self._root = broker.data.parent / "store"

    def objects(self) -> set[str]:
        """Also what a put that was not finished left."""
        while True:
            with suppress(FileNotFoundError):  # the broker removes folders while they are walked through
                return {str(path.relative_to(self._root)) for path in self._root.rglob("*") if path.is_file()}

    def sizes(self) -> list[int]:
        """Of the segments, by offset."""
        return sizes_of(sorted(self._root.glob("*/0/*.log")))

    def is_as_told(self) -> bool:
        """It has the objects of finished segments, all of them and no others, and nothing is under way."""
        before = self.objects()
        segments = told_segments(self._data)
        if segments is None or any(
            segment.state is not RemoteLogSegmentState.COPY_FINISHED for segment in segments
        ):
            return False
        told = {
            segment.object_name(suffix)
            for segment in segments
            for suffix in OBJECT_SUFFIXES
            if segment.has_aborted or suffix != TXN_INDEX
        }
        return told == before == self.objects()


class Tail:
    """Numbered records, of which the log keeps the last ones: `RETENTION_BYTES` of them."""

    def __init__(self, broker: DeadlyBroker) -> None:
        self._broker = broker
        self._writer = Writer(broker, TOPIC)
        self._store = Store(broker)
        self._written = 0
        self._start = 0

    def write(self) -> None:
        first, self._written = self._written, self._written + BATCH_RECORDS
        self._writer.write([(b"%06d" % number, VALUE) for number in range(first, self._written)])

    def is_done(self) -> bool:
        """Everything that is to be copied or removed is."""
        if not self._writer.is_done():
            return False
        local = sizes_of(self._broker.partition_folder(TOPIC, 0).glob("*.log"))
        is_short = len(local) == 1 and sum(self._store.sizes()[1:]) + sum(local) < RETENTION_BYTES
        return is_short and self._store.is_as_told()

    def check(self) -> None:
        self._writer.resume()
        self._check_records()
        eventually(self.is_done, "the store to be as the records tell")

    def _check_records(self) -> None:
        found = {}
        for message in read_messages(self._broker.bootstrap, [(TOPIC, 0)]):
            found[message.offset()] = message.key(), message.value()
        assert min(found) >= self._start, "what was removed has come back"
        self._start = start_of(self._broker.bootstrap, (TOPIC, 0))
        kept = {offset: each for offset, each in found.items() if offset >= self._start}
        assert list(kept) == list(range(self._start, max(found) + 1))
        written = {
            offset: each for offset, each in self._writer.acknowledged.items() if offset >= self._start
        }
        assert {**kept, **written} == kept


@WHICH
def test_copies_and_what_retention_removes(tmp_path: Path, objects: Sequence[str]) -> None:
    """Each batch is a segment, and all are of one size: where one comes, one goes."""
    topic = TIERED | {"internal.segment.bytes": "2000", "retention.bytes": str(RETENTION_BYTES)}
    with started(tmp_path) as broker:
        Confluent(broker.bootstrap).create_topic(TOPIC, 1, topic)
        tail = Tail(broker)
        for _ in range(5):
            tail.write()
            tail.check()
        steps = telling(1, 4) + putting(objects) + removing(objects)
        kill_at_every(steps, broker, act=tail.write, check=tail.check)
        tail.check()


@WHICH
def test_a_deleted_topic(tmp_path: Path, objects: Sequence[str]) -> None:
    with started(tmp_path) as broker:
        store, names = Store(broker), (f"{TOPIC}{number}" for number in count())
        admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
        topic = ""

        def prepare() -> None:
            """A topic with one segment in the store."""
            nonlocal topic
            topic = next(names)
            Confluent(broker.bootstrap).create_topic(topic, 1, TIERED)
            writer = Writer(broker, topic)
            for number in range(2):
                writer.write([(b"%d" % number, VALUE)])
                writer.resume()
            eventually(lambda: store.objects() and store.is_as_told(), "a segment to be copied")

        def is_gone() -> bool:
            return not store.objects() and store.is_as_told()

        def check() -> None:
            eventually(is_gone, "nothing to be left of a topic")
            assert topic not in admin.list_topics(timeout=60).topics
            prepare()

        def delete() -> None:
            admin.delete_topics([topic])  # it may die before it answers

        prepare()
        kill_at_every(telling(1, 2) + removing(objects), broker, act=delete, check=check)


# Simulated nodes die at all of these steps in every run: tests/remote_log/test_compaction_crashes.py.
@pytest.mark.slow
@WHICH
def test_a_compaction_in_the_store(tmp_path: Path, objects: Sequence[str]) -> None:
    with started(tmp_path) as broker:
        Confluent(broker.bootstrap).create_topic(TOPIC, 1, COMPACTED | TIERED)
        keyed, store = Keyed(broker), Store(broker)

        def is_done() -> bool:
            """One segment in each tier, and nothing else."""
            if not keyed.is_acknowledged() or not is_clean(broker) or len(store.sizes()) != 1:
                return False
            local = list(broker.partition_folder(TOPIC, 0).glob("*.log"))
            return len(local) == 1 and store.is_as_told()

        def check() -> None:
            keyed.check(is_done)

        for _ in range(3):
            keyed.write()
            keyed.check_lasting()
        check()
        # The first two are a copy's; what is put or removed at offset 0 is of the round.
        steps = telling(3, 8) + putting(objects, AT_0, empty=".index") + removing(objects, AT_0)
        kill_at_every(steps, broker, act=keyed.write, check=check)
