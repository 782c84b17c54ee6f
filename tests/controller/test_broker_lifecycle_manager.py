"""A broker's half of its life, in virtual time: it beats, is fenced when it must be, and comes back."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from headrace.base.ids import TopicId
from headrace.controller.drivers.broker_lifecycle_manager import (
    BrokerIdentity,
    BrokerLifecycleManager,
    controller_registration_request,
)
from headrace.metadata.brokers import Endpoint
from headrace.testing.machine import Surroundings
from headrace.testing.world import World
from headrace.wire.schemas.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from headrace.wire.schemas.unregister_broker import UnregisterBrokerRequest
from tests.controller.building import CLUSTER_ID, Node, directory_of, format_node, open_node
from tests.raft.building import DIRECTORY_ID, node_config

LISTENERS = [Endpoint("PLAINTEXT", "localhost", 9092)]


def in_a_world(script: Callable[[Node, Surroundings], Awaitable[None]]) -> None:
    """Run a script with a started node, in virtual time."""
    world = World("lifecycle")
    machine = world.machine("node")

    async def program(around: Surroundings) -> None:
        format_node(around.disk, "/data")
        node = open_node(around.disk, "/data", loop=around.loop, clock=around.clock, rng=around.rng)
        await node.start()
        await script(node, around)

    async def run() -> None:
        await world.result(machine, machine.boot(program))

    world.run(run())
    world.close()


def second_broker(node: Node, around: Surroundings) -> BrokerLifecycleManager:
    identity = BrokerIdentity(2, CLUSTER_ID, b"2" * 16, (directory_of(2),))
    return BrokerLifecycleManager(
        node.controller,
        identity,
        node_config("/data"),
        replayed_to=lambda: node.image.offset,
        loop=around.loop,
        clock=around.clock,
    )


def test_a_broker_stays_unfenced_as_long_as_it_beats() -> None:
    async def script(node: Node, around: Surroundings) -> None:
        other = second_broker(node, around)
        await other.register(LISTENERS)
        await other.unfence()
        await asyncio.sleep(60)
        assert not node.image.brokers[2].fenced
        assert not other.fenced
        await other.shut_down()
        assert node.image.brokers[2].fenced
        assert other.fenced
        await node.stop()

    in_a_world(script)


def test_a_controller_whose_disk_is_full_is_waited_for() -> None:
    async def script(node: Node, around: Surroundings) -> None:
        other = second_broker(node, around)
        around.disk.faults.is_full = True
        starting = around.loop.create_task(other.register(LISTENERS))
        await asyncio.sleep(5)
        assert not starting.done()
        around.disk.faults.is_full = False
        await starting
        around.disk.faults.is_full = True
        letting_in = around.loop.create_task(other.unfence())
        await asyncio.sleep(5)
        assert not letting_in.done()
        around.disk.faults.is_full = False
        await letting_in
        assert not node.image.brokers[2].fenced
        await node.stop()

    in_a_world(script)


def test_a_silent_broker_is_fenced_after_its_session_and_its_leaders_move() -> None:
    async def script(node: Node, around: Surroundings) -> None:
        other = second_broker(node, around)
        await other.register(LISTENERS)
        await other.unfence()
        topic = CreatableTopic("t", -1, -1, [CreatableReplicaAssignment(0, [2, 1])])
        await node.controller.ask(CreateTopicsRequest([topic]))
        assert other._timer is not None
        other._timer.cancel()
        await asyncio.sleep(5)
        assert not node.image.brokers[2].fenced
        await asyncio.sleep(6)
        assert node.image.brokers[2].fenced
        partition = node.image.partition("t", 0)
        assert partition is not None
        assert (partition.leader, partition.isr) == (1, (1,))
        other._beat()
        await asyncio.sleep(0.1)
        assert not node.image.brokers[2].fenced, "a heartbeat brings it back"
        await node.stop()

    in_a_world(script)


def test_a_pause_of_the_whole_process_does_not_fence_its_own_broker() -> None:
    async def script(node: Node, around: Surroundings) -> None:
        epoch = node.lifecycle.epoch
        around.clock.jump(3_600_000)
        await asyncio.sleep(30)
        assert node.lifecycle._timer is not None
        node.lifecycle._timer.cancel()
        await asyncio.sleep(600)
        assert node.image.brokers[1].is_active
        assert node.image.brokers[1].epoch == epoch
        await node.stop()

    in_a_world(script)


def test_a_failed_directory_is_told_at_once() -> None:
    async def script(node: Node, around: Surroundings) -> None:
        await node.controller.ask(CreateTopicsRequest([CreatableTopic("t", 1, 1)]))
        node.lifecycle.report_failed_directory(DIRECTORY_ID)
        await node.controller.settle()
        partition = node.image.partition("t", 0)
        assert partition is not None
        assert partition.leader == -1
        assert node.image.brokers[1].directories == (DIRECTORY_ID,), "an empty list cannot be told"
        await node.stop()

    in_a_world(script)


def test_a_broker_whose_controller_is_gone_stops_all_the_same() -> None:
    async def script(node: Node, around: Surroundings) -> None:
        node.controller.stop()
        node.lifecycle._beat()
        await node.lifecycle.shut_down()
        assert node.lifecycle.fenced
        await node.raft.stop()
        unknown = second_broker(node, around)
        await unknown.shut_down()

    in_a_world(script)


def test_a_controller_registers_with_what_it_can_run() -> None:
    async def script(node: Node, around: Surroundings) -> None:
        request = controller_registration_request(
            node_id=1, incarnation_id=b"c" * 16, listeners=[Endpoint("CONTROLLER", "h", 9093)]
        )
        assert (await node.controller.ask(request)).error_code == 0
        controller = node.image.controllers[1]
        assert controller.endpoints["CONTROLLER"].port == 9093
        assert controller.features["metadata.version"].max == 32
        assert TopicId(controller.incarnation_id) == b"c" * 16
        await node.stop()

    in_a_world(script)


def test_a_broker_that_was_unregistered_says_so_once_and_stops_at_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def script(node: Node, around: Surroundings) -> None:
        other = second_broker(node, around)
        await other.register(LISTENERS)
        await other.unfence()
        await node.controller.ask(UnregisterBrokerRequest(2))
        await asyncio.sleep(60)
        assert other.unregistered
        assert 2 not in node.image.brokers
        told = [each.getMessage() for each in caplog.records if each.levelname == "ERROR"]
        assert [text.partition(",")[0] for text in told] == ["broker 2 was unregistered"]
        began_ms = around.clock.monotonic_ms()
        await other.shut_down()
        assert around.clock.monotonic_ms() == began_ms
        await node.stop()

    in_a_world(script)
