"""DeliveryThrottle: how much of what came back often is handed out at once.

One bad record can make a member fail, and with it all that the member was given come back. Whoever counts
deliveries cannot tell which one it was, and would give all of them up in the end. So from half of the
deliveries a record may have, ever smaller pieces of what was first handed out together go to a member, and
nothing else with them; the last delivery is one record alone. With a limit of 5, a batch of 6 goes out as a
whole three times, then its first 3, then record by record (KAFKA-17541).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

# Below this a record is retried as people do: once is no suspicion.
SUSPECT_FROM_MIN: Final = 2


class DeliveryThrottle:
    """What one fetch may take of records that are handed out again. `is_full` once nothing may be added,
    `slows` once nothing else may be."""

    __slots__ = ("_limit", "_piece", "_suspect_from", "_taken", "_together", "is_full", "slows")

    def __init__(self, delivery_count_limit: int) -> None:
        self.is_full = False
        self._limit = delivery_count_limit
        self._suspect_from = max(SUSPECT_FROM_MIN, (delivery_count_limit + 1) // 2)
        self._together: range | None = None
        self.slows = False
        self._piece: int | None = None
        self._taken = 0

    def take(
        self,
        together: range | None,
        delivery_count: int,
        size: int,
        *,
        counts: Callable[[], Iterable[int]],
        has_some: bool,
    ) -> int:
        """How many of a range's records may be taken. `together` was first handed out together, `counts` says
        how often what is free of it was; `has_some` where the fetch has got records already. None for what
        nobody had yet."""
        if together != self._together and not self._begin(together, counts, has_some):
            return 0
        if together is None or not self.slows:
            return size
        if delivery_count >= self._limit - 1 and self._limit > SUSPECT_FROM_MIN:
            self.is_full = True
            return 0 if self._taken else 1
        if self._piece is None and delivery_count >= self._suspect_from:
            halvings = delivery_count - self._suspect_from + 1
            self._piece = max(1, len(together) >> halvings)
        if self._piece is not None and self._taken < self._piece:
            size = min(size, self._piece - self._taken)
        self._taken += size
        self.is_full = self._taken == self._piece
        return size

    def _begin(self, together: range | None, counts: Callable[[], Iterable[int]], has_some: bool) -> bool:
        """Whether records that another fetch gave out together may go with what is there."""
        if not self.slows:
            self._together = together
            self.slows = any(count >= self._suspect_from for count in counts())
            self.is_full = self.slows and has_some
        else:
            self.is_full = True
        return not self.is_full
