"""A cluster of real nodes in a simulated world: elected, registered, and one controller after the other."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from headrace.base.error_codes import ErrorCode
from headrace.base.internal_topics import OFFSETS_TOPIC
from headrace.testing.disk import Crash
from headrace.testing.node_cluster import PORT, NodeCluster
from headrace.testing.world import World
from headrace.wire.schemas.add_raft_voter import AddRaftVoterRequest, Listener
from headrace.wire.schemas.create_topics import CreatableTopic, CreateTopicsRequest
from headrace.wire.schemas.find_coordinator import FindCoordinatorRequest
from headrace.wire.schemas.metadata import MetadataRequest, MetadataRequestTopic
from headrace.wire.schemas.remove_raft_voter import RemoveRaftVoterRequest
from headrace.wire.schemas.unregister_broker import UnregisterBrokerRequest
from headrace.wire.schemas.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from tests.server.node_world import open_client

Script = Callable[[NodeCluster], Coroutine[Any, Any, None]]


def run(script: Script, *, seed: int = 1, **options: Any) -> None:
    cluster = NodeCluster(World(seed), **options)
    try:
        cluster.world.run(script(cluster))
        assert cluster.failures == []
    finally:
        cluster.world.close()


async def create(cluster: NodeCluster, node_id: int, name: str, replicas: int = 1) -> int:
    """Ask one node for a topic, as its broker would; returns the error code."""
    topic = CreatableTopic(name, 1, replicas)

    async def ask() -> Any:
        request = CreateTopicsRequest(topics=[topic], timeout_ms=30_000)
        return await cluster.nodes[node_id].parts.controller.ask(request)

    code: int = (await cluster.on_node(node_id, ask())).topics[0].error_code
    return code


async def all_there(cluster: NodeCluster) -> None:
    """Until every broker that runs believes in exactly those that run."""
    running = {each for each in cluster.nodes if "broker" in cluster.roles[each]}
    await cluster.until(lambda: all(cluster.unfenced_on(each) == running for each in cluster.nodes))


def topics_on(cluster: NodeCluster, node_id: int) -> set[str]:
    return set(cluster.nodes[node_id].image.topics_by_name)


def test_a_topic_that_is_asked_for_gets_the_active_controllers_defaults() -> None:
    """Whichever broker is asked; the system's own are as the broker that was asked has them."""
    roles = {1: "controller", 2: "broker", 3: "broker,controller"}

    async def script(cluster: NodeCluster) -> None:
        for node_id in cluster.ids:
            counts = {"num.partitions": str(10 + node_id), "offsets.topic.num.partitions": str(20 + node_id)}
            cluster.own_settings[node_id] = {**counts, "offsets.topic.replication.factor": "1"}
        await cluster.start()
        await cluster.until(lambda: cluster.unfenced_on(2) == {2, 3})
        active = cluster.controller_id()
        assert active is not None
        network = cluster.world.network.attach("client", cluster.world.driver)
        for node_id in (2, 3):
            client = await open_client(cluster.world.driver, network, f"node{node_id}", PORT)
            wanted = MetadataRequestTopic(name=f"asked-{node_id}")
            await client.ask(MetadataRequest([wanted], allow_auto_topic_creation=True), 12)
        await cluster.until(lambda: topics_on(cluster, 2) >= {"asked-2", "asked-3"}, "they are there")
        made = cluster.nodes[2].image.topics_by_name
        assert [len(made[name].partitions) for name in ("asked-2", "asked-3")] == [10 + active] * 2
        client = await open_client(cluster.world.driver, network, "node2", PORT)
        await client.ask(FindCoordinatorRequest(coordinator_keys=["g"]), 4)
        await cluster.until(lambda: OFFSETS_TOPIC in topics_on(cluster, 2), "the groups' topic is there")
        assert len(cluster.nodes[2].image.topics_by_name[OFFSETS_TOPIC].partitions) == 22

    run(script, nodes=3, roles=roles)


