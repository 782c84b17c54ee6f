"""Several real nodes in one simulated world: each on a machine of its own, under one seed.

    cluster = NodeCluster(World(7), nodes=3)
    async def script() -> None:
        await cluster.start()
        cluster.kill(cluster.controller_id())
        await cluster.until(lambda: cluster.controller_id() is not None)
    cluster.world.run(script())

All nodes are brokers and voters, unless `roles` says otherwise. With `first_voters` the log says who votes
(kraft.version 1), those at first, and nodes find the quorum through their addresses. All share a remote store
if there is one. What a node keeps in memory can be looked at from outside, as a debugger would.
"""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Final, TypeVar

from headrace.base.clock import Clock
from headrace.base.ids import uuid_text
from headrace.node.assembly import Node
from headrace.node.storage import format_node
from headrace.raft.voters import Voter, VoterSet
from headrace.settings.broker_config import BrokerConfig
from headrace.testing.disk import Crash
from headrace.testing.machine import SimulatedMachine, Surroundings
from headrace.testing.world import World
from headrace.tiered.remote_storage import RemoteStorageManager

T = TypeVar("T")

PORT: Final = 9092
CONTROLLER_PORT: Final = 9093
BOTH: Final = "broker,controller"


class NodeCluster:
    """Nodes 1 to N on machines node1 to nodeN."""

    def __init__(
        self,
        world: World,
        *,
        nodes: int = 3,
        roles: Mapping[int, str] | None = None,
        settings: Mapping[str, str] | None = None,
        first_voters: Sequence[int] = (),
        remote_store: RemoteStorageManager | None = None,
    ) -> None:
        self.world = world
        self.roles = {node_id: (roles or {}).get(node_id, BOTH) for node_id in range(1, nodes + 1)}
        self._machines = {node_id: world.machine(f"node{node_id}") for node_id in self.roles}
        self.nodes: dict[int, Node] = {}
        self.booted: dict[int, Node] = {}
        """The last process of each node, ready or not."""
        self.ended: dict[int, asyncio.Future[None]] = {}
        self.failures: list[tuple[int, Exception]] = []
        self.clock_of: Callable[[Surroundings], Clock] = lambda own: own.clock
        self._settings = dict(settings or {})
        self.own_settings: dict[int, dict[str, str]] = {}
        """What single nodes are told otherwise, from their next start on."""
        self._moved: dict[int, int] = {}
        self._cluster_id = uuid_text(world.rng.randbytes(16))
        self._first_voters = tuple(first_voters)
        self.remote_store_of: Callable[[int], RemoteStorageManager | None] = lambda node_id: remote_store
        voters = VoterSet(
            Voter(n, world.rng.randbytes(16), {"CONTROLLER": (f"node{n}", CONTROLLER_PORT)})
            for n in first_voters
        )
        for node_id in self.roles:
            machine = self.machine(node_id)
            format_node(
                self.config(node_id),
                self._cluster_id,
                disk=machine.disk,
                clock=machine.clock,
                rng=machine.rng,
                voters=voters if node_id in voters.by_id else None,
            )

    # --- the nodes ---

    @property
    def ids(self) -> list[int]:
        return list(self.roles)

    def machine(self, node_id: int) -> SimulatedMachine:
        return self._machines[node_id]

    def config(self, node_id: int) -> BrokerConfig:
        role = self.roles[node_id]
        host = f"node{node_id}"
        voters = [n for n, its in self.roles.items() if "controller" in its]
        listeners = []
        if "broker" in role:
            listeners.append(f"PLAINTEXT://{host}:{PORT}")
        if "controller" in role:
            port = self._moved.get(node_id, CONTROLLER_PORT)
            listeners.append(f"CONTROLLER://{host}:{port}")
        return BrokerConfig(
            {
                "node.id": str(node_id),
                "process.roles": role,
                "listeners": ",".join(listeners),
                "controller.listener.names": "CONTROLLER",
                **self._quorum_setting(voters),
                "log.dirs": "/data",
                "broker.rack": host,
                "group.initial.rebalance.delay.ms": "0",
                "offsets.topic.num.partitions": "3",
            }
            | self._settings
            | self.own_settings.get(node_id, {})
        )

    def move_controller(self, node_id: int, port: int) -> None:
        """From its next start on a node's controller listens on another port."""
        self._moved[node_id] = port

    def _quorum_setting(self, voters: Sequence[int]) -> dict[str, str]:
        if self._first_voters:
            servers = ",".join(f"node{n}:{CONTROLLER_PORT}" for n in self._first_voters)
            return {"controller.quorum.bootstrap.servers": servers}
        return {"controller.quorum.voters": ",".join(f"{n}@node{n}:{CONTROLLER_PORT}" for n in voters)}

    async def start(self, *node_ids: int) -> None:
        """Boot these nodes, or all, and wait until each is ready."""
        await asyncio.gather(*(self.begin_start(node_id) for node_id in node_ids or self.ids))

    def begin_start(self, node_id: int) -> "asyncio.Task[None]":
        machine = self.machine(node_id)
        task = machine.boot(
            lambda own: self._boot(own, node_id, self._expect_end(own, node_id)), may_fail=True
        )

        async def started() -> None:
            await self.world.result(machine, task)

        return self.world.driver.create_task(started())

    def _expect_end(self, own: Surroundings, node_id: int) -> "asyncio.Future[None]":
        """A process begins; the future is done when it is asked to stop, or fails."""
        ended: asyncio.Future[None] = own.loop.create_future()
        ended.add_done_callback(lambda done: done.cancelled() or done.exception())
        self.ended[node_id] = ended
        self.booted.pop(node_id, None)  # the one before, of which nothing can be read any more
        return ended

    async def _boot(self, own: Surroundings, node_id: int, ended: "asyncio.Future[None]") -> Node:
        def failed(error: Exception) -> None:
            self.failures.append((node_id, error))
            if not ended.done():
                ended.set_exception(error)

        def crashed() -> None:
            self.nodes.pop(node_id, None)

        self.machine(node_id).on_crash.append(crashed)
        node = Node(
            self.config(node_id),
            loop=own.loop,
            clock=self.clock_of(own),
            disk=own.disk,
            network=own.network,
            rng=own.rng,
            on_failure=failed,
            remote_store=self.remote_store_of(node_id),
        )
        self.booted[node_id] = node
        try:
            await node.start(None)
        except BaseException:
            node.abandon()
            raise
        self.nodes[node_id] = node
        return node

    def keep_running(self, node_id: int, *, may_end_with: tuple[type[BaseException], ...] = ()) -> None:
        """Boot a node, and again whenever it ends, as a supervisor does."""

        async def program(own: Surroundings) -> None:
            ended = self._expect_end(own, node_id)
            starting = own.loop.create_task(self._boot(own, node_id, ended))
            await asyncio.wait([starting, ended], return_when=asyncio.FIRST_COMPLETED)
            if not starting.done():  # it may wait for the others for as long as it takes
                starting.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await starting
                await ended
                return
            node = starting.result()
            await ended
            self.nodes.pop(node_id, None)
            await node.stop()

        self.world.keep_running(self.machine(node_id), program, may_end_with=may_end_with)

    def ask_to_stop(self, node_id: int) -> None:
        """Have a node that is kept running stop in order; it comes back."""
        process = self.machine(node_id).process
        if process is not None and self.is_alive(node_id):
            ended = self.ended[node_id]
            process.loop.call_soon(_resolve, ended)

    def kill(self, node_id: int, how: Crash = Crash.KILL) -> None:
        """End a node where it stands."""
        self.nodes.pop(node_id, None)
        self.machine(node_id).crash(how)

    async def stop(self, node_id: int) -> None:
        """A clean stop."""
        await self.on_node(node_id, self.nodes[node_id].stop())
        self.nodes.pop(node_id)
        self.machine(node_id).retire()

    async def on_node(self, node_id: int, work: Coroutine[Any, Any, T]) -> T:
        """Run something on a node's own loop."""
        machine = self.machine(node_id)
        assert machine.process is not None, f"node {node_id} does not run"
        return await self.world.result(machine, machine.process.loop.create_task(work))

    # --- what can be seen ---

    def is_alive(self, node_id: int) -> bool:
        """Whether the node that was booted last is the process that runs now."""
        process, ended = self.machine(node_id).process, self.ended.get(node_id)
        return process is not None and ended is not None and ended.get_loop() is process.loop

    def controller_id(self) -> int | None:
        """The active controller, if there is one."""
        for node_id, node in self.nodes.items():
            controller = node.parts.own_controller
            if controller is not None and controller.is_active:
                return node_id
        return None

    def unfenced_on(self, node_id: int) -> set[int]:
        """The brokers that a node believes to be alive."""
        return {each.id for each in self.nodes[node_id].image.brokers.values() if not each.fenced}

    async def until(self, condition: Callable[[], bool], what: str = "", timeout_s: float = 60) -> None:
        await self.world.until(condition, timeout_s=timeout_s, what=what or repr(condition))


def _resolve(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)
