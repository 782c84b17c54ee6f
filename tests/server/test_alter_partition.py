"""AlterPartition over the wire: an in-sync set as its leader wants it, in the leader's own epoch only."""

import pytest

from headrace.base.error_codes import ErrorCode
from headrace.base.ids import TopicId
from headrace.wire.schemas import alter_partition as wire
from tests.server.node_world import NodeWorld, simulated


@pytest.mark.parametrize("version", [2, 3])
@simulated()
async def test_only_the_leader_of_now_changes_a_partition(world: NodeWorld, version: int) -> None:
    topic_id = await world.create_topic("orders")
    image = world.node.image
    held = image.topics_by_id[TopicId(topic_id)].partitions[0]
    client = await world.connect_controller()

    async def alter(leader_epoch: int) -> int:
        partition = wire.RequestPartitionData(
            partition_index=0,
            leader_epoch=leader_epoch,
            new_isr=[1] if version < 3 else [],
            new_isr_with_epochs=[wire.BrokerState(1, image.brokers[1].epoch)] if version >= 3 else [],
            partition_epoch=held.partition_epoch,
        )
        topic = wire.RequestTopicData(topic_id, [partition])
        request = wire.AlterPartitionRequest(1, image.brokers[1].epoch, [topic])
        code: int = (await client.ask(request, version)).topics[0].partitions[0].error_code
        return code

    assert await alter(held.leader_epoch) == 0
    assert await alter(held.leader_epoch - 1) == ErrorCode.FENCED_LEADER_EPOCH
