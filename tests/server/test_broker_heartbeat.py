"""BrokerHeartbeat over the wire: unfenced when caught up, fenced when silent, and never by mistake."""

from headrace.base.error_codes import ErrorCode
from headrace.wire.schemas.broker_heartbeat import BrokerHeartbeatRequest
from tests.server.node_world import Client, NodeWorld, simulated
from tests.server.test_broker_registration import registration


async def join(world: NodeWorld, client: Client) -> int:
    """Broker 2 registers and is unfenced; its epoch."""
    epoch: int = (await client.ask(registration(world), 4)).broker_epoch
    response = await client.ask(beat(epoch), 2)
    assert (response.error_code, response.is_fenced) == (0, False)
    return epoch


def beat(epoch: int, offset: int | None = None) -> BrokerHeartbeatRequest:
    return BrokerHeartbeatRequest(
        broker_id=2,
        broker_epoch=epoch,
        current_metadata_offset=epoch if offset is None else offset,
        cordoned_log_dirs=[],
    )


@simulated()
async def test_who_has_caught_up_is_let_in(world: NodeWorld) -> None:
    client = await world.connect_controller()
    epoch = (await client.ask(registration(world), 4)).broker_epoch
    behind = await client.ask(beat(epoch, 0), 2)
    assert (behind.is_caught_up, behind.is_fenced) == (False, True)
    there = await client.ask(beat(epoch), 2)
    assert (there.is_caught_up, there.is_fenced) == (True, False)
    stale = await client.ask(beat(epoch - 1), 2)
    assert stale.error_code == ErrorCode.STALE_BROKER_EPOCH


@simulated()
async def test_a_silent_broker_is_fenced_after_its_session(world: NodeWorld) -> None:
    client = await world.connect_controller()
    await join(world, client)
    await world.pass_time(8_000)
    assert not world.node.image.brokers[2].fenced
    await world.until(lambda: world.node.image.brokers[2].fenced, timeout_s=3)


@simulated()
async def test_a_lost_connection_alone_fences_nobody(world: NodeWorld) -> None:
    """The broker's listener was never reached, so that it cannot be reached now proves nothing."""
    client = await world.connect_controller()
    await join(world, client)
    client.close()
    await world.pass_time(5_000)
    assert not world.node.image.brokers[2].fenced
