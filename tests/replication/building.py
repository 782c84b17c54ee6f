"""Partitions and logs for tests: on a disk in memory, with everything noted that others would be told."""

from collections.abc import Sequence
from random import Random
from typing import Any

from headrace.base.ids import NO_TOPIC_ID, TopicId, TopicPartition
from headrace.log.append import AppendOrigin
from headrace.log.log_manager import LogManager
from headrace.log.meta_properties import MetaProperties
from headrace.metadata.image import MetadataImage
from headrace.metadata.topics import PartitionImage
from headrace.records.batch import Record, build_batch
from headrace.replication.partition import Partition
from headrace.replication.replica_manager import ReplicaManager
from headrace.settings.broker_config import BrokerConfig
from headrace.settings.topic import resolve_topic_config
from headrace.testing.clock import VirtualClock
from headrace.testing.disk import VirtualDisk
from headrace.wire.schemas.metadata_records import (
    ConfigRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)

NODE, OTHER = 1, 2
TOPIC_KIND = 2


def batch(count: int = 1, **options: Any) -> bytearray:
    return build_batch([Record(0, 1_700_000_000_000, b"k", b"v", ()) for _ in range(count)], **options)


def image(
    *in_sync: int, leader: int = NODE, epoch: int = 0, replicas: Sequence[int] = (NODE, OTHER)
) -> PartitionImage:
    return PartitionImage(tuple(replicas), in_sync or (NODE,), leader, epoch, partition_epoch=epoch)


def topic_id(number: int) -> TopicId:
    return TopicId(bytes([number]) * 16)


def append(partition: Partition, count: int = 1, **options: Any) -> int:
    """The first offset of what was appended."""
    options.setdefault("origin", AppendOrigin.CLIENT)
    options.setdefault("api_version", 13)
    return partition.append(batch(count), now_ms=1_700_000_000_000, **options).first_offset


def new_topic(name: str, number: int, count: int = 1, directory: bytes = bytes(16)) -> list[Any]:
    """The records of a topic whose partitions have their only replica here."""
    partitions = [
        PartitionRecord(
            partition_id=index,
            topic_id=topic_id(number),
            replicas=[NODE],
            isr=[NODE],
            leader=NODE,
            leader_epoch=0,
            partition_epoch=0,
            directories=[directory],
        )
        for index in range(count)
    ]
    return [TopicRecord(name=name, topic_id=topic_id(number)), *partitions]


class Bench:
    """A node's replicas without the node: a store, an image that is changed by hand, and who is told."""

    def __init__(self, *folders: str, disk: VirtualDisk | None = None, **settings: str) -> None:
        folders = folders or ("/a",)
        properties = {
            "node.id": str(NODE),
            "process.roles": "broker,controller",
            "listeners": "PLAINTEXT://localhost:0,CONTROLLER://localhost:0",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": "1@localhost:9093",
            "log.dirs": ",".join(folders),
        } | {name.replace("_", "."): value for name, value in settings.items()}
        self.config = BrokerConfig(properties)
        self.clock = VirtualClock()
        self.disk = disk or VirtualDisk(clock=self.clock)
        self.failed: list[str] = []
        self.store = LogManager(
            self.disk,
            self.config,
            self.clock,
            Random(1),
            on_log_dir_failure=lambda folder: self.failed.append(folder.path),
        )
        self.store.lock()
        ids = iter(bytes([0xD0 + number]) * 16 for number in range(9))
        self.store.identify("cluster", NODE, lambda: next(ids))
        self.image = MetadataImage("cluster")
        self.advanced: list[TopicPartition] = []
        self.placed: list[tuple[bytes, int, bytes]] = []
        self.replicas = ReplicaManager(
            node_id=NODE,
            store=self.store,
            topic_config=self.config_of,
            on_advance=self.advanced.append,
            on_placed=lambda *placed: self.placed.append(placed),
        )

    def config_of(self, topic: str) -> Any:
        own = {key.name: found for key, found in self.image.configs.items()}.get(topic, {})
        return resolve_topic_config(self.config, own)

    def open(self) -> None:
        self.store.load_logs(self.config_of)

    def directory_id(self, path: str) -> bytes:
        meta = next(folder.meta for folder in self.store.log_dirs if folder.path == path)
        assert isinstance(meta, MetaProperties)
        return meta.directory_id

    def commit(self, *records: Any, starting: bool = False, registered: bool = True) -> None:
        self.replicas.apply(
            self.image, self.image.replay_all(records), starting=starting, registered=registered
        )

    def create(
        self, name: str, number: int, count: int = 1, *, starting: bool = False, directory: bytes = bytes(16)
    ) -> None:
        self.commit(*new_topic(name, number, count, directory), starting=starting)

    def delete(self, number: int) -> None:
        self.commit(RemoveTopicRecord(topic_id=topic_id(number)))

    def change(self, number: int, index: int = 0, **fields: Any) -> None:
        self.commit(PartitionChangeRecord(partition_id=index, topic_id=topic_id(number), **fields))

    def configure(self, topic: str, name: str, value: str | None) -> None:
        self.commit(ConfigRecord(resource_type=TOPIC_KIND, resource_name=topic, name=name, value=value))

    def partition(self, topic: str, index: int = 0) -> Partition:
        found = self.replicas.get(TopicPartition(topic, index))
        assert found is not None
        return found


def lone_partition(**settings: str) -> tuple[Partition, Bench]:
    """A partition that follows no image but what a test gives it."""
    bench = Bench(**settings)
    bench.open()
    where = TopicPartition("t", 0)
    log = bench.store.create(where, NO_TOPIC_ID, bench.config_of("t"))
    partition = Partition(where, NO_TOPIC_ID, log, node_id=NODE, on_advance=bench.advanced.append)
    return partition, bench
