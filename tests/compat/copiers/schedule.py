"""Who is struck when and how, out of a seed."""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

KILL, FREEZE, REPLACE, KILL_NODE = "kill", "freeze", "replace", "kill-node"
WEIGHTS: Final = {KILL: 4, FREEZE: 4, REPLACE: 2}
NODE_WEIGHT: Final = 2
PAUSE_SECONDS: Final = (0.3, 2.5)
SHORT_SECONDS: Final = (0.1, 1.0)
BEYOND_SECONDS: Final = (0.5, 2.0)  # more than a session, and so more than a transaction's time
LONG_CHANCE: Final = 0.3


@dataclass(frozen=True)
class Strike:
    """After `pause` seconds something happens to a seat, or to a node, for `seconds`."""

    kind: str
    at: int
    pause: float
    seconds: float

    def __str__(self) -> str:
        whom = "node" if self.kind == KILL_NODE else "copier"
        lasts = f" for {self.seconds:.1f} s" if self.kind != KILL else ""
        return f"{self.kind.removesuffix('-node')} {whom} {self.at + 1}{lasts}"


def strikes(seed: int, *, seats: int, nodes: int, session_ms: int) -> Iterator[Strike]:
    """Without end."""
    chance = random.Random(seed)
    weights = WEIGHTS | ({KILL_NODE: NODE_WEIGHT} if nodes > 1 else {})
    while True:
        (kind,) = chance.choices(list(weights), list(weights.values()))
        at = chance.randrange(nodes if kind == KILL_NODE else seats)
        pause, seconds = chance.uniform(*PAUSE_SECONDS), chance.uniform(*SHORT_SECONDS)
        if kind == REPLACE or (kind == FREEZE and chance.random() < LONG_CHANCE):
            seconds = session_ms / 1000 + chance.uniform(*BEYOND_SECONDS)
        yield Strike(kind, at, pause, seconds)
