"""`client.rack` of members whose coordinator assigns: it is told, and partitions go to members near a replica
where that costs no balance. The other brokers are in the metadata only.
"""

from typing import Any

from headrace.base.ids import TopicPartition
from headrace.clients import AsyncConsumer
from headrace.wire.schemas.metadata_records import PartitionRecord, RegisterBrokerRecord, TopicRecord
from tests.clients.test_groups import BROKER, shared
from tests.clients.test_producer import play
from tests.clients.worlds import ClientWorld

TOPIC_ID = b"r" * 16
WEST, EAST = 7, 8


def spread_topic(world: ClientWorld, partitions: int) -> None:
    """A topic whose even partitions lie in the west, and the odd ones in the east."""
    image = world.node.image
    for node_id, rack in ((WEST, "west"), (EAST, "east")):
        image.replay(RegisterBrokerRecord(broker_id=node_id, broker_epoch=1, rack=rack, fenced=False))
    image.replay(TopicRecord(name="t", topic_id=TOPIC_ID))
    for number in range(partitions):
        node_id = EAST if number % 2 else WEST
        image.replay(
            PartitionRecord(
                partition_id=number, topic_id=TOPIC_ID, replicas=[node_id], isr=[node_id], leader=node_id
            )
        )


def member(world: ClientWorld, **settings: Any) -> AsyncConsumer:
    consumer = world.consumer(group_id="g", group_protocol="consumer", **settings)
    consumer.subscribe(["t"])
    return consumer


def test_members_get_what_lies_near_them() -> None:
    async def script(world: ClientWorld) -> None:
        spread_topic(world, 8)
        west, east = member(world, client_rack="west"), member(world, client_rack="east")
        await shared([west, east], [4, 4], [])
        assert west.assignment == {TopicPartition("t", number) for number in (0, 2, 4, 6)}
        assert east.assignment == {TopicPartition("t", number) for number in (1, 3, 5, 7)}
        # Who is nowhere takes its share of both, and nobody gets more for being near.
        nowhere = member(world)
        await shared([west, east, nowhere], [3, 3, 2], [])
        for consumer in (west, east, nowhere):
            await consumer.close()

    play(script, **BROKER)