def test_three_nodes_elect_a_controller_and_know_each_others_brokers() -> None:
    async def script(cluster: NodeCluster) -> None:
        await cluster.start()
        await all_there(cluster)
        for node_id in cluster.ids:
            assert await create(cluster, node_id, f"t{node_id}", replicas=node_id) == 0
        assert await create(cluster, 1, "t2") == ErrorCode.TOPIC_ALREADY_EXISTS
        assert await create(cluster, 2, "wide", replicas=4) == ErrorCode.INVALID_REPLICATION_FACTOR
        await cluster.until(
            lambda: all(topics_on(cluster, each) == {"t1", "t2", "t3"} for each in cluster.ids)
        )
        for node_id in cluster.ids:
            await cluster.stop(node_id)

    run(script)


def test_a_killed_controller_is_followed_by_another_within_a_second() -> None:
    async def script(cluster: NodeCluster) -> None:
        await cluster.start()
        await all_there(cluster)
        assert await create(cluster, 1, "before") == 0
        first = cluster.controller_id()
        assert first is not None
        killed_at = cluster.world.virtual_s
        cluster.kill(first)
        await cluster.until(lambda: cluster.controller_id() is not None)
        assert cluster.world.virtual_s - killed_at < 0.5
        await all_there(cluster)
        assert cluster.world.virtual_s - killed_at < 1.0, "its broker is fenced at once, too"
        other = next(iter(cluster.nodes))
        assert await create(cluster, other, "after") == 0
        await cluster.start(first)
        await all_there(cluster)
        await cluster.until(lambda: topics_on(cluster, first) == {"before", "after"})

    for seed in range(5):
        run(script, seed=seed)


def test_a_paused_node_is_not_taken_for_dead() -> None:
    async def script(cluster: NodeCluster) -> None:
        await cluster.start()
        await all_there(cluster)
        broker = next(each for each in cluster.ids if each != cluster.controller_id())
        cluster.machine(broker).pause()
        await asyncio.sleep(6)
        active = cluster.controller_id()
        assert active is not None
        assert broker in cluster.unfenced_on(active), "only silence for a whole session tells"
        cluster.machine(broker).resume()
        await asyncio.sleep(6)
        assert broker in cluster.unfenced_on(active)

    run(script)


def test_a_paused_controller_loses_its_office_and_what_it_had_not_committed() -> None:
    async def script(cluster: NodeCluster) -> None:
        await cluster.start()
        await all_there(cluster)
        first = cluster.controller_id()
        assert first is not None
        others = [each for each in cluster.ids if each != first]
        cluster.world.network.partition([f"node{first}"], [f"node{each}" for each in others])
        lost = cluster.machine(first).process
        assert lost is not None
        asked = lost.loop.create_task(_ask_own(cluster, first, "never"))
        await cluster.until(lambda: any(_leads(cluster, each) for each in others))
        assert await create(cluster, others[0], "instead") == 0
        cluster.world.network.heal()
        await cluster.until(lambda: asked.done())
        assert isinstance(asked.exception(), Exception), "nobody was told that it was made"
        await all_there(cluster)
        await cluster.until(lambda: all(topics_on(cluster, each) == {"instead"} for each in cluster.ids))
        controller = cluster.nodes[first].parts.own_controller
        assert controller is not None
        assert set(controller.core.image.topics_by_name) == {"instead"}

    run(script)


async def _ask_own(cluster: NodeCluster, node_id: int, name: str) -> Any:
    controller = cluster.nodes[node_id].parts.own_controller
    assert controller is not None
    return await controller.ask(CreateTopicsRequest([CreatableTopic(name, 1, 1)], 1_000))


def _leads(cluster: NodeCluster, node_id: int) -> bool:
    controller = cluster.nodes[node_id].parts.own_controller
    return controller is not None and controller.is_active


