"""Settings through a controller of its own, whose id is no broker's, and names that nobody knows."""

from typing import Any

from headrace.base.error_codes import ErrorCode
from headrace.settings.definition import ConfigSource
from headrace.testing.node_cluster import CONTROLLER_PORT, PORT, NodeCluster
from headrace.testing.world import World
from headrace.wire.schemas.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from headrace.wire.schemas.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.server.node_world import Client, open_client

BROKER = 4
SET, DELETE = 0, 1
CONTROLLER_ID, BROKER_ID = 1, 2


async def alter(client: Client, who: str, name: str, value: str | None) -> int:
    change = AlterableConfig(name, DELETE if value is None else SET, value)
    request = IncrementalAlterConfigsRequest([AlterConfigsResource(BROKER, who, [change])])
    return int((await client.ask(request, 1)).responses[0].error_code)


async def dynamic(client: Client, who: str) -> dict[str, str]:
    """The settings of a node, or of all, that were changed while they run."""
    reply = await client.ask(
        DescribeConfigsRequest(resources=[DescribeConfigsResource(BROKER, who, None)]), 4
    )
    sources = (ConfigSource.DYNAMIC_BROKER, ConfigSource.DYNAMIC_DEFAULT)
    return {each.name: each.value for each in reply.results[0].configs if each.config_source in sources}


def play(script: Any) -> None:
    world = World(1)
    roles = {CONTROLLER_ID: "controller", BROKER_ID: "broker"}
    cluster = NodeCluster(world, nodes=2, roles=roles)
    network = world.network.attach("client", world.driver)

    async def conversation() -> None:
        await cluster.start()
        controller = await open_client(world.driver, network, f"node{CONTROLLER_ID}", CONTROLLER_PORT)
        broker = await open_client(world.driver, network, f"node{BROKER_ID}", PORT)
        await script(cluster, controller, broker)

    try:
        world.run(conversation())
    finally:
        world.close()


def test_a_controllers_settings_are_changed_and_described() -> None:
    async def script(cluster: NodeCluster, controller: Client, broker: Client) -> None:
        own = str(CONTROLLER_ID)
        assert await alter(controller, own, "log.cleaner.threads", "2") == 0
        assert (await dynamic(controller, own))["log.cleaner.threads"] == "2"
        assert await alter(controller, own, "log.cleaner.threads", None) == 0
        assert "log.cleaner.threads" not in await dynamic(controller, own)
        assert await alter(controller, "77", "log.cleaner.threads", "2") == ErrorCode.BROKER_ID_NOT_REGISTERED

    play(script)


def test_a_controller_tells_the_settings_of_all_brokers() -> None:
    async def script(cluster: NodeCluster, controller: Client, broker: Client) -> None:
        assert await dynamic(controller, "") == {"min.insync.replicas": "1"}
        assert await alter(controller, "", "log.retention.ms", "5000000") == 0
        assert (await dynamic(controller, ""))["log.retention.ms"] == "5000000"

    play(script)


def test_what_nobody_knows_can_be_removed() -> None:
    async def script(cluster: NodeCluster, controller: Client, broker: Client) -> None:
        own = str(BROKER_ID)
        for name in ("no.such.setting", "node.id", "log.cleaner.threads"):
            assert await alter(broker, own, name, None) == 0
        assert await alter(broker, own, "no.such.setting", "1") == ErrorCode.INVALID_REQUEST
        assert await alter(broker, own, "node.id", "9") == ErrorCode.INVALID_REQUEST

    play(script)


def test_a_brokers_folders_are_known_to_it_alone() -> None:
    """A controller only lifts cordons: for a broker that is down."""

    async def script(cluster: NodeCluster, controller: Client, broker: Client) -> None:
        own, name = str(BROKER_ID), "cordoned.log.dirs"
        assert await alter(controller, own, name, "/data") == ErrorCode.INVALID_CONFIG
        assert await alter(broker, own, name, "/nowhere") == ErrorCode.INVALID_REQUEST
        assert await alter(broker, own, name, "/data") == 0
        await cluster.until(lambda: cluster.nodes[CONTROLLER_ID].image.brokers[BROKER_ID].is_cordoned)
        assert await alter(controller, own, name, "") == 0
        await cluster.until(lambda: not cluster.nodes[CONTROLLER_ID].image.brokers[BROKER_ID].is_cordoned)

    play(script)
