"""Compaction beside Apache Kafka's: its own tester passes, and each goes on with what the other cleaned.

pytest -m slow tests/compat/test_compaction.py
"""

import random
import re
import subprocess
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import Message, Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic

from headrace.base.ids import TopicPartition
from headrace.log.checkpoints import decode_offsets
from headrace.log.compaction.cleaner import Cleaner, CleanerLimits, run_round
from headrace.log.compaction.log_to_clean import log_to_clean
from headrace.log.log_loader import open_log
from headrace.log.storage import Storage
from headrace.log.system_disk import SystemDisk
from headrace.log.unified_log import UnifiedLog
from headrace.records.compaction.offset_map import OffsetMap
from headrace.records.kernels.choice import load_compiled
from headrace.settings.topic import TopicConfig
from tests.compat import prepare
from tests.compat.brokers import ApacheKafkaBroker, Broker, HeadraceBroker
from tests.compat.clients.face import eventually
from tests.log.building import read_all

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(600)]

SEGMENT_BYTES = 1 << 20
SETTINGS = {
    "log.segment.bytes": str(SEGMENT_BYTES),
    "log.cleaner.backoff.ms": "200",
    "log.cleaner.min.cleanable.ratio": "0.1",
    "log.segment.delete.delay.ms": "500",
}
TOPIC = TopicPartition("keyed", 0)


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_log_compaction_tester(tmp_path: Path, codec: str) -> None:
    with HeadraceBroker(tmp_path / "data", SETTINGS) as broker:
        broker.start()
        words = ["--bootstrap-server", broker.bootstrap, "--messages", "150000", "--topics", "1"]
        words += [
            "--percent-deletes",
            "10",
            "--duplicates",
            "15",
            "--sleep",
            "5",
            "--compression-type",
            codec,
        ]
        tester = [*prepare.java_command(), "org.apache.kafka.tools.LogCompactionTester", *words]
        done = subprocess.run(tester, capture_output=True, text=True, timeout=500, cwd=tmp_path, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        assert " 0 mismatches." in done.stdout
        found = re.search(r"(\d+) rows of data produced, (\d+) rows of data consumed", done.stdout)
        assert found
        assert int(found[2]) < int(found[1]) / 2


def test_each_goes_on_with_what_the_other_cleaned(tmp_path: Path) -> None:
    with ApacheKafkaBroker(tmp_path / "data", SETTINGS) as broker:
        broker.start()
        expected = fill(broker)
        broker.stop()
        log = open_here(broker)
        assert latest(log) == expected
        table = OffsetMap(16 << 20, 0.9, (1, 2))
        done = run_round(Cleaner(log_to_clean(log, 0), table, CleanerLimits(1 << 18), now_ms=0).clean())
        assert done.records_kept < done.records_read / 3
        close(log)
        broker.start()
        compact(broker)
        checkpoint = tmp_path / "data" / "cleaner-offset-checkpoint"
        eventually(
            lambda: checkpoint.exists() and TOPIC in decode_offsets(checkpoint.read_bytes()),
            "Apache Kafka's own compaction",
            seconds=60,
        )
        broker.stop()
        log = open_here(broker)
        assert latest(log) == expected
        close(log)


def has_taken(producer: Producer, taken: list[int], wanted: int) -> bool:
    producer.poll(0.01)
    return len(taken) >= wanted


def test_killed_while_it_compacts(tmp_path: Path) -> None:
    """kill -9 at moments that chance chooses: each key has its last acknowledged value, or one sent since."""
    rng = random.Random(11)
    settings = {**SETTINGS, "log.cleaner.backoff.ms": "20", "log.segment.delete.delay.ms": "100"}
    acknowledged: dict[bytes, int] = {}
    sent = 0
    with HeadraceBroker(tmp_path / "data", settings) as broker:
        broker.start()
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        wish = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}
        admin.create_topics([NewTopic(TOPIC.topic, 1, config=wish)])[TOPIC.topic].result(30)
        for _ in range(8):
            producer = Producer({"bootstrap.servers": broker.bootstrap, "acks": "all", "linger.ms": 5})

            taken: list[int] = []

            def note(error: object, message: Message, taken: list[int] = taken) -> None:
                if error is None:
                    key, number = message.key(), int(message.value()[:10])
                    acknowledged[key] = max(acknowledged.get(key, 0), number)
                    taken.append(number)

            for _ in range(rng.randint(20_000, 40_000)):
                sent += 1
                key = b"key %d" % rng.randrange(500)
                producer.produce(TOPIC.topic, key=key, value=b"%010d" % sent + bytes(80), on_delivery=note)
                producer.poll(0)
            # Eight times so many are several segments, however slow the machine is.
            wanted = rng.randint(4_000, 8_000)
            eventually(partial(has_taken, producer, taken, wanted), "acknowledgements")
            broker.kill()
            producer.purge()
            producer.flush(5)
            broker.start()
        cleaned = tmp_path / "data" / "cleaner-offset-checkpoint"
        eventually(lambda: cleaned.exists() and TOPIC in decode_offsets(cleaned.read_bytes()), "a round")
        broker.stop()
        found = latest(open_here(broker))
    assert len(acknowledged) > 400
    for key, number in acknowledged.items():
        assert int(found[key][:10]) >= number, key


def fill(broker: Broker) -> dict[bytes, bytes]:
    """Keyed records in several segments; the last value of each key."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic(TOPIC.topic, 1)])[TOPIC.topic].result(30)
    rng, expected = random.Random(5), {}
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 5})
    for _ in range(60_000):
        key, value = b"key %d" % rng.randrange(2_000), rng.randbytes(80)
        producer.produce(TOPIC.topic, key=key, value=value)
        producer.poll(0)
        expected[key] = value
    producer.flush(60)
    return expected


def compact(broker: Broker) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    entry = ConfigEntry("cleanup.policy", "compact", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, TOPIC.topic, incremental_configs=[entry])
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(30)


def open_here(broker: Broker) -> UnifiedLog:
    """The log of a broker that has stopped, by our own code."""
    load_compiled()
    folder = str(broker.partition_folder(TOPIC.topic, TOPIC.partition))
    config = TopicConfig(cleanup_policy=frozenset({"compact"}), segment_bytes=SEGMENT_BYTES)
    log = open_log(Storage(SystemDisk()), folder, TOPIC, config, now_ms=0, clean=True)
    log.maybe_increment_high_watermark(log.log_end_offset)
    return log


def close(log: UnifiedLog) -> None:
    flush = log.close()
    if flush is not None:
        flush.sync()


def latest(log: UnifiedLog) -> dict[bytes, bytes]:
    return {record.key: record.value for record in read_all(log)}