def test_brokers_and_controllers_on_nodes_of_their_own() -> None:
    roles = {1: "controller", 2: "controller", 3: "controller", 4: "broker", 5: "broker"}

    async def script(cluster: NodeCluster) -> None:
        await cluster.start()
        await all_there(cluster)
        assert await create(cluster, 4, "a", replicas=2) == 0
        first = cluster.controller_id()
        assert first is not None
        await cluster.stop(first)
        await cluster.until(lambda: cluster.controller_id() is not None)
        assert await create(cluster, 5, "b", replicas=2) == 0
        cluster.kill(4)
        await all_there(cluster)
        await cluster.start(4)
        await all_there(cluster)
        await cluster.until(lambda: all(topics_on(cluster, each) == {"a", "b"} for each in cluster.nodes))

    run(script, nodes=5, roles=roles)


SHORT_METADATA_LOG = {
    "metadata.log.max.record.bytes.between.snapshots": "2000",
    "metadata.max.retention.bytes": "4000",
}


async def create_until_log_is_cut(cluster: NodeCluster, active: int) -> int:
    """Topics until the metadata log no longer begins with its first record; how many."""
    log = cluster.nodes[active].quorum.client.log.log
    number = 0
    while log.log_start_offset == 0:
        assert await create(cluster, active, f"topic{number}") == 0
        number += 1
    return number


def test_a_node_that_was_away_for_long_begins_with_a_snapshot() -> None:
    async def script(cluster: NodeCluster) -> None:
        await cluster.start()
        await all_there(cluster)
        away = next(each for each in cluster.ids if each != cluster.controller_id())
        cluster.kill(away)
        active = cluster.controller_id()
        assert active is not None
        number = await create_until_log_is_cut(cluster, active)
        await cluster.start(away)
        own = cluster.nodes[away].quorum.client
        assert own.log.log.log_start_offset > 0
        await cluster.until(lambda: topics_on(cluster, away) == topics_on(cluster, active))
        assert len(topics_on(cluster, away)) == number

    run(script, settings=SHORT_METADATA_LOG)


def test_a_snapshot_that_a_full_disk_did_not_take_is_taken_when_there_is_room() -> None:
    async def script(cluster: NodeCluster) -> None:
        await cluster.start()
        await all_there(cluster)
        active = cluster.controller_id()
        assert active is not None
        away = next(each for each in cluster.ids if each != active)
        cluster.world.network.partition([f"node{away}"], [f"node{each}" for each in {1, 2, 3} - {away}])
        await create_until_log_is_cut(cluster, active)
        disk = cluster.machine(away).disk
        disk.faults.is_full = True
        cluster.world.network.heal()
        await asyncio.sleep(20)
        assert not topics_on(cluster, away)
        disk.faults.is_full = False
        await cluster.until(lambda: topics_on(cluster, away) == topics_on(cluster, active))

    run(script, settings=SHORT_METADATA_LOG)


def test_voters_come_and_go_while_the_cluster_runs() -> None:
    async def voters_of(cluster: NodeCluster, node_id: int) -> set[int]:
        return set(cluster.nodes[node_id].quorum.client.core.voters)

    async def ask(cluster: NodeCluster, node_id: int, request: Any) -> Any:
        async def work() -> Any:
            return await cluster.nodes[node_id].parts.controller.ask(request)

        return await cluster.on_node(node_id, work())

    def added(cluster: NodeCluster, node_id: int) -> AddRaftVoterRequest:
        directory_id = cluster.nodes[node_id].quorum.client.core.directory_id
        where = [Listener("CONTROLLER", f"node{node_id}", 9093)]
        return AddRaftVoterRequest(None, 1_000, node_id, directory_id, where)

    async def script(cluster: NodeCluster) -> None:
        await cluster.start()
        await all_there(cluster)
        assert await voters_of(cluster, 3) == {1}
        for node_id in (2, 3):
            assert not cluster.nodes[node_id].quorum.client.core.is_voter
            await ask(cluster, 2, added(cluster, node_id))
            await cluster.until(lambda node_id=node_id: cluster.nodes[node_id].quorum.client.core.is_voter)
        cluster.kill(1)
        await cluster.until(lambda: cluster.controller_id() in (2, 3))
        await all_there(cluster)
        await cluster.start(1)
        await all_there(cluster)
        active = cluster.controller_id()
        assert active is not None
        directory_id = cluster.nodes[active].quorum.client.core.directory_id
        await ask(cluster, 1, RemoveRaftVoterRequest(None, active, directory_id))
        await cluster.until(lambda: cluster.controller_id() not in (None, active))
        remaining = {1, 2, 3} - {active}
        await cluster.until(
            lambda: all(
                set(cluster.nodes[each].quorum.client.core.voters) == remaining for each in cluster.ids
            )
        )
        assert await create(cluster, active, "still-served") == 0

    for seed in range(3):
        run(script, seed=seed, first_voters=[1])


