"""Setting quotas in a simulated node, and waiting until it holds to them."""

from headrace.metadata.client_quotas import quotas_by_entity
from tests.server.beside_kafka.client_quotas import Names, alter
from tests.server.node_world import NodeWorld


async def limit(world: NodeWorld, names: Names, limits: dict[str, float | None]) -> None:
    """Set limits of an entity; None removes one."""
    client = await world.connect("admin")
    reply = await client.ask(alter((names, limits)), 1)
    assert [entry.error_code for entry in reply.entries] == [0], reply
    client.close()
    entity = tuple(sorted(names.items(), key=lambda item: item[0]))

    def is_followed() -> bool:
        found = quotas_by_entity(world.node.image.security).get(entity, {})
        return all(found.get(key) == value for key, value in limits.items())

    await world.until(is_followed, f"{names} is held to {limits}")
    await world.on_node(world.node.metadata_publisher.settle())
