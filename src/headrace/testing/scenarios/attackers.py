"""A cluster with attackers among its clients: nobody loses a session for lack of a turn.

The nodes, producers, group and operator of `cluster`, on a network that works, and clients who do what was
found to hold a node up (`attacks`). Work takes time here: a frame, sixty elements of a long request and every
byte cost the node something, as on a slow machine, and it does nothing else meanwhile. A node that lets one
client hold its loop then misses its own heartbeats.

From the moment the cluster is whole, besides the rules of `cluster`:

- no broker is fenced, and none leaves and comes back;
- the quorum keeps its leader;
- the group keeps its members and their partitions.
"""

import random
from dataclasses import dataclass
from typing import Final

from headrace.base.clock import Clock
from headrace.base.ids import TopicPartition
from headrace.testing.clock import BusyClock
from headrace.testing.conditions import Conditions
from headrace.testing.machine import Surroundings
from headrace.testing.node_cluster import CONTROLLER_PORT, PORT
from headrace.testing.scenarios.attacks import ATTACKS, ON_ANY_PORT, Attacker, prepare
from headrace.testing.scenarios.cluster import NODES, ClusterRun
from headrace.testing.scenarios.cluster_clients import GroupMember
from headrace.testing.scenarios.cluster_rules import is_whole
from headrace.testing.world import CheckFailedError, World

ATTACKERS: Final = 3
ATTACK_S: Final = 5.0
LOOK_NS: Final = 1_500_000
"""A frame has two or three looks: some milliseconds, a hundred times what it takes on a machine of today. So
few frames do what takes thousands there, and a seed is played within seconds."""

BYTE_NS: Final = 10


def play(world: World) -> None:
    """Three nodes, their clients, attackers for a while, and a look at everything."""
    run = AttackedRun(world)
    world.check_every_step(run.check)
    world.run(run.script())


@dataclass(frozen=True, slots=True)
class Standing:
    """Who is who in the cluster: what must not change for lack of a turn."""

    brokers: tuple[tuple[int, int], ...]
    """Ids and epochs of those that are not fenced."""
    quorum_epoch: int


class Member(GroupMember):
    """A member that must not lose what it has once all is quiet."""

    is_settled = False

    def on_revoked(self, partitions: list[TopicPartition]) -> None:
        if self.is_settled:
            self.world.fail(
                CheckFailedError(f"a member loses {partitions}: its session or another's is lost")
            )
        super().on_revoked(partitions)


class AttackedRun(ClusterRun):
    """One run."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        # A network that works, on which a peer can send much at once: it is the node that is tried.
        world.network.conditions = Conditions(short_rate=0.02, split_rate=0.02, buffer_bytes=512 * 1024)
        self.cluster.clock_of = self._busy_clock
        self.members = [Member(world, self.group, member._settings) for member in self.members]
        self.attackers = [
            Attacker(world, f"attacker{number}", *self._draw_attack()) for number in range(ATTACKERS)
        ]
        self._standing: Standing | None = None
        self._heard: dict[int, tuple[int, int]] = {}

    def _draw_settings(self, rng: random.Random) -> dict[str, str]:
        session_ms = rng.choice([2_000, 3_000])
        return super()._draw_settings(rng) | {
            "broker.session.timeout.ms": str(session_ms),
            "broker.heartbeat.interval.ms": str(session_ms // 4),
            "replica.lag.time.max.ms": "10000",
            "queued.max.request.bytes": "2000000",
            "socket.request.max.bytes": "2000000",
        }

    def _draw_attack(self) -> tuple[str, str, int, float]:
        rng = self.rng
        port = rng.choice([PORT, PORT, PORT, CONTROLLER_PORT])
        kind = rng.choice(sorted(ATTACKS if port == PORT else ON_ANY_PORT))
        return kind, f"node{rng.randint(1, NODES)}", port, ATTACK_S

    def _busy_clock(self, own: Surroundings) -> Clock:
        own.loop.byte_ns = BYTE_NS
        return BusyClock(own.clock, own.loop, LOOK_NS)

    async def script(self) -> None:
        await self.begin()
        operator = self.world.machine("preparer")
        await self.world.result(operator, operator.boot(prepare, may_fail=True))
        await self.until(self._is_quiet, "all brokers are there, and the group has its partitions")
        self._standing = self._look(1)
        for member in self.members:
            member.is_settled = True  # type: ignore[attr-defined]
        for attacker in self.attackers:
            self.world.machine(attacker.name).boot(attacker.run)
        await self.world.until(
            lambda: all(attacker.is_done for attacker in self.attackers),
            timeout_s=4 * ATTACK_S,
            what="the attackers are done",
        )
        await self.recover()
        self._standing = None
        await self.end()

    def _is_quiet(self) -> bool:
        owned = [where for member in self.members for where in member.owned]
        shared = sorted(owned) == self.partitions and all(member.owned for member in self.members)
        heard = {node.image.offset for node in self.cluster.nodes.values()}
        return (
            shared
            and len(heard) == 1
            and all(is_whole(self.cluster, node_id) for node_id in self.cluster.ids)
        )

    def check(self) -> None:
        """After a step of the world."""
        self.rules.check()
        if self._standing is None:
            return
        for node_id, node in self.cluster.nodes.items():
            heard = (node.image.offset, node.quorum.client.core.epoch)
            if heard != self._heard.get(node_id):
                self._heard[node_id] = heard
                self._compare(node_id, self._standing)

    def _compare(self, node_id: int, before: Standing) -> None:
        found = self._look(node_id)
        if found != before:
            raise CheckFailedError(
                f"under attack node {node_id} hears that somebody was gone: {found} after {before}"
            )

    def _look(self, node_id: int) -> Standing:
        """As a node sees it."""
        node = self.cluster.nodes[node_id]
        unfenced = [(each.id, each.epoch) for each in node.image.brokers.values() if not each.fenced]
        return Standing(tuple(sorted(unfenced)), node.quorum.client.core.epoch)
