"""Which file is damaged under a seed, and how."""

import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

BLOCK_BYTES: Final = 512

# The first that fits a path below the node's folder, or `store/` and the path below the store's.
KINDS: Final = {
    "store": r"store/.*",
    "metadata-log": r"__cluster_metadata-0/\d+\.log",
    "metadata-snapshot": r"__cluster_metadata-0/.*\.checkpoint",
    "quorum-state": r"__cluster_metadata-0/quorum-state",
    "metadata-others": r"__cluster_metadata-0/.*",
    "bootstrap": r"bootstrap\.checkpoint",
    "meta.properties": r"meta\.properties",
    "recovery-points": r"recovery-point-offset-checkpoint",
    "high-watermarks": r"replication-offset-checkpoint",
    "log-starts": r"log-start-offset-checkpoint",
    "cleaner-offsets": r"cleaner-offset-checkpoint",
    "cleanshutdown": r"\.kafka_cleanshutdown",
    "running": r"\.headrace_running",
    "internal-log": r"__(consumer_offsets|transaction_state|remote_log_metadata)-\d+/\d+\.log",
    "log": r"[^/]+/\d+\.log",
    "index": r"[^/]+/\d+\.index",
    "timeindex": r"[^/]+/\d+\.timeindex",
    "txnindex": r"[^/]+/\d+\.txnindex",
    "snapshot": r"[^/]+/\d+\.snapshot",
    "leader-epochs": r"[^/]+/leader-epoch-checkpoint",
    "partition.metadata": r"[^/]+/partition\.metadata",
}
# Logs are what matters, and have the most ways to be damaged.
WEIGHTS: Final = {"log": 4, "metadata-log": 2, "internal-log": 2}


def flip(data: bytes, chance: random.Random) -> bytes:
    """One bit, or a few near each other."""
    found = bytearray(data)
    at = chance.randrange(len(data))
    for _ in range(chance.choice((1, 1, 1, 3))):
        found[min(at + chance.randrange(8), len(data) - 1)] ^= 1 << chance.randrange(8)
    return bytes(found) if bytes(found) != data else flip(data, chance)


def cut(data: bytes, chance: random.Random) -> bytes:
    """At any byte; every fourth time to nothing."""
    return data[: 0 if chance.random() < 0.25 else chance.randrange(len(data))]


def zero(data: bytes, chance: random.Random) -> bytes:
    """A block that never came to the disk."""
    at = chance.randrange(len(data)) // BLOCK_BYTES * BLOCK_BYTES
    found = data[:at] + bytes(min(BLOCK_BYTES, len(data) - at)) + data[at + BLOCK_BYTES :]
    return found if found != data else flip(data, chance)


def double(data: bytes, chance: random.Random) -> bytes:
    """The last bytes are there twice."""
    return data + data[-chance.randrange(1, min(len(data), 4 * BLOCK_BYTES) + 1) :]


HARMS: Final[dict[str, Callable[[bytes, random.Random], bytes]]] = {
    "flip": flip,
    "cut": cut,
    "zero": zero,
    "double": double,
}
REMOVE: Final = "remove"


@dataclass(frozen=True)
class Harm:
    """What was done to a file; `name` is its path below the node's folder, or below `store/`."""

    kind: str
    name: str
    path: Path
    how: str
    before: bytes
    is_latest: bool = True  # of the files of its kind

    def __str__(self) -> str:
        return f"{self.how} {self.name}"

    @property
    def now(self) -> bytes | None:
        """What the file holds by now; None without one."""
        return self.path.read_bytes() if self.path.exists() else None

    @property
    def is_undone(self) -> bool:
        return self.now == self.before

    @property
    def words(self) -> tuple[str, ...]:
        """A line that tells of it has one of them: the file, its segment, or its partition."""
        stem = self.name.split("~")[0]
        folder, _, file = stem.rpartition("/")
        copy = re.fullmatch(r"\d{20}-([\w-]{22})\.\w+", file)
        if copy:
            return (file, copy[1])
        partition = re.fullmatch(r".+-\d+", folder)
        return (file, partition[0]) if partition else (file,)


def kind_of(name: str) -> str | None:
    return next((kind for kind, pattern in KINDS.items() if re.fullmatch(pattern, name)), None)


def files_of(data: Path, store: Path | None) -> dict[str, list[tuple[str, Path]]]:
    """The files that can be damaged, by kind."""
    found: dict[str, list[tuple[str, Path]]] = {}
    for root, prefix in ((data, ""), (store, "store/")):
        for path in sorted(root.rglob("*") if root is not None else ()):
            name = prefix + str(path.relative_to(root)) if root is not None else ""
            kind = kind_of(name) if path.is_file() else None
            if kind is not None:
                found.setdefault(kind, []).append((name, path))
    return found


def strike(chance: random.Random, data: Path, store: Path | None, only: list[str] | None = None) -> Harm:
    """Choose a kind, a file of it and a damage, and do it."""
    files = {kind: each for kind, each in files_of(data, store).items() if not only or kind in only}
    assert files, f"there is no file of these kinds: {only}"
    kinds = sorted(files)
    kind = chance.choices(kinds, [WEIGHTS.get(each, 1) for each in kinds])[0]
    name, path = chance.choice(files[kind])
    before = path.read_bytes()
    is_latest = (name, path) == max(files[kind])
    how = chance.choice((*HARMS, REMOVE))
    if how == REMOVE or not before:
        path.unlink()
        return Harm(kind, name, path, REMOVE, before, is_latest)
    path.write_bytes(HARMS[how](before, chance))
    return Harm(kind, name, path, how, before, is_latest)
