"""A topic of which a tenth is on the disk and the rest in a remote store, read by clients that do not know:
from the beginning, by time, and without what was aborted, wherever the marker of that lies.
"""

import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest
from confluent_kafka import OFFSET_END, Consumer, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.compat import prepare
from tests.compat.brokers import HeadraceBroker
from tests.compat.clients.external import Program
from tests.compat.clients.face import eventually
from tests.compat.prepare import UnavailableError

TOPIC = "tiered"
SEGMENT_BYTES = 1 << 20
LOCAL_BYTES = SEGMENT_BYTES // 4
RECORDS = 13_000
VALUE_BYTES = 1_000
START_MS = 4_000_000_000_000  # later than the markers of transactions, which have the time of the broker
PER_TRANSACTION = 500
TIMES = (0, START_MS, START_MS + 1, START_MS + 6_500, START_MS + RECORDS - 1, START_MS + RECORDS)


class Written:
    """What was written: values by offset, and which of them count."""

    def __init__(self) -> None:
        self.values: dict[int, bytes] = {}
        self.aborted: set[bytes] = set()

    def note(self, error: object, message: Message) -> None:
        assert error is None
        self.values[message.offset()] = message.value()

    def committed(self) -> list[bytes]:
        return [value for _, value in sorted(self.values.items()) if value not in self.aborted]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HeadraceBroker]:
    folder = tmp_path_factory.mktemp("tiers")
    (folder / "store").mkdir()
    settings = {
        "remote.log.storage.system.enable": "true",
        "rsm.config.url": str(folder / "store"),
        "remote.log.manager.task.interval.ms": "200",
        "log.retention.check.interval.ms": "200",
        "rlmm.config.remote.log.metadata.topic.num.partitions": "2",
        "rlmm.config.remote.log.metadata.topic.replication.factor": "1",
        "log.message.timestamp.after.max.ms": str(2**62),
        "log.retention.ms": "-1",
    }
    with HeadraceBroker(folder / "data", settings) as started:
        started.start()
        yield started
        started.stop()


def transactional(broker: HeadraceBroker) -> Producer:
    name = f"writer-{uuid.uuid4().hex[:8]}"
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": name, "linger.ms": 5})
    producer.init_transactions(30)
    producer.begin_transaction()
    return producer


@pytest.fixture(scope="module")
def written(broker: HeadraceBroker) -> Written:
    """Transactions of half a megabyte, each third one aborted, and one that lasts as long as all of them: its
    records are in every segment, and the marker that aborts it is in the last.
    """
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    config = {
        "remote.storage.enable": "true",
        "segment.bytes": str(SEGMENT_BYTES),
        "local.retention.bytes": str(LOCAL_BYTES),
    }
    admin.create_topics([NewTopic(TOPIC, 1, config=config)])[TOPIC].result(30)
    written = Written()
    long, short = transactional(broker), transactional(broker)
    for number in range(RECORDS):
        is_long = number % 100 == 50
        value = (b"%d of a long one " if is_long else b"%d ") % number
        value = value.ljust(VALUE_BYTES, b".")
        if is_long or number // PER_TRANSACTION % 3 == 1:
            written.aborted.add(value)
        (long if is_long else short).produce(
            TOPIC, value, partition=0, timestamp=START_MS + number, on_delivery=written.note
        )
        if number % PER_TRANSACTION == PER_TRANSACTION - 1:
            # An abort would purge what has not been sent yet.
            long.flush(30)
            short.flush(30)
            is_aborted = number // PER_TRANSACTION % 3 == 1
            (short.abort_transaction if is_aborted else short.commit_transaction)(30)
            short.begin_transaction()
    long.abort_transaction(30)
    short.abort_transaction(30)
    folder = broker.partition_folder(TOPIC, 0)
    whole = RECORDS * VALUE_BYTES

    def is_tiered() -> bool:
        left = 0
        for path in folder.glob("*.log"):
            with suppress(FileNotFoundError):  # it has just left
                left += path.stat().st_size
        return left * 10 <= whole

    eventually(is_tiered, "a tenth of the topic is left on the disk")
    return written


