"""What goes wrong in a demonstration, on purpose: a node and the Spark program are killed while records flow.

Nobody is told before. The node is started again by its supervisor and fetches what it missed; the Spark
program is started again and goes on from its checkpoints. The account at the end has to be exact all the
same.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

# When there is no end: by then Spark has run for a while on most machines.
_WITHOUT_END_MS: Final = 90_000
# As parts of the time that records flow.
_NODE_AT: Final = 1 / 3
_SPARK_AT: Final = 1 / 2


@dataclass(slots=True)
class Harm:
    """Something that will be killed, and when."""

    what: str
    at_ms: int
    do: Callable[[], None]
    is_done: bool = False


def harms(
    duration_ms: int | None, *, kill_node: Callable[[], None] | None, kill_spark: Callable[[], None] | None
) -> list[Harm]:
    """What is to be killed in a run of this length, each where there is a way to do it."""
    length_ms = _WITHOUT_END_MS if duration_ms is None else duration_ms
    found = []
    if kill_node is not None:
        what = "a node was killed (kill -9): its supervisor starts it again"
        found.append(Harm(what, int(length_ms * _NODE_AT), kill_node))
    if kill_spark is not None:
        what = "Spark was killed (kill -9), driver and all: it goes on from its checkpoints"
        found.append(Harm(what, int(length_ms * _SPARK_AT), kill_spark))
    return found


def do_what_is_due(planned: list[Harm], elapsed_ms: int) -> list[str]:
    """Do it; returns what was done, for the picture."""
    due = [each for each in planned if not each.is_done and elapsed_ms >= each.at_ms]
    for each in due:
        each.is_done = True
        each.do()
    return [f"{elapsed_ms // 1000} s: {each.what}" for each in due]
