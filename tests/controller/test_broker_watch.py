"""Who is gone, and who is merely slow: real nodes in a simulated world, with time to the millisecond."""

import asyncio
from collections.abc import Callable, Coroutine
from types import SimpleNamespace
from typing import Any, cast

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.controller.drivers.broker_watch import BrokerWatch
from headrace.metadata.brokers import Endpoint
from headrace.testing.node_cluster import NodeCluster
from headrace.testing.world import World

APART = {1: "controller", 2: "controller", 3: "controller", 4: "broker", 5: "broker"}
ONE_CONTROLLER = {1: "controller", 2: "broker", 3: "broker"}
SESSION_S = 9.0

Script = Callable[[NodeCluster], Coroutine[Any, Any, None]]


def run(script: Script, roles: dict[int, str], *, seed: int = 1) -> None:
    cluster = NodeCluster(World(seed), nodes=len(roles), roles=roles)
    try:
        cluster.world.run(script(cluster))
        assert cluster.failures == []
    finally:
        cluster.world.close()


def active(cluster: NodeCluster) -> int:
    found = cluster.controller_id()
    assert found is not None
    return found


async def all_unfenced(cluster: NodeCluster, brokers: set[int]) -> None:
    await cluster.until(lambda: all(cluster.unfenced_on(each) == brokers for each in cluster.nodes))


async def time_to_fence(cluster: NodeCluster, broker: int) -> float:
    """Kill a broker; virtual seconds until the active controller has fenced it."""
    killed_at = cluster.world.virtual_s
    cluster.kill(broker)
    await cluster.until(lambda: broker not in cluster.unfenced_on(active(cluster)))
    return cluster.world.virtual_s - killed_at


def cut_all(cluster: NodeCluster, one: str, other: str) -> None:
    """Every connection between two machines ends."""
    for stream in cluster.world.network.connections(one, other):
        cluster.world.network.cut(stream)


def test_a_new_controller_knows_a_killed_broker_that_never_spoke_to_it() -> None:
    async def script(cluster: NodeCluster) -> None:
        await cluster.start()
        await all_unfenced(cluster, {4, 5})
        first = active(cluster)
        cluster.kill(first)
        await cluster.until(lambda: cluster.controller_id() not in (None, first))
        assert await time_to_fence(cluster, 4) < 0.5, "its next heartbeat would have been its first"

    for seed in range(3):
        run(script, APART, seed=seed)


def test_a_broker_that_was_looked_at_and_found_alive_is_still_watched() -> None:
    """As where a dying process closes its connections before its port: the look comes too early."""

    async def script(cluster: NodeCluster) -> None:
        await cluster.start()
        await all_unfenced(cluster, {4, 5})
        cut_all(cluster, f"node{active(cluster)}", "node4")
        await asyncio.sleep(0.005)
        assert await time_to_fence(cluster, 4) < 0.5

    for seed in range(3):
        run(script, APART, seed=seed)


def test_a_broker_that_is_slow_for_less_than_a_session_is_never_fenced() -> None:
    async def script(cluster: NodeCluster) -> None:
        await cluster.start()
        await all_unfenced(cluster, {4, 5})
        fenced: list[float] = []
        for _ in range(3):
            cluster.machine(4).pause()
            cut_all(cluster, f"node{active(cluster)}", "node4")
            for _ in range(60):
                await asyncio.sleep(0.1)
                if 4 not in cluster.unfenced_on(active(cluster)):
                    fenced.append(cluster.world.virtual_s)
            cluster.machine(4).resume()
            await asyncio.sleep(3)
        assert fenced == []
        cluster.machine(4).pause()
        await asyncio.sleep(SESSION_S + 1)
        assert 4 not in cluster.unfenced_on(active(cluster)), "a whole session's silence does tell"

    run(script, APART)


def test_a_controller_that_was_away_for_longer_than_a_session_fences_nobody() -> None:
    async def script(cluster: NodeCluster) -> None:
        await cluster.start()
        await all_unfenced(cluster, {2, 3})
        epochs = {each: cluster.nodes[1].image.brokers[each].epoch for each in (2, 3)}
        for away_s in (8.5, 12.0, 40.0):
            written = cluster.nodes[1].image.offset
            cluster.machine(1).pause()
            await asyncio.sleep(away_s)
            cluster.machine(1).resume()
            await asyncio.sleep(SESSION_S + 3)
            assert cluster.nodes[1].image.offset == written, f"{away_s} s: nobody was fenced and unfenced"
        assert {each: cluster.nodes[1].image.brokers[each].epoch for each in (2, 3)} == epochs

    run(script, ONE_CONTROLLER)


def test_a_broker_is_watched_where_this_node_knows_how_to_speak_to_it() -> None:
    """A controller that would speak plainly to a TLS listener would be hung up on, again and again."""
    plain, tls, login = Endpoint("IN", "h", 1, 0), Endpoint("OUT", "h", 2, 1), Endpoint("SASL", "h", 3, 2)
    nothing: Any = None

    def watched(known: set[str], between: str) -> list[str]:
        watch = BrokerWatch(
            nothing,
            loop=nothing,
            network=nothing,
            memory=nothing,
            suspect=nothing,
            trust=nothing,
            between_brokers=between,
            speaks=lambda endpoint: endpoint.name in known,
        )
        broker = SimpleNamespace(endpoints={each.name: each for each in (login, tls, plain)})
        return [each.name for each in watch._watched(cast(Any, broker))]

    assert watched({"IN", "OUT", "SASL"}, "SASL") == ["SASL"]
    assert watched({"IN", "OUT", "SASL"}, "ELSEWHERE") == ["OUT"]
    assert watched({"IN", "SASL"}, "ELSEWHERE") == ["IN"]
    assert watched({"SASL"}, "IN") == []


def test_a_broker_that_refuses_the_login_is_tried_again() -> None:
    """A password that is changed is wrong for a moment: the broker is watched when it is right."""
    attempts: list[int] = []

    async def script() -> None:
        through = asyncio.get_running_loop().create_future()

        async def hold_one(held: Any, broker: Any) -> None:
            attempts.append(broker.id)
            if len(attempts) < 3:
                raise ApiError(ErrorCode.SASL_AUTHENTICATION_FAILED, "wrong")
            through.set_result(None)
            await asyncio.get_running_loop().create_future()

        broker = SimpleNamespace(id=2, epoch=7, fenced=False)
        core = SimpleNamespace(node_id=1, image=SimpleNamespace(brokers={2: broker}))
        watch = BrokerWatch(
            cast(Any, SimpleNamespace(core=core, is_active=True)),
            loop=asyncio.get_running_loop(),
            network=cast(Any, None),
            memory=cast(Any, None),
            suspect=lambda broker_id: None,
            trust=lambda broker_id: None,
        )
        watch._hold_one = hold_one  # type: ignore[method-assign]
        watch._hold(2)
        await asyncio.wait_for(through, 30)
        watch.stop()

    asyncio.run(script())
    assert attempts == [2, 2, 2]
