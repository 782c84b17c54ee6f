"""What compaction must keep of the producers that a log knows: without it their sequences would be lost.

A log may know a hundred thousand of them. They are gone through a slice at a time, so that the loop serves
others in between, and each group of segments that is written anew is told only of those that end in it.
"""

from bisect import bisect_left
from collections.abc import Callable, Generator, Iterable
from typing import Final

from headrace.log.cleaner_rewriting import Producers
from headrace.log.partition_log import PartitionLog
from headrace.log.producer_states import ProducerState

# A millisecond of the loop.
SLICE: Final = 4_000


class KnownProducers:
    """As the log knows them when a round begins to write. What they do meanwhile is at the log's end, which
    no round comes to."""

    def __init__(self, log: PartitionLog) -> None:
        self._states = list(log.producers.producers.values())
        self._marker_epochs: dict[int, int] = {}
        self._runs: list[list[int]] = []  # of last offsets, each of them sorted

    def look(self) -> Generator[Callable[[], int], int, None]:
        """Go through them; yields between two slices."""
        for at in range(0, len(self._states), SLICE):
            if at:
                yield _nothing
            self._runs.append(sorted(_note(self._states[at : at + SLICE], self._marker_epochs)))
        self._states.clear()

    def between(self, start: int, end: int) -> Producers:
        """What concerns segments with the offsets from `start` to before `end`."""
        found: list[int] = []
        for run in self._runs:
            found += run[bisect_left(run, start) : bisect_left(run, end)]
        return Producers(frozenset(found), self._marker_epochs)


def _note(states: Iterable[ProducerState], marker_epochs: dict[int, int]) -> list[int]:
    """The last offsets of those that have batches; of the others, whose marker tells their epoch, that."""
    found = []
    for state in states:
        if state.batches:
            found.append(state.batches[-1].last_offset)
        else:
            marker_epochs[state.producer_id] = state.epoch
    return found


def _nothing() -> int:
    return 0
