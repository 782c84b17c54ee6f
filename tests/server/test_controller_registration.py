"""ControllerRegistration over the wire: where a controller listens is in the image."""

from headrace.wire.schemas.controller_registration import ControllerRegistrationRequest, Listener
from tests.server.node_world import NodeWorld, simulated


@simulated()
async def test_a_controller_tells_where_it_listens(world: NodeWorld) -> None:
    client = await world.connect_controller()
    request = ControllerRegistrationRequest(
        controller_id=2, incarnation_id=b"i" * 16, listeners=[Listener("CONTROLLER", "other", 9093, 0)]
    )
    assert (await client.ask(request, 0)).error_code == 0
    assert set(world.node.image.controllers) == {1, 2}
