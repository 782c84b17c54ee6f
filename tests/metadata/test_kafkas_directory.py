"""A directory that Apache Kafka wrote is ours to read, and to go on with."""

import asyncio
import shutil
from collections import Counter
from pathlib import Path

import pytest

from headrace.log.meta_properties import decode_meta_properties
from headrace.log.system_disk import SystemDisk
from headrace.metadata.config_resource import CLUSTER_DEFAULT, ConfigKey, ResourceType
from headrace.metadata.features import BOOTSTRAP_LEVELS
from headrace.metadata.image import MetadataImage
from headrace.metadata.image_writer import snapshot_records
from headrace.metadata.security import QuotaKey, ScramKey
from headrace.raft.metadata_log import read_bootstrap
from tests.controller.building import open_node

DATA = Path(__file__).parent / "data/kafka-4.3.1"


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return shutil.copytree(DATA, tmp_path / "data")


def test_its_bootstrap_records_are_those_we_format_with(directory: Path) -> None:
    bootstrap = read_bootstrap(SystemDisk(), str(directory))
    assert bootstrap is not None
    levels = {record.name: record.feature_level for record in bootstrap.records}
    assert list(levels.items()) == list(BOOTSTRAP_LEVELS.items())


def test_its_log_becomes_our_image_and_a_new_epoch_of_it(directory: Path) -> None:
    async def scenario() -> MetadataImage:
        properties = decode_meta_properties((directory / "meta.properties").read_bytes())
        node = open_node(SystemDisk(), str(directory), directory_id=properties.directory_id)
        assert [each.end_offset for each in node.raft.log.snapshots] == [0, 89, 170]
        await node.raft.start()
        check_content(node.image)
        await node.lifecycle.register([])
        await node.lifecycle.unfence()
        await node.stop()
        return node.image

    image = asyncio.run(scenario())
    plain = image.topics_by_name["plain"]
    assert {partition.elr for partition in plain.partitions.values()} == {(1,)}
    again = MetadataImage()
    again.replay_all(snapshot_records(image))
    assert list(snapshot_records(again)) == list(snapshot_records(image))


def check_content(image: MetadataImage) -> None:
    partitions = {name: len(topic.partitions) for name, topic in image.topics_by_name.items()}
    assert partitions == {"plain": 5, "configured": 1, "has.dot": 1}
    leaders = Counter(
        partition.leader for topic in image.topics_by_name.values() for partition in topic.partitions.values()
    )
    assert leaders == {1: 7}
    assert image.configs == {
        ConfigKey(ResourceType.TOPIC, "configured"): {
            "cleanup.policy": "compact,delete",
            "segment.bytes": "1048576",
        },
        ConfigKey(ResourceType.BROKER, "1"): {"log.cleaner.threads": "2"},
        CLUSTER_DEFAULT: {"min.insync.replicas": "1", "message.max.bytes": "2000000"},
        ConfigKey(ResourceType.CLIENT_METRICS, "cm"): {"interval.ms": "1000"},
        ConfigKey(ResourceType.GROUP, "g1"): {"consumer.session.timeout.ms": "50000"},
    }
    assert image.features == BOOTSTRAP_LEVELS
    assert image.kraft_version == 1
    assert image.next_producer_id == 1000
    assert image.brokers[1].rack == "r1"
    assert image.brokers[1].is_active
    assert image.controllers[1].endpoints["CONTROLLER"].port == 39392
    assert sorted(acl.resource_name for acl in image.security.acls.values()) == ["plain", "pre"]
    assert list(image.security.scram) == [ScramKey("bob", 1)]
    quota = QuotaKey((("client-id", None), ("user", "bob")), "producer_byte_rate")
    assert image.security.quotas[quota].value == 1024.0


def test_its_meta_properties_are_understood(directory: Path) -> None:
    properties = decode_meta_properties((directory / "meta.properties").read_bytes())
    assert (properties.cluster_id, properties.node_id) == ("MkU3OEVBNTcwNTJENDM2Qg", 1)
