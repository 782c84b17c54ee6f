"""Three controllers under a nemesis, and clients that have them write things down.

What must hold: never two leaders in one epoch; nobody decides before it knows what was decided before; what
somebody was told to be written stays, and is in the image of every node once faults stop; below what each has
delivered, the logs of all nodes are the same bytes; no controller believes in what it decided in vain; and
once faults stop there is one that decides again. All that while a stranger, who can reach the controllers,
sends them votes and announcements of its own, with epochs next to theirs and far from them.
"""

import asyncio
from typing import Final

from headrace.base.errors import ApiError
from headrace.base.internal_topics import METADATA_TOPIC
from headrace.node.assembly import Node
from headrace.testing.nemesis import NETWORK, Nemesis, Trouble
from headrace.testing.node_cluster import NodeCluster
from headrace.testing.world import CheckFailedError, CrashedError, World
from headrace.wire.schemas import begin_quorum_epoch, end_quorum_epoch, vote
from headrace.wire.schemas.controller_registration import ControllerRegistrationRequest

NODES: Final = 3
STUBBORN_SHARE: Final = 0.7
WRITERS: Final = 2
FIRST_NAME: Final = 1_000
RAGE_S: Final = 20.0
QUIET_S: Final = 60.0
STRANGER: Final = 99
JUMPS: Final = (0, 1, 2, 5_000_000, 2**31 - 1)
STRANGE_EPOCH: Final = 1_000_000
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
        stranger = self.world.driver.create_task(self._deceive())
        writers = [self.world.driver.create_task(self._write(n)) for n in range(WRITERS)]
        nemesis = Nemesis(self.world, machines, KINDS)
        await nemesis.rage(RAGE_S)
        nemesis.calm()
        stranger.cancel()
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
            await asked.ask(request)

        try:
            await self.world.result(machine, machine.process.loop.create_task(ask()))
        except (CrashedError, ApiError, asyncio.CancelledError):
            return False
        return True

    async def _deceive(self) -> None:
        """Be a stranger. Votes and leaders that it invents hold up, but must not do harm that stays."""
        rng = self.world.scheduler.random_for("stranger")
        while True:
            await asyncio.sleep(rng.uniform(0.05, 3.0))
            node_id = rng.choice(self.cluster.ids)
            node, machine = self.cluster.nodes.get(node_id), self.cluster.machine(node_id)
            if node is None or machine.process is None:
                continue
            sender = rng.choice([*self.cluster.ids, STRANGER])
            epoch = node.quorum.client.core.epoch + rng.choice(JUMPS)
            kind = rng.choice((_vote, _begin_quorum_epoch, _end_quorum_epoch))
            self.world.note(f"a stranger sends {node_id} {kind.__name__} of {sender} for epoch {epoch}")
            machine.process.loop.call_soon(kind, node, sender, min(epoch, 2**31 - 1))

    # --- rules ---

    def _check_leaders(self) -> None:
        for node_id, node in self._running():
            core = node.quorum.client.core
            if core.epoch > STRANGE_EPOCH:
                raise CheckFailedError(f"node {node_id} let a stranger lead it to epoch {core.epoch}")
            if core.is_leader:
                other = self.leaders.setdefault(core.epoch, node_id)
                if other != node_id:
                    raise CheckFailedError(f"epoch {core.epoch} is led by {other} and by {node_id}")
                self._check_knows(node_id, node)

    def _check_knows(self, node_id: int, node: Node) -> None:
        """Who decides has taken in all that was decided before its time."""
        member, own = node.quorum.client, node.parts.own_controller
        assert member.core.leader_state is not None
        if own is not None and own.is_active and member.delivered <= member.core.leader_state.start_offset:
            raise CheckFailedError(f"controller {node_id} is active, but has replayed to {member.delivered}")

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
        members = [node.quorum.client for node in self.cluster.nodes.values()]
        first = max(member.log.log.log_start_offset for member in members)
        end = min(member.delivered for member in members)
        logs = set()
        for member in members:
            data = b""
            for _, batch in member.log.batches_between(first, end) if first < end else ():
                data += bytes(batch)
            logs.add(data)
        if len(logs) > 1:
            raise CheckFailedError(f"the logs differ between offsets {first} and {end}")


def _vote(node: Node, sender: int, epoch: int) -> None:
    asked = vote.RequestPartitionData(
        replica_epoch=epoch, replica_id=sender, last_offset_epoch=2**31 - 1, last_offset=2**40
    )
    request = vote.VoteRequest(None, -1, [vote.RequestTopicData(METADATA_TOPIC, [asked])])
    node.quorum.request_handler.vote(request, api_version=1)


def _begin_quorum_epoch(node: Node, sender: int, epoch: int) -> None:
    began = begin_quorum_epoch.RequestPartitionData(leader_id=sender, leader_epoch=epoch)
    endpoints = [begin_quorum_epoch.LeaderEndpoint("CONTROLLER", "nowhere", 1)]
    topics = [begin_quorum_epoch.RequestTopicData(METADATA_TOPIC, [began])]
    request = begin_quorum_epoch.BeginQuorumEpochRequest(None, -1, topics, endpoints)
    node.quorum.request_handler.begin_quorum_epoch(request, api_version=1)


def _end_quorum_epoch(node: Node, sender: int, epoch: int) -> None:
    ended = end_quorum_epoch.RequestPartitionData(leader_id=sender, leader_epoch=epoch)
    topics = [end_quorum_epoch.RequestTopicData(METADATA_TOPIC, [ended])]
    request = end_quorum_epoch.EndQuorumEpochRequest(None, topics)
    node.quorum.request_handler.end_quorum_epoch(request, api_version=1)
