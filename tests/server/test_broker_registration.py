"""BrokerRegistration over the wire: a stranger joins, a second one of its name does not."""

from headrace.base.error_codes import ErrorCode
from headrace.metadata.features import SUPPORTED
from headrace.wire.schemas.broker_registration import BrokerRegistrationRequest, Feature, Listener
from tests.server.node_world import NodeWorld, simulated


def registration(
    world: NodeWorld, broker_id: int = 2, incarnation: bytes = b"i" * 16
) -> BrokerRegistrationRequest:
    return BrokerRegistrationRequest(
        broker_id=broker_id,
        cluster_id=world.node.cluster_id,
        incarnation_id=incarnation,
        listeners=[Listener("PLAINTEXT", "elsewhere", 9092, 0)],
        features=[Feature(name, levels.min, levels.max) for name, levels in SUPPORTED.items()],
        log_dirs=[bytes([broker_id]) * 16],
    )


@simulated()
async def test_a_broker_joins_fenced(world: NodeWorld) -> None:
    client = await world.connect_controller()
    response = await client.ask(registration(world), 4)
    assert response.error_code == 0
    broker = world.node.image.brokers[2]
    assert (broker.epoch, broker.fenced) == (response.broker_epoch, True)


@simulated()
async def test_an_id_that_is_in_use_is_refused(world: NodeWorld) -> None:
    client = await world.connect_controller()
    response = await client.ask(registration(world, broker_id=1), 4)
    assert response.error_code == ErrorCode.DUPLICATE_BROKER_REGISTRATION
    other = registration(world)
    other.cluster_id = "another"
    assert (await client.ask(other, 4)).error_code == ErrorCode.INCONSISTENT_CLUSTER_ID
