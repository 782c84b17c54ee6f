"""AssignReplicasToDirs over the wire: the directory of a replica is in the image."""

from headrace.base.ids import TopicId
from headrace.wire.schemas import assign_replicas_to_dirs as wire
from tests.server.node_world import NodeWorld, simulated


@simulated()
async def test_a_replica_is_where_its_broker_says(world: NodeWorld) -> None:
    topic_id = await world.create_topic("orders")
    broker = world.node.image.brokers[1]
    client = await world.connect_controller()
    partition = wire.RequestPartitionData(0)
    topic = wire.RequestTopicData(topic_id, [partition])
    request = wire.AssignReplicasToDirsRequest(
        1, broker.epoch, [wire.RequestDirectoryData(broker.directories[0], [topic])]
    )
    response = await client.ask(request, 0)
    assert response.error_code == 0
    assert response.directories[0].topics[0].partitions[0].error_code == 0
    held = world.node.image.topics_by_id[TopicId(topic_id)].partitions[0]
    assert held.directory_of(1) == broker.directories[0]
