"""Who is struck when and how, out of a seed."""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

KILL, END, FREEZE, KILL_NODE = "kill", "end", "freeze", "kill node"
WEIGHTS: Final = {KILL: 4, END: 2, FREEZE: 3, KILL_NODE: 2}
PAUSE_SECONDS: Final = (2.0, 8.0)
SHORT_SECONDS: Final = (0.2, 2.0)
BEYOND_SECONDS: Final = (1.0, 4.0)
LONG_CHANCE: Final = 0.4


@dataclass(frozen=True)
class Strike:
    """After `pause` seconds something happens to an instance, or to a node, for `seconds`."""

    kind: str
    at: int
    pause: float
    seconds: float = 0.0

    def __str__(self) -> str:
        lasts = f" for {self.seconds:.1f} s" if self.seconds else ""
        return f"{self.kind} {self.at + 1}{lasts}"


def strikes(seed: int, *, instances: int, nodes: int, session_seconds: float) -> Iterator[Strike]:
    """Without end."""
    chance = random.Random(seed)
    while True:
        (kind,) = chance.choices(list(WEIGHTS), list(WEIGHTS.values()))
        at = chance.randrange(nodes if kind == KILL_NODE else instances)
        pause, seconds = chance.uniform(*PAUSE_SECONDS), 0.0
        if kind in (FREEZE, KILL_NODE):
            seconds = chance.uniform(*SHORT_SECONDS)
        if kind == FREEZE and chance.random() < LONG_CHANCE:
            seconds = session_seconds + chance.uniform(*BEYOND_SECONDS)
        yield Strike(kind, at, pause, seconds)