def test_a_voter_that_moved_tells_where_it_listens_now() -> None:
    async def script(cluster: NodeCluster) -> None:
        await cluster.start()
        await all_there(cluster)
        moved = next(each for each in cluster.ids if each != cluster.controller_id())
        await cluster.stop(moved)
        cluster.move_controller(moved, 9999)
        await cluster.start(moved)

        def known_on(node_id: int) -> tuple[str, int]:
            voters = cluster.nodes[node_id].quorum.client.log.voters
            assert voters is not None
            return voters.by_id[moved].endpoints["CONTROLLER"]

        await cluster.until(lambda: all(known_on(each) == (f"node{moved}", 9999) for each in cluster.ids))
        await all_there(cluster)

    run(script, first_voters=[1, 2, 3])


def test_a_silent_broker_is_fenced_once_there_is_room_to_write_it_down() -> None:
    async def script(cluster: NodeCluster) -> None:
        await cluster.start()
        await all_there(cluster)
        active = cluster.controller_id()
        assert active is not None
        silent = next(each for each in cluster.ids if each != active)
        disk = cluster.machine(active).disk
        disk.faults.is_full = True
        cluster.kill(silent, Crash.POWER_CUT)
        await asyncio.sleep(15)
        assert cluster.controller_id() is None, "of three one is dead, and one can write nothing down"
        assert silent in cluster.unfenced_on(active), "its session is long over"
        disk.faults.is_full = False
        await cluster.until(lambda: silent not in cluster.unfenced_on(active), timeout_s=5)

    run(script, settings={"broker.session.timeout.ms": "3000", "broker.heartbeat.interval.ms": "500"})


def test_a_broker_that_was_unregistered_though_it_lives_stays_away_until_it_is_started_again() -> None:
    """As on Apache Kafka 4.3.1, whose broker would not even stop in order then."""

    async def script(cluster: NodeCluster) -> None:
        await cluster.start()
        await all_there(cluster)
        assert await create(cluster, 1, "t", replicas=3) == 0
        active = cluster.controller_id()
        assert active is not None
        away = next(each for each in cluster.ids if each != active)

        async def unregister() -> Any:
            return await cluster.nodes[active].parts.controller.ask(UnregisterBrokerRequest(away))

        def in_sync() -> bool:
            partition = cluster.nodes[active].image.partition("t", 0)
            assert partition is not None
            return away in partition.isr

        response = await cluster.on_node(active, unregister())
        assert (response.error_code, response.error_message) == (0, "")
        await cluster.until(lambda: away not in cluster.nodes[away].image.brokers)
        assert not in_sync()
        for _ in range(10):
            await asyncio.sleep(3)
            assert away not in cluster.nodes[active].image.brokers
        await cluster.stop(away)
        await cluster.start(away)
        await cluster.until(in_sync)
        await all_there(cluster)

    run(script)


def test_controllers_that_may_make_themselves_voters() -> None:
    async def script(cluster: NodeCluster) -> None:
        await cluster.start()

        def voters_on(node_id: int) -> set[int]:
            return set(cluster.nodes[node_id].quorum.client.core.voters)

        await cluster.until(lambda: all(voters_on(each) == {1, 2, 3} for each in cluster.ids))
        cluster.kill(1)
        await cluster.until(lambda: cluster.controller_id() in (2, 3))
        await all_there(cluster)

    run(script, first_voters=[1], settings={"controller.quorum.auto.join.enable": "true"})


