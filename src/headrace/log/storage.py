"""What all logs of a node share: the disk, the bounds on open files and indexes, and the files waiting for
removal.

A node may hold far more segments than a process may hold descriptors, so files open at first use, and a
`Pool` drops those not used lately. It gives a second chance instead of keeping an exact order: a user only
sets its `touched` flag, which costs the data path one store, and the pool sorts out who goes when it is full.
"""

import heapq
import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Final, Protocol

from headrace.log.disk import Disk
from headrace.telemetry.limited_log import LimitedLog

if TYPE_CHECKING:
    from headrace.log.unified_log import UnifiedLog

logger = logging.getLogger(__name__)

# Well below the usual hard limit of descriptors, and above what a busy node's active segments need.
OPEN_FILES_MAX: Final = 4096
# A segment of 1 GiB has 5 MB of indexes at most; those of a hundred segments being read fit.
INDEX_BYTES_MAX: Final = 512 << 20

PRODUCER_EXPIRY_MS: Final = 86_400_000  # Kafka's producer.id.expiration.ms


class Evictable(Protocol):
    """A member of a pool."""

    touched: bool

    def release(self) -> None:
        """Drop the file or index; it is had again at next use."""
        ...


class Pool:
    """A bounded set of things that can be had again, each with a weight."""

    __slots__ = ("_members", "held", "limit")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.held = 0
        self._members: deque[tuple[Evictable, int]] = deque()

    def __len__(self) -> int:
        return len(self._members)

    def admit(self, member: Evictable, weight: int = 1) -> None:
        """Take in a member that has just opened what it holds, and release who was not used lately."""
        members = self._members
        members.append((member, weight))
        self.held += weight
        for _ in range(2 * len(members)):  # the second round finds every flag cleared
            if self.held <= self.limit:
                return
            oldest, weight = members.popleft()
            if oldest is member or oldest.touched:
                oldest.touched = False
                members.append((oldest, weight))
            else:
                self.held -= weight
                oldest.release()


class Removals:
    """Files and folders to be removed once nobody can need them, soonest first."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: list[tuple[int, str]] = []

    def __len__(self) -> int:
        return len(self._waiting)

    def schedule(self, path: str, due_ms: int) -> None:
        heapq.heappush(self._waiting, (due_ms, path))

    def take_due(self, now_ms: int) -> list[str]:
        """Paths whose time has come. Remove them from a thread: `remove_paths`."""
        due = []
        while self._waiting and self._waiting[0][0] <= now_ms:
            due.append(heapq.heappop(self._waiting)[1])
        return due


def remove_paths(disk: Disk, paths: list[str]) -> None:
    """Remove files and folders; blocks for as long as the file system needs."""
    for path in paths:
        if disk.is_folder(path):
            disk.remove_tree(path)
        else:
            disk.remove(path)


def _ignore_failure(folder: str, error: OSError) -> None:
    pass


def _no_time() -> float:
    """For a log of its own, as tools open it: a few lines are enough."""
    return 0.0


def _ignore_log(log: "UnifiedLog") -> None:
    pass


@dataclass(slots=True)
class Storage:
    """The surroundings of a log.

    `on_failure(folder, error)` hears of a disk that can no longer be trusted, `on_full(log)` of a write that
    found no room, `on_missing(log)` of a closed segment that has lost records, `on_recovery_point_back(log)`
    of a truncation below what a checkpoint vouches for, `on_cleaner_checkpoint_back(log)` of one below what
    compaction has been through, `on_start_apart(log)` of a log whose first segment is about to leave the disk
    while the log still starts there.
    """

    disk: Disk
    rng: Random = field(default_factory=lambda: Random(0))
    producer_expiry_ms: int = PRODUCER_EXPIRY_MS
    files: Pool = field(default_factory=lambda: Pool(OPEN_FILES_MAX))
    indexes: Pool = field(default_factory=lambda: Pool(INDEX_BYTES_MAX))
    removals: Removals = field(default_factory=Removals)
    on_failure: Callable[[str, OSError], None] = _ignore_failure
    on_full: "Callable[[UnifiedLog], None]" = _ignore_log
    on_missing: "Callable[[UnifiedLog], None]" = _ignore_log
    on_recovery_point_back: "Callable[[UnifiedLog], None]" = _ignore_log
    on_cleaner_checkpoint_back: "Callable[[UnifiedLog], None]" = _ignore_log
    on_start_apart: "Callable[[UnifiedLog], None]" = _ignore_log
    damage_log: LimitedLog = field(default_factory=lambda: LimitedLog(_no_time, logger, logging.WARNING))
    """Tells of damage that readers meet, again and again."""
    sync_may_have_failed: bool = False
    """Nothing says that all syncs of the process that was here before have gone well."""
    to_flush: "dict[UnifiedLog, None]" = field(default_factory=dict)
    """Logs that rolled a segment since their last flush, in that order: one seed, one run."""
