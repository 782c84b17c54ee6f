"""A cluster of real nodes in a simulated world: elected, registered, and one controller after the other."""

from headrace.testing.node_cluster import NodeCluster
from headrace.testing.world import World


def test_three_nodes_elect_a_controller_and_register_their_brokers() -> None:
    cluster = NodeCluster(World(1))

    async def script() -> None:
        await cluster.start()
        await cluster.until(lambda: all(cluster.unfenced_on(each) == {1, 2, 3} for each in cluster.ids))

    cluster.world.run(script())