def read(broker: HeadraceBroker, isolation: str, count: int, start: int = 0) -> list[bytes]:
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": "none",
            "isolation.level": isolation,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
        }
    )
    consumer.assign([TopicPartition(TOPIC, 0, start)])
    values: list[bytes] = []
    while len(values) < count:
        message = consumer.poll(60)
        assert message is not None, f"nothing came for 60 s, after {len(values)} records"
        if message.error() is not None:
            break  # the end
        values.append(message.value())
    consumer.close()
    return values


def test_all_is_read_from_the_beginning(broker: HeadraceBroker, written: Written) -> None:
    expected = [value for _, value in sorted(written.values.items()) if value not in written.aborted]
    found = read(broker, "read_uncommitted", RECORDS + 1)
    assert [value for value in found if value not in written.aborted] == expected
    assert len(found) == len(written.values)


def test_what_was_aborted_is_not_seen(broker: HeadraceBroker, written: Written) -> None:
    expected = written.committed()
    assert 0 < len(expected) < len(written.values)
    assert read(broker, "read_committed", RECORDS + 1) == expected
    middle = sorted(written.values)[len(written.values) // 3]
    rest = [value for at, value in sorted(written.values.items()) if at >= middle]
    expected = [value for value in rest if value not in written.aborted]
    assert read(broker, "read_committed", RECORDS + 1, start=middle) == expected


def test_records_are_found_by_their_time(broker: HeadraceBroker, written: Written) -> None:
    stamps = {at: START_MS + int(value.split(b" ", 1)[0]) for at, value in written.values.items()}
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "none"})
    for wanted in TIMES:
        (found,) = consumer.offsets_for_times([TopicPartition(TOPIC, 0, wanted)], timeout=30)
        young = [at for at, stamp in stamps.items() if stamp >= wanted]
        assert found.offset == min(young, default=OFFSET_END), wanted
    consumer.close()


Tool = Callable[..., str]


@pytest.fixture(scope="module")
def tool(broker: HeadraceBroker) -> Iterator[Tool]:
    try:
        program = Program([*prepare.java_command(classes=prepare.java_program()), "Compat"])
    except UnavailableError as reason:
        pytest.skip(str(reason))

    def run(main: str, *arguments: str) -> str:
        words = [*arguments, "--bootstrap-server", broker.bootstrap]
        done = program.ask("tool", main=f"org.apache.kafka.tools.{main}", arguments=words, stdin="")
        assert done["code"] == 0, done
        return str(done["out"])

    yield run
    program.close()


@pytest.mark.java
def test_the_java_consumer_reads_the_same(tool: Tool, written: Written) -> None:
    expected = [value.decode() for value in written.committed()]
    said = tool(
        "consumer.ConsoleConsumer",
        *("--topic", TOPIC, "--partition", "0", "--offset", "earliest"),
        *("--isolation-level", "read_committed", "--max-messages", str(len(expected))),
        *("--timeout-ms", "60000"),
    )
    assert said.splitlines() == expected


@pytest.mark.java
def test_the_tools_tell_where_the_tiers_begin_and_end(
    tool: Tool, broker: HeadraceBroker, written: Written
) -> None:
    def place(name: str) -> int:
        said = tool("GetOffsetShell", "--topic", TOPIC, "--time", name)
        return int(said.strip().rpartition(":")[2])

    def are_the_files() -> bool:
        """A segment may be copied, and leave, while we look."""
        bases = sorted(int(path.stem) for path in broker.partition_folder(TOPIC, 0).glob("*.log"))
        return (place("earliest-local"), place("latest-tiered")) == (bases[0], bases[-1] - 1)

    eventually(are_the_files, "the tiers to begin and end where the files do")
    assert place("earliest") == 0 < place("earliest-local")
    assert place("latest") > max(written.values)


def test_all_of_it_is_there_after_the_broker_was_killed(broker: HeadraceBroker, written: Written) -> None:
    broker.kill()
    broker.start()
    assert read(broker, "read_committed", RECORDS + 1) == written.committed()
