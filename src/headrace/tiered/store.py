"""A remote store as the tiers need it: objects under names, written whole, read in ranges.

Whoever wants another store implements these five calls and names the class in
`remote.log.storage.manager.class.name`. All of them block, and are called from threads, several at once.

A store promises little: an object that `put` returned for is there whole, until it is deleted; one whose
`put` failed may be there, whole, in part or not at all, and may be put again or deleted. Nothing is ever
overwritten with other bytes. Order between objects, listing at once what was just put, renames: none of it
is asked for.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Final, Protocol

from headrace.log.disk import File

PIECE_BYTES: Final = 1 << 20

# One window of a reader is under way at a time: where it ends is known when it is there. So the larger it is,
# the less a store's latency counts: at 30 ms a read 8 MiB give 158 MB/s, 4 MiB gave 103, at none both 800.
WINDOW_BYTES_MAX: Final = 8 << 20


class RemoteStoreError(Exception):
    """The store did not do what it was asked for; trying again later may help. Says which object, and why;
    never a credential.
    """


class MissingObjectError(RemoteStoreError):
    """There is no object of this name."""


class RemoteStore(Protocol):
    """Where segments lie once they left the brokers' disks. Names are paths of [A-Za-z0-9._/-]."""

    def put(self, name: str, source: File, size: int) -> None:
        """Store the first `size` bytes of an open file, streaming: a segment may be larger than memory."""
        ...

    def put_bytes(self, name: str, data: bytes) -> None:
        """Store a small object."""
        ...

    def read(self, name: str, start: int, end: int) -> bytes:
        """The bytes [start, end) of an object, fewer only where it ends before."""
        ...

    def delete(self, names: list[str]) -> None:
        """Remove objects; those that are missing are fine."""
        ...

    def list(self, prefix: str) -> Iterator[tuple[str, int]]:
        """(name, size) of every object whose name starts with `prefix`, in the order of names."""
        ...

    def close(self) -> None:
        """Let connections go."""
        ...


def read_whole(store: RemoteStore, name: str) -> bytes:
    """A small object, whose size nobody has noted."""
    pieces: list[bytes] = []
    while not pieces or len(pieces[-1]) == PIECE_BYTES:
        start = len(pieces) * PIECE_BYTES
        pieces.append(store.read(name, start, start + PIECE_BYTES))
    return b"".join(pieces)


def puts(store: RemoteStore, objects: Mapping[str, bytes]) -> list[Callable[[], None]]:
    """What is to be done to store these small objects, piece by piece. A store for which several at once take
    no longer than one has a call `put_many`, and stores them in one piece.
    """
    own = getattr(store, "put_many", None)
    if own is not None:
        return [partial(own, objects)]
    return [partial(store.put_bytes, name, data) for name, data in objects.items()]


def begun(store: RemoteStore, prefix: str) -> list[str]:
    """The names with this prefix under which anything is stored, also what a put that did not come to its end
    has left: `delete` removes both. A store that keeps such remains where `list` does not show them has a
    call of this name.
    """
    own = getattr(store, "begun", None)
    return list(own(prefix)) if own is not None else [name for name, _ in store.list(prefix)]


def read_into(store: RemoteStore, name: str, start: int, buffer: memoryview) -> int:
    """Fill a buffer from `start` on; how many bytes came. A store that can do so itself, without a copy, has
    a call of this name.
    """
    own = getattr(store, "read_into", None)
    if own is not None:
        return int(own(name, start, buffer))
    data = store.read(name, start, start + len(buffer))
    count = min(len(data), len(buffer))
    buffer[:count] = memoryview(data)[:count]
    return count


def window_bytes_max(store: RemoteStore) -> int:
    """How much of an object is best read at once. A store that answers within microseconds says so with an
    attribute of this name.
    """
    return int(getattr(store, "window_bytes_max", WINDOW_BYTES_MAX))
