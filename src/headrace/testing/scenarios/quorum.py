"""Three controllers under a nemesis, and clients that have them write things down.

What must hold: never two leaders in one epoch; nobody decides before it knows what was decided before; what
somebody was told to be written stays, and is in the image of every node once faults stop; below what each has
delivered, the logs of all nodes are the same bytes; no controller believes in what it decided in vain; and
once faults stop there is one that decides again.
"""

import asyncio
from typing import Final

from headrace.base.errors import ApiError
from headrace.node.assembly import Node
from headrace.testing.nemesis import NETWORK, Nemesis, Trouble
from headrace.testing.node_cluster import NodeCluster
from headrace.testing.world import CheckFailedError, CrashedError, World
from headrace.wire.schemas.controller_registration import ControllerRegistrationRequest

NODES: Final = 3
STUBBORN_SHARE: Final = 0.7
WRITERS: Final = 2
FIRST_NAME: Final = 1_000
RAGE_S: Final = 20.0
QUIET_S: Final = 60.0
KINDS: Final = (
    *NETWORK,
    *(Trouble.KILL, Trouble.POWER_CUT, Trouble.CRASH_WITHIN, Trouble.PAUSE),
    *(Trouble.SLOW_DISK, Trouble.DISK_FULL),
)


def play(world: World) -> None:
    QuorumScenario(world).run()


class QuorumScenario:
    """One run."""

    def __init__(self, world: World) -> None:
        self.world = world
        roles = dict.fromkeys(range(1, NODES + 1), "controller")
        settings = {
            "metadata.log.max.record.bytes.between.snapshots": "3000",
            "metadata.max.retention.bytes": "6000",
        }
        self.cluster = NodeCluster(world, nodes=NODES, roles=roles, settings=settings)
        self.leaders: dict[int, int] = {}
        self.made: set[int] = set()
        self.rng = world.scheduler.random_for("quorum")
        self.over = False

    def run(self) -> None:
        self.world.check_every_step(self._check_leaders)
        self.world.run(self._script())

    async def _script(self) -> None:
        cluster = self.cluster
        machines = [cluster.machine(node_id) for node_id in cluster.ids]
        for node_id in cluster.ids:
            # A node whose disk "fails" in a crash within an operation ends by itself and comes back.
            cluster.keep_running(node_id, may_end_with=(OSError, ApiError))
        await cluster.until(lambda: cluster.controller_id() is not None, timeout_s=QUIET_S)
        writers = [self.world.driver.create_task(self._write(n)) for n in range(WRITERS)]
        nemesis = Nemesis(self.world, machines, KINDS)
        await nemesis.rage(RAGE_S)
        nemesis.calm()
        self.world.note("calm")
        await cluster.until(self._is_whole, "all nodes run, one leads and has decided", timeout_s=QUIET_S)
        before = len(self.made)
        await cluster.until(
            lambda: len(self.made) > before, "somebody gets something written", timeout_s=QUIET_S
        )
        self.over = True
        await asyncio.gather(*writers)
        await cluster.until(self._all_know, "every node has all of it", timeout_s=QUIET_S)
        self._check_logs()
        self._check_minds()

    # --- clients ---

    async def _write(self, writer: int) -> None:
        number = 0
        while not self.over:
            name = FIRST_NAME + number * WRITERS + writer
            number += 1
            if await self._make(name):
                self.made.add(name)
            await asyncio.sleep(self.rng.uniform(0.01, 0.3))

    async def _make(self, name: int) -> bool:
        """Have any node note a controller that does not exist; whether somebody said that it is noted."""
        node_id = self.rng.choice(self.cluster.ids)
        node = self.cluster.nodes.get(node_id)
        machine = self.cluster.machine(node_id)
        if node is None or machine.process is None:
            return False
        request = ControllerRegistrationRequest(controller_id=name, incarnation_id=self.rng.randbytes(16))
        # Some do not ask the next controller when the one they asked loses its office: what that one decided
        # in vain stays undone.
        own = node.parts.own_controller
        is_stubborn = own is not None and own.is_active and self.rng.random() < STUBBORN_SHARE
        asked = own if own is not None and is_stubborn else node.parts.controller

        async def ask() -> None:
            await asked.register_controller(request)

        try:
            await self.world.result(machine, machine.process.loop.create_task(ask()))
        except (CrashedError, ApiError, asyncio.CancelledError):
            return False
        return True

    # --- rules ---

    def _check_leaders(self) -> None:
        for node_id, node in self._running():
            core = node.quorum.driver.core
            if core.is_leader:
                other = self.leaders.setdefault(core.epoch, node_id)
                if other != node_id:
                    raise CheckFailedError(f"epoch {core.epoch} is led by {other} and by {node_id}")
                self._check_knows(node_id, node)

    def _check_knows(self, node_id: int, node: Node) -> None:
        """Who decides has taken in all that was decided before its time."""
        driver, own = node.quorum.driver, node.parts.own_controller
        assert driver.core.leadership is not None
        if own is not None and own.is_active and driver.delivered <= driver.core.leadership.start_offset:
            raise CheckFailedError(f"controller {node_id} is active, but has replayed to {driver.delivered}")

    def _running(self) -> list[tuple[int, Node]]:
        return [
            (node_id, node)
            for node_id, node in self.cluster.booted.items()
            if self.cluster.machine(node_id).is_running
        ]

    def _is_whole(self) -> bool:
        return len(self.cluster.nodes) == NODES and self.cluster.controller_id() is not None

    def _all_know(self) -> bool:
        nodes = self.cluster.nodes
        return len(nodes) == NODES and all(self.made <= set(n.image.controllers) for n in nodes.values())

    def _check_minds(self) -> None:
        """What a controller would decide on is what is committed, whatever it once decided in vain."""
        for node_id, node in self.cluster.nodes.items():
            controller = node.parts.own_controller
            assert controller is not None
            thought, known = set(controller.core.image.controllers), set(node.image.controllers)
            if thought != known:
                raise CheckFailedError(f"controller {node_id} believes in {sorted(thought ^ known)}")

    def _check_logs(self) -> None:
        """What two nodes both have and have delivered is the same to the byte."""
        drivers = [node.quorum.driver for node in self.cluster.nodes.values()]
        first = max(driver.log.log.log_start_offset for driver in drivers)
        end = min(driver.delivered for driver in drivers)
        logs = set()
        for driver in drivers:
            data = b""
            for _, batch in driver.log.batches_between(first, end) if first < end else ():
                data += bytes(batch)
            logs.add(data)
        if len(logs) > 1:
            raise CheckFailedError(f"the logs differ between offsets {first} and {end}")
