"""Which fault comes when, out of a seed.

A fault strikes one node, or the link between two, for some seconds, and is then undone. A round is one
fault, or two at once on different nodes: with three nodes that stops the quorum, so nothing can be
acknowledged meanwhile, and nothing may be forgotten either. Times run from a blink to well above the nine
seconds after which a silent node is fenced, so that it comes back as one that still believes it leads."""

import random
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Final

KILL, KILL_ALL, FREEZE, RESTART, ROLL = "kill", "kill-all", "freeze", "restart", "roll"
ISOLATE, CUT_PEERS, CUT_CLIENTS, CUT_LINK, MUTE, DEAFEN = (
    "isolate",
    "cut-peers",
    "cut-clients",
    "cut-link",
    "mute",
    "deafen",
)
FILL: Final = "fill-disk"

# What each needs, and how often it comes.
PROCESSES: Final = {KILL: 6, FREEZE: 5, RESTART: 3, ROLL: 2, KILL_ALL: 1}
CUTS: Final = {ISOLATE: 3, CUT_PEERS: 3, CUT_CLIENTS: 1, CUT_LINK: 3, MUTE: 2, DEAFEN: 2}
DISKS: Final = {FILL: 3}
EVERYTHING: Final = PROCESSES | CUTS | DISKS

SHORT_SECONDS: Final = (0.1, 3.0)
LONG_SECONDS: Final = (9.0, 14.0)
LONG_CHANCE: Final = 0.2
FULL_SECONDS: Final = (2.0, 12.0)  # a page that was begun has room for some records
TWO_AT_ONCE_CHANCE: Final = 0.2


@dataclass(frozen=True)
class Fault:
    """`node` is struck; of a link, `other` is the second end. It lasts `seconds` before it is undone."""

    kind: str
    node: int
    other: int
    seconds: float

    def __str__(self) -> str:
        where = f"{self.node}-{self.other}" if self.kind == CUT_LINK else str(self.node)
        return f"{self.kind} {where} for {self.seconds:.1f} s"


def rounds(seed: int, kinds: Collection[str], nodes: int = 3) -> Iterator[list[Fault]]:
    """Without end. Of two faults at once the first never restarts all nodes: that would undo the other."""
    chance = random.Random(seed)
    chosen = {kind: weight for kind, weight in EVERYTHING.items() if kind in kinds}
    single = {kind: weight for kind, weight in chosen.items() if kind not in (ROLL, KILL_ALL)}
    while True:
        two = len(single) > 0 and chance.random() < TWO_AT_ONCE_CHANCE
        struck = chance.sample(range(1, nodes + 1), nodes)
        drawn = _draw(chance, single if two else chosen, 2 if two else 1)
        yield [
            Fault(kind, struck[at], struck[(at + 1) % nodes], _seconds(chance, kind))
            for at, kind in enumerate(drawn)
        ]


def _draw(chance: random.Random, weights: dict[str, int], count: int) -> list[str]:
    return chance.choices(list(weights), list(weights.values()), k=count)


def _seconds(chance: random.Random, kind: str) -> float:
    if kind == FILL:
        return chance.uniform(*FULL_SECONDS)
    return chance.uniform(*(LONG_SECONDS if chance.random() < LONG_CHANCE else SHORT_SECONDS))
