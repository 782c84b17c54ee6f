"""The whole way: a request is decided, written, committed, answered, seen by the broker, and there after a
restart.
"""

import asyncio
from pathlib import Path

import pytest

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.log.system_disk import SystemDisk
from headrace.metadata.delta import MetadataDelta
from headrace.metadata.image import MetadataImage
from headrace.metadata.topics import RECOVERED, RECOVERING
from headrace.wire.schemas.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from headrace.wire.schemas.delete_topics import DeleteTopicsRequest
from headrace.wire.schemas.describe_quorum import (
    DescribeQuorumRequest,
    RequestPartitionData,
    RequestTopicData,
)
from tests.controller.building import format_node, open_node


def new_topic(name: str, partitions: int = 1, **settings: str) -> CreateTopicsRequest:
    configs = [
        CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in settings.items()
    ]
    topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1, configs=configs)
    return CreateTopicsRequest(topics=[topic])


def test_a_topic_is_made_seen_and_still_there_after_a_clean_restart(tmp_path: Path) -> None:
    async def first() -> int:
        node = open_node(SystemDisk(), str(tmp_path))
        await node.start()
        seen: list[str] = []

        def listen(image: MetadataImage, delta: MetadataDelta) -> None:
            seen.extend(image.topics_by_id[topic_id].name for topic_id in delta.topics_created)

        node.metadata_loader.follow(listen)
        response = await node.controller.ask(new_topic("orders", 3, retention_ms="1000"))
        assert response.topics[0].error_code == 0
        assert seen == ["orders"], "committed before it is answered"
        assert node.image.topic_config_of("orders") == {"retention.ms": "1000"}
        partition = node.image.partition("orders", 2)
        assert partition is not None
        assert (partition.leader, partition.isr, partition.leader_epoch) == (1, (1,), 0)
        await node.stop()
        partition = node.image.partition("orders", 0)
        assert partition is not None
        assert (partition.leader, partition.isr, partition.elr) == (-1, (), (1,))
        return node.lifecycle.epoch

    async def second(previous_epoch: int) -> None:
        node = open_node(SystemDisk(), str(tmp_path), incarnation=2, previous_epoch=previous_epoch)
        await node.start()
        partition = node.image.partition("orders", 0)
        assert partition is not None
        assert (partition.leader, partition.isr, partition.elr) == (1, (1,), ())
        assert partition.leader_recovery_state == RECOVERED
        assert partition.leader_epoch == 2
        assert node.image.features["metadata.version"] == 30
        await node.stop()

    format_node(SystemDisk(), str(tmp_path))
    epoch = asyncio.run(first())
    asyncio.run(second(epoch))


def test_after_a_kill_the_last_leader_comes_back_recovering(tmp_path: Path) -> None:
    async def killed() -> None:
        node = open_node(SystemDisk(), str(tmp_path))
        await node.start()
        await node.controller.ask(new_topic("orders"))

    async def again() -> None:
        node = open_node(SystemDisk(), str(tmp_path), incarnation=2)
        await node.start()
        partition = node.image.partition("orders", 0)
        assert partition is not None
        assert (partition.leader, partition.isr, partition.last_known_elr) == (1, (1,), ())
        assert partition.leader_recovery_state == RECOVERING
        await node.stop()

    format_node(SystemDisk(), str(tmp_path))
    asyncio.run(killed())
    asyncio.run(again())


def test_decisions_rest_on_those_before_them_though_none_is_committed_yet(tmp_path: Path) -> None:
    async def scenario() -> None:
        node = open_node(SystemDisk(), str(tmp_path))
        await node.start()
        made = node.controller.ask(new_topic("a"))
        again = node.controller.ask(new_topic("a"))
        gone = node.controller.ask(DeleteTopicsRequest(topic_names=["a"]))
        assert not made.done()
        assert not again.done(), "it tells of a topic that is not committed yet"
        await asyncio.gather(made, again, gone)
        assert made.result().topics[0].error_code == ErrorCode.NONE
        assert again.result().topics[0].error_code == ErrorCode.TOPIC_ALREADY_EXISTS
        assert gone.result().responses[0].error_code == ErrorCode.NONE
        assert node.image.topics_by_name == {}
        await node.stop()

    format_node(SystemDisk(), str(tmp_path))
    asyncio.run(scenario())


def test_a_controller_that_does_not_lead_says_so(tmp_path: Path) -> None:
    async def scenario() -> None:
        node = open_node(SystemDisk(), str(tmp_path))
        with pytest.raises(ApiError) as refused:
            node.controller.ask(new_topic("a"))
        assert refused.value.code == ErrorCode.NOT_CONTROLLER
        await node.start()
        await node.stop()
        with pytest.raises(ApiError):
            node.controller.ask(new_topic("a"))

    format_node(SystemDisk(), str(tmp_path))
    asyncio.run(scenario())


def test_a_controller_that_cannot_write_what_its_office_begins_with_leaves_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, "the disk is full")

    async def scenario() -> None:
        node = open_node(SystemDisk(), str(tmp_path))
        monkeypatch.setattr(node.raft, "append", full)
        with pytest.raises(ApiError, match="the disk is full"):
            await node.raft.start()
        assert not node.controller.is_active
        assert not node.raft.is_leader

    format_node(SystemDisk(), str(tmp_path))
    asyncio.run(scenario())


def test_what_no_record_can_hold_is_the_requests_fault(tmp_path: Path) -> None:
    async def scenario() -> None:
        node = open_node(SystemDisk(), str(tmp_path))
        await node.start()
        with pytest.raises(ApiError, match="a string has at most 32767") as refused:
            node.controller.ask(
                new_topic("a", leader_replication_throttled_replicas=",".join(["0:1"] * 20_000))
            )
        assert refused.value.code == ErrorCode.INVALID_REQUEST
        assert "a" not in node.controller.core.image.topics_by_name
        assert (await node.controller.ask(new_topic("a"))).topics[0].error_code == 0
        await node.stop()

    format_node(SystemDisk(), str(tmp_path))
    asyncio.run(scenario())


def test_the_quorum_describes_itself(tmp_path: Path) -> None:
    def asked(topic: str) -> DescribeQuorumRequest:
        return DescribeQuorumRequest(
            topics=[RequestTopicData(topic_name=topic, partitions=[RequestPartitionData(partition_index=0)])]
        )

    async def scenario() -> None:
        node = open_node(SystemDisk(), str(tmp_path))
        await node.start()
        response = await node.controller.ask(asked("__cluster_metadata"), api_version=2)
        partition = response.topics[0].partitions[0]
        assert (partition.leader_id, partition.leader_epoch) == (1, 1)
        assert partition.high_watermark == partition.current_voters[0].log_end_offset
        assert response.nodes[0].listeners[0].port == 9093
        other = await node.controller.ask(asked("orders"), api_version=2)
        assert other.topics[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        await node.stop()

    format_node(SystemDisk(), str(tmp_path))
    asyncio.run(scenario())
