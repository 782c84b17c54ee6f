"""How fast a counter grows, over the last half minute, from how it stood when somebody looked.

Kafka gives such rates itself. Here they cost nothing until they are asked for, and nothing in between.
"""

from __future__ import annotations

from collections import deque
from typing import Final

WINDOW_S: Final = 30.0


class Window:
    """Earlier states of a counter."""

    __slots__ = ("_states",)

    def __init__(self) -> None:
        self._states: deque[tuple[float, float]] = deque()

    def rate(self, now_s: float, value: float) -> float:
        """Growth a second since a state that is as old as the window, or since the oldest there is."""
        states = self._states
        if states and value < states[-1][1]:
            states.clear()  # it began anew
        states.append((now_s, value))
        while len(states) > 2 and states[1][0] <= now_s - WINDOW_S:
            states.popleft()
        began_s, began = states[0]
        return (value - began) / (now_s - began_s) if now_s > began_s else 0.0
