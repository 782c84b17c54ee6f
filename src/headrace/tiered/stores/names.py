"""What an object may be called, and how a local file becomes an object piece by piece.

A name is made of our own prefixes and a topic's name, and still it is checked wherever it becomes a path: a
store writes and deletes with the broker's rights.
"""

import re
from collections.abc import Iterator
from typing import Final

from headrace.log.disk import File
from headrace.tiered.store import RemoteStoreError

# Large enough that calls cost nothing beside bytes, small enough to have several of them in memory.
PIECE_BYTES: Final = 1 << 20

_NAME: Final = re.compile(r"[A-Za-z0-9._-]+(/[A-Za-z0-9._-]+)*")


def checked_name(name: str) -> str:
    """The name; RemoteStoreError where it could lead out of the store, or is none."""
    if not _NAME.fullmatch(name) or any(part.strip(".") == "" for part in name.split("/")):
        raise RemoteStoreError(f"{name!r} cannot be an object's name: it is a path of [A-Za-z0-9._-]")
    return name


def pieces(name: str, source: File, size: int) -> Iterator[bytes]:
    """The first `size` bytes of a file; RemoteStoreError at once where it has fewer, so that nothing is begun
    that would have to be given up.
    """
    if source.size() < size:
        raise RemoteStoreError(f"{name}: {source.path} ends at byte {source.size()} of {size}")
    return (
        source.read(position, min(PIECE_BYTES, size - position)) for position in range(0, size, PIECE_BYTES)
    )
