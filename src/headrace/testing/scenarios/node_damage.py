"""Bits that flip in a node's files, and what may follow from each.

A batch of a partition may be lost with what lies behind it: that partition is excused from then on, and only
that one. Whatever the log can be had again from (indexes, snapshots of producers, checkpoints, a partition's
topic id) may lose nothing at all. The metadata log has no second source: the node may refuse to start, in
which case somebody puts the bit right, but it must not come up with other content.
"""

import random
from dataclasses import dataclass
from typing import Final

from headrace.records.batch import batches
from headrace.testing.disk import VirtualDisk
from headrace.testing.machine import SimulatedMachine
from headrace.testing.scenarios.log import UNCOVERED
from headrace.testing.scenarios.node_clients import TOPIC

LOG_DIR: Final = "/mount/data"
METADATA: Final = f"{LOG_DIR}/__cluster_metadata-0/"
DERIVED: Final = (".index", ".timeindex", ".snapshot", "leader-epoch-checkpoint", "partition.metadata")


@dataclass(frozen=True, slots=True)
class _Flip:
    path: str
    position: int
    before: int
    after: int


class Damage:
    """What was damaged in one run."""

    def __init__(self) -> None:
        self.partitions: set[int] = set()
        self._repairable: list[_Flip] = []

    def flip(self, victim: SimulatedMachine, rng: random.Random) -> None:
        """Flip one bit in a file of a kind that is chosen first: there are many more of some than of
        others."""
        kind = rng.choice([self._flip_batch, self._flip_batch, self._flip_derived, self._flip_source])
        kind(victim.disk, rng)

    def _flip_batch(self, disk: VirtualDisk, rng: random.Random) -> None:
        paths = [path for path in disk.files() if path.endswith(".log") and f"/{TOPIC}-" in path]
        if not paths:
            return
        path = rng.choice(paths)
        found = list(batches(bytes(disk.tree.file(path).data)))
        if found:
            start, header = rng.choice(found)
            position = start + rng.choice([at for at in range(header.size) if at not in UNCOVERED])
            disk.flip_bit(path, position)
            self.partitions.add(int(path.split("/")[-2].rpartition("-")[2]))

    def _flip_derived(self, disk: VirtualDisk, rng: random.Random) -> None:
        suffix = rng.choice([*DERIVED, "-offset-checkpoint"])
        paths = [
            path
            for path in disk.files()
            if path.endswith(suffix) and (f"/{TOPIC}-" in path or path.count("/") == LOG_DIR.count("/") + 1)
        ]
        if paths:
            disk.flip_bit(rng.choice(paths))

    def _flip_source(self, disk: VirtualDisk, rng: random.Random) -> None:
        """One at a time: several flips in one batch look like a batch that was never written whole."""
        if self._repairable:
            return
        paths = [
            path
            for path in disk.files()
            if path.startswith(METADATA) and path.endswith((".log", ".checkpoint"))
        ]
        path = rng.choice(paths) if paths else ""
        if path and disk.tree.file(path).data:
            before = bytes(disk.tree.file(path).data)
            disk.flip_bit(path)
            after = bytes(disk.tree.file(path).data)
            at = next(at for at, byte in enumerate(after) if byte != before[at])
            self._repairable.append(_Flip(path, at, before[at], after[at]))

    def repair(self, disk: VirtualDisk) -> bool:
        """Put right what the node refused to start with; False where there is nothing to put right."""
        flips, self._repairable = self._repairable, []
        for flip in reversed(flips):
            if flip.path in disk.files():
                data = disk.tree.file(flip.path).data
                if flip.position < len(data) and data[flip.position] == flip.after:
                    data[flip.position] = flip.before
        return bool(flips)
