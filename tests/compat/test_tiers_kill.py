"""A broker with a remote store, killed while it copies: a stock client reads all it was told to be written,
most of it from the store, and the store holds what the records say, no more.
"""

from pathlib import Path

from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient

from headrace.log.system_disk import SystemDisk
from headrace.tiered.segment_metadata import RemoteLogSegmentState
from headrace.tiered.stores.folder import FolderStore
from tests.compat.brokers import HeadraceBroker
from tests.compat.clients.confluent import Confluent
from tests.compat.clients.face import eventually
from tests.compat.whole_logs import read_messages, told_segments

TOPIC = "rows"
KILLS = 2
SETTINGS = {
    "remote.log.storage.system.enable": "true",
    "remote.log.manager.task.interval.ms": "500",
    "log.retention.check.interval.ms": "300",
    "rlmm.config.remote.log.metadata.topic.num.partitions": "2",
    "rlmm.config.remote.log.metadata.topic.replication.factor": "1",
}
TIERED = {"remote.storage.enable": "true", "internal.segment.bytes": "50000", "local.retention.ms": "1"}


def leftovers(data: Path, store: FolderStore) -> list[str] | None:
    """Objects that no finished segment has; None while a copy or a removal is under way."""
    segments = told_segments(data)
    if segments is None or any(
        segment.state is not RemoteLogSegmentState.COPY_FINISHED for segment in segments
    ):
        return None
    objects = {name for name, _ in store.list("")}
    for segment in segments:
        assert segment.object_name(".log") in objects, f"{segment} is not in the store"
    known = {name for segment in segments for name in segment.object_names()}
    return sorted(objects - known)


def test_killed_while_it_copies(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    store = FolderStore(SystemDisk(), str(tmp_path / "store"))
    settings = SETTINGS | {"rsm.config.url": str(tmp_path / "store")}
    with HeadraceBroker(tmp_path / "data", settings) as broker:
        broker.start()
        Confluent(broker.bootstrap).create_topic(TOPIC, 1, TIERED)
        written = write_and_kill(broker, store)
        found = read_messages(broker.bootstrap, [(TOPIC, 0)])
        assert {message.offset(): message.value() for message in found} == written
        eventually(lambda: leftovers(tmp_path / "data", store) == [], "nothing to be left over")
        local = broker.partition_folder(TOPIC, 0)
        eventually(lambda: len(list(local.glob("*.log"))) < 5, "most of it to leave the disk")
        assert len(list(store.list(""))) // 5 >= 5, "most of it is in the store"
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        admin.delete_topics([TOPIC])[TOPIC].result(60)
        eventually(lambda: not list(store.list("")), "a deleted topic to leave nothing")
        broker.stop()


def write_and_kill(broker: HeadraceBroker, store: FolderStore) -> dict[int, bytes]:
    """What was acknowledged, by offset. The broker is killed whenever it has put a few objects more."""
    written: dict[int, bytes] = {}

    def note(error: KafkaError | None, message: Message) -> None:
        assert error is None, error
        offset, value = message.offset(), message.value()
        assert offset is not None
        assert isinstance(value, bytes)
        written[offset] = value

    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap,
            "enable.idempotence": True,
            "linger.ms": 2,
            "reconnect.backoff.max.ms": 200,
            "log_level": 0,
        }
    )
    sent = 0
    for kill in range(KILLS + 1):
        goal = len(list(store.list(""))) + 11 + 2 * kill

        def has_copied(goal: int = goal) -> bool:
            nonlocal sent
            for _ in range(100):
                if len(producer) < 200:
                    producer.produce(TOPIC, b"%d/" % sent + b"v" * 1000, partition=0, on_delivery=note)
                    sent += 1
            producer.poll(0.01)
            return len(list(store.list(""))) >= goal

        eventually(has_copied, "segments to be copied", 60)
        if kill < KILLS:
            broker.kill()
            broker.start()
    assert producer.flush(60) == 0
    assert len(written) == sent
    return written
