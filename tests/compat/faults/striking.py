"""Carries out faults on nodes, hosts and disks, and undoes them."""

import threading
import time
from collections.abc import Callable, Sequence
from typing import Final

from tests.compat.clients.face import eventually
from tests.compat.cluster import Node
from tests.compat.faults import disks, schedule
from tests.compat.faults.hosts import CLIENTS, Hosts
from tests.compat.faults.schedule import Fault


class Striking:
    """`violations` has what nodes did that nobody asked for."""

    def __init__(self, nodes: Sequence[Node], hosts: Hosts | None) -> None:
        self.violations: list[str] = []
        self._nodes = {node.number: node for node in nodes}
        self._hosts = hosts
        self._may_end: set[int] = set()
        self._clock = threading.Event()  # never set: a fault lasts as long as it lasts

    def carry_out(self, faults: Sequence[Fault]) -> None:
        """Strike with all at once, undo each after its time, and wait until all nodes serve again."""
        began = time.monotonic()
        undoing = sorted(((fault.seconds, self._strike(fault)) for fault in faults), key=lambda each: each[0])
        for seconds, undo in undoing:
            self._clock.wait(max(0.0, began + seconds - time.monotonic()))
            undo()
        for node in self._nodes.values():
            self._revive(node)
        for node in self._nodes.values():
            node.await_ready()

    def _revive(self, node: Node) -> None:
        """Start what ended. Only a node whose disk was full may end by itself."""
        may_end = node.number in self._may_end
        self._may_end.discard(node.number)
        if may_end and node.is_running and node.has_given_up():
            eventually(node.has_ended, f"the end of node {node.number}, whose disk was full")
        code = node.ended_by_itself()
        if code is not None and not may_end:
            self.violations.append(f"node {node.number} ended with {code}:\n{node.log_tail()}")
        if not node.is_running:
            node.launch()

    def _strike(self, fault: Fault) -> Callable[[], None]:
        """Begin a fault; what is returned undoes it."""
        node = self._nodes[fault.node]
        if fault.kind == schedule.KILL:
            node.kill()
            return node.launch
        if fault.kind == schedule.RESTART:
            node.stop()
            return node.launch
        if fault.kind == schedule.KILL_ALL:
            return self._kill_all()
        if fault.kind == schedule.ROLL:
            return self._roll
        if fault.kind == schedule.FREEZE:
            node.freeze()
            return node.thaw
        if fault.kind == schedule.FILL:
            assert node.data is not None
            folder = node.data
            disks.fill(folder)
            self._may_end.add(node.number)
            return lambda: disks.relieve(folder)
        return self._cut(fault)

    def _cut(self, fault: Fault) -> Callable[[], None]:
        assert self._hosts is not None
        hosts, peers = self._hosts, set(self._nodes) - {fault.node}
        here, there, is_both_ways = _CUTS[fault.kind](fault, peers)
        hosts.cut(here, there)
        if is_both_ways:
            hosts.cut(there, here)

        def undo() -> None:
            hosts.heal(here, there)
            hosts.heal(there, here)

        return undo

    def _roll(self) -> None:
        """Each in turn, once the one before serves again: as a careful operator does it."""
        for node in self._nodes.values():
            node.stop()
            node.start()

    def _kill_all(self) -> Callable[[], None]:
        for node in self._nodes.values():
            node.kill()

        def undo() -> None:
            for node in self._nodes.values():
                node.launch()

        return undo


# Whose packets are lost on the way to whom, and whether the answers are lost too.
_CUTS: Final[dict[str, Callable[[Fault, set[int]], tuple[set[int], set[int], bool]]]] = {
    schedule.ISOLATE: lambda fault, peers: ({fault.node}, {*peers, CLIENTS}, True),
    schedule.CUT_PEERS: lambda fault, peers: ({fault.node}, peers, True),
    schedule.CUT_CLIENTS: lambda fault, _: ({fault.node}, {CLIENTS}, True),
    schedule.CUT_LINK: lambda fault, _: ({fault.node}, {fault.other}, True),
    schedule.MUTE: lambda fault, peers: ({fault.node}, {*peers, CLIENTS}, False),
    schedule.DEAFEN: lambda fault, peers: (peers, {fault.node}, False),
}
