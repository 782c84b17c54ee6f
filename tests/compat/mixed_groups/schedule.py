"""What happens to each seat and when, out of a seed: nothing else decides it.

Every seat lives by itself. Its member is there for a while, then one of four things happens to it; who left
or was killed comes back after a pause, as a new process. All times are seconds since the start.
"""

import random
from dataclasses import dataclass
from typing import Final

from tests.compat.mixed_groups.roster import SESSION_MS, Seat

START: Final = "start"
LEAVE: Final = "leave"
CRASH: Final = "crash"
FREEZE: Final = "freeze"
THAW: Final = "thaw"

_WEIGHTS: Final = {"leave": 3, "crash": 3, "short freeze": 2, "long freeze": 3}
_PRESENT_SECONDS: Final = (6.0, 30.0)
_ABSENT_SECONDS: Final = (0.5, 6.0)
_FROZEN_SECONDS: Final = {
    "short freeze": (0.5, SESSION_MS / 2_000),
    "long freeze": (SESSION_MS / 1_000 + 2.0, SESSION_MS / 1_000 + 6.0),
}
# All members at once would measure how fast programs start and nothing else.
_FIRST_SECONDS: Final = 4.0


@dataclass(frozen=True, slots=True, order=True)
class Step:
    at: float
    seat: str
    action: str


def plan(seats: list[Seat], *, seconds: float, seed: int) -> list[Step]:
    """All steps in order. The last state of a seat is whatever `seconds` cuts off."""
    steps: list[Step] = []
    for seat in seats:
        rng = random.Random(f"{seed}/{seat.name}")
        steps += _life(seat.name, rng, seconds)
    return sorted(steps)


def _life(seat: str, rng: random.Random, seconds: float) -> list[Step]:
    steps = [Step(at := rng.uniform(0.0, _FIRST_SECONDS), seat, START)]
    while (at := at + rng.uniform(*_PRESENT_SECONDS)) < seconds:
        fate = rng.choices(list(_WEIGHTS), list(_WEIGHTS.values()))[0]
        if fate in _FROZEN_SECONDS:
            steps.append(Step(at, seat, FREEZE))
            steps.append(Step(at := at + rng.uniform(*_FROZEN_SECONDS[fate]), seat, THAW))
        else:
            steps.append(Step(at, seat, fate))
            steps.append(Step(at := at + rng.uniform(*_ABSENT_SECONDS), seat, START))
    return [step for step in steps if step.at < seconds]
