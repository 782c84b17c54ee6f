"""AllocateProducerIds over the wire: blocks that do not overlap, for brokers that are registered."""

from headrace.base.error_codes import ErrorCode
from headrace.wire.schemas.allocate_producer_ids import AllocateProducerIdsRequest
from tests.server.node_world import NodeWorld, simulated


@simulated()
async def test_blocks_follow_each_other(world: NodeWorld) -> None:
    client = await world.connect_controller()
    epoch = world.node.image.brokers[1].epoch
    first = await client.ask(AllocateProducerIdsRequest(1, epoch), 0)
    second = await client.ask(AllocateProducerIdsRequest(1, epoch), 0)
    assert (first.error_code, second.error_code) == (0, 0)
    assert second.producer_id_start == first.producer_id_start + first.producer_id_len
    stale = await client.ask(AllocateProducerIdsRequest(1, epoch - 1), 0)
    assert stale.error_code == ErrorCode.STALE_BROKER_EPOCH