def test_voters_of_the_settings_become_voters_of_the_log() -> None:
    """kafka-features upgrade --feature kraft.version=1"""
    upgrade = UpdateFeaturesRequest(feature_updates=[FeatureUpdateKey("kraft.version", 1, upgrade_type=1)])

    async def script(cluster: NodeCluster) -> None:
        await cluster.start()
        await all_there(cluster)
        active = cluster.controller_id()
        assert active is not None
        away = next(each for each in cluster.ids if each != active)

        async def ask(node_id: int, request: Any) -> Any:
            async def work() -> Any:
                return await cluster.nodes[node_id].parts.controller.ask(request)

            return await cluster.on_node(node_id, work())

        def driver_of(node_id: int) -> Any:
            return cluster.nodes[node_id].quorum.client

        dry = UpdateFeaturesRequest(feature_updates=upgrade.feature_updates, validate_only=True)
        assert (await ask(away, dry)).error_code == 0
        assert driver_of(active).log.kraft_version == 0
        assert (await ask(away, upgrade)).error_code == 0
        await cluster.until(
            lambda: all(
                cluster.nodes[each].image.finalized_features().get("kraft.version") == 1
                for each in cluster.ids
            )
        )
        directories = {each: driver_of(each).core.directory_id for each in cluster.ids}
        assert all(driver_of(each).core.voters == directories for each in cluster.ids)
        assert (await ask(away, upgrade)).error_code == 0, "it is so already"
        await ask(active, RemoveRaftVoterRequest(None, away, directories[away]))
        await cluster.until(lambda: set(driver_of(active).core.voters) == set(cluster.ids) - {away})
        for node_id in cluster.ids:
            cluster.kill(node_id)
        await cluster.start()
        await all_there(cluster)
        assert set(driver_of(away).core.voters) == set(cluster.ids) - {away}, "whatever the settings say"

    run(script)


def test_a_quorum_whose_voters_are_not_all_there_is_not_upgraded() -> None:
    async def script(cluster: NodeCluster) -> None:
        await cluster.start()
        await all_there(cluster)
        away = next(each for each in cluster.ids if each != cluster.controller_id())
        cluster.kill(cluster.controller_id() or 0)
        cluster.kill(away)
        left = next(iter(cluster.nodes))
        other = next(each for each in cluster.ids if each not in (left, away))
        await cluster.start(other)
        await cluster.until(lambda: cluster.controller_id() is not None)
        update = FeatureUpdateKey("kraft.version", 1, upgrade_type=1)

        async def ask() -> Any:
            request = UpdateFeaturesRequest(feature_updates=[update])
            return await cluster.nodes[left].parts.controller.ask(request, api_version=2)

        response = await cluster.on_node(left, ask())
        assert response.error_code == ErrorCode.INVALID_UPDATE_VERSION
        assert f"voter {away} is not there" in response.error_message

    run(script)


@pytest.mark.parametrize("together", [True, False])
def test_nodes_that_all_stop_do_not_wait_for_a_quorum_that_is_gone(
    together: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async def script(cluster: NodeCluster) -> None:
        await cluster.start()
        await all_there(cluster)
        assert await create(cluster, 1, "t", replicas=3) == 0
        began = cluster.world.virtual_s
        if together:
            await asyncio.gather(*(cluster.stop(each) for each in cluster.ids))
        else:
            for node_id in cluster.ids:
                await cluster.stop(node_id)
        assert cluster.world.virtual_s - began < (1.0 if together else 2.0)

    with caplog.at_level(logging.WARNING, logger="headrace.controller"):
        for seed in range(4):
            run(script, seed=seed)
    assert [each.message for each in caplog.records if "handing over" in each.message] == []
