"""RemoteStorageManager, Kafka's interface to a remote store: objects under names, put whole, read in ranges.

Whoever wants another store implements these six calls and names the class in
`remote.log.storage.manager.class.name`. All of them block, and are called from threads, several at once.

A store promises little: an object that `put` returned for is there whole, until it is deleted; one whose
`put` failed may be there, whole, in part or not at all, and may be put again or deleted. Nothing is ever
overwritten with other bytes. Order between objects, listing at once what was just put, renames: none of it
is asked for.

A store may keep custom metadata with a segment, as in Kafka: which bucket it chose, a key, a version. Two
more calls (`CustomMetadataStore`) let it: one gives the metadata once all objects of a segment are there, the
other takes it back whenever they are read or deleted. It travels with COPY_FINISHED and is no longer than
`remote.log.metadata.custom.metadata.max.bytes`. A copy that was never finished is deleted without it. The
record's field is shared with marks of our own: see `segment_metadata`.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, Protocol

from headrace.log.disk import File
from headrace.tiered.segment_metadata import RemoteLogSegmentMetadata, joined

# Large enough that calls cost nothing beside bytes, small enough to have several of them in memory.
PIECE_BYTES: Final = 1 << 20

# One window of a reader is under way at a time: where it ends is known when it is there. So the larger it is,
# the less a store's latency counts: at 30 ms a read 8 MiB give 158 MB/s, 4 MiB gave 103, at none both 800.
WINDOW_BYTES_MAX: Final = 8 << 20


class RemoteStorageError(Exception):
    """The store did not do what it was asked for; trying again later may help. Says which object, and why;
    never a credential.
    """


class RemoteResourceNotFoundError(RemoteStorageError):
    """There is no object of this name."""


class RemoteStorageManager(Protocol):
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


def read_whole(store: RemoteStorageManager, name: str) -> bytes:
    """A small object, whose size nobody has noted."""
    pieces: list[bytes] = []
    while not pieces or len(pieces[-1]) == PIECE_BYTES:
        start = len(pieces) * PIECE_BYTES
        pieces.append(store.read(name, start, start + PIECE_BYTES))
    return b"".join(pieces)


def puts(store: RemoteStorageManager, objects: Mapping[str, bytes]) -> list[Callable[[], None]]:
    """What is to be done to store these small objects, piece by piece. A store for which several at once take
    no longer than one has a call `put_many`, and stores them in one piece.
    """
    own = getattr(store, "put_many", None)
    if own is not None:
        return [partial(own, objects)]
    return [partial(store.put_bytes, name, data) for name, data in objects.items()]


def begun(store: RemoteStorageManager, prefix: str) -> list[str]:
    """The names with this prefix under which anything is stored, also what a put that did not come to its end
    has left: `delete` removes both. A store that keeps such remains where `list` does not show them has a
    call of this name.
    """
    own = getattr(store, "begun", None)
    return list(own(prefix)) if own is not None else [name for name, _ in store.list(prefix)]


def read_into(store: RemoteStorageManager, name: str, start: int, buffer: memoryview) -> int:
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


def window_bytes_max(store: RemoteStorageManager) -> int:
    """How much of an object is best read at once. A store that answers within microseconds says so with an
    attribute of this name.
    """
    return int(getattr(store, "window_bytes_max", WINDOW_BYTES_MAX))


NOTE_BYTES_MAX: Final = 128  # Kafka's default


class CustomMetadataSizeLimitExceededError(RemoteStorageError):
    """The store's note does not fit into the record: neither would the next one."""


class CustomMetadataStore(RemoteStorageManager, Protocol):
    """A store that keeps custom metadata, its note, with each segment."""

    def finish(self, names: list[str]) -> bytes | None:
        """All objects of a segment are there, of these names or some of them: the note, or None."""
        ...

    def noted(self, note: bytes) -> RemoteStorageManager:
        """The store for the objects of a segment with this note."""
        ...


def store_of(store: RemoteStorageManager, segment: RemoteLogSegmentMetadata) -> RemoteStorageManager:
    """The store as it knows the segment's objects."""
    noted = getattr(store, "noted", None)
    note = segment.note
    if noted is None or note is None:
        return store
    found: RemoteStorageManager = noted(note)
    return found


@dataclass(slots=True)
class Finishing:
    """The last work on a copy: the store is told that everything is there. Runs in a thread."""

    store: RemoteStorageManager
    segment: RemoteLogSegmentMetadata
    note_bytes_max: int
    note: bytes | None = field(default=None, init=False)

    def __call__(self) -> int:
        finish = getattr(self.store, "finish", None)
        self.note = None if finish is None else finish(self.segment.object_names())
        if self.note is not None and len(self.note) > self.note_bytes_max:
            raise CustomMetadataSizeLimitExceededError(
                f"the store's note of {len(self.note)} bytes for {self.segment} is larger than "
                f"remote.log.metadata.custom.metadata.max.bytes, {self.note_bytes_max}: allow more and "
                f"restart the node, or have the store write less"
            )
        return 0

    @property
    def finished(self) -> RemoteLogSegmentMetadata:
        """The segment with its note, also where that is too large: then it is to be deleted."""
        if self.note is None:
            return self.segment
        return replace(self.segment, custom_metadata=joined(self.segment.clean_to, self.note))


# -- for implementations -----------------------------------------------------------------------------------

_NAME: Final = re.compile(r"[A-Za-z0-9._-]+(/[A-Za-z0-9._-]+)*")


def checked_name(name: str) -> str:
    """The name; RemoteStorageError where it could lead out of the store, or is none. It is made of our own
    prefixes and a topic's name, and still checked wherever it becomes a path: a store writes and deletes
    with the broker's rights.
    """
    if not _NAME.fullmatch(name) or any(part.strip(".") == "" for part in name.split("/")):
        raise RemoteStorageError(f"{name!r} cannot be an object's name: it is a path of [A-Za-z0-9._-]")
    return name


def pieces(name: str, source: File, size: int) -> Iterator[bytes]:
    """The first `size` bytes of a file; RemoteStorageError at once where it has fewer, so that nothing is
    begun that would have to be given up.
    """
    if source.size() < size:
        raise RemoteStorageError(f"{name}: {source.path} ends at byte {source.size()} of {size}")
    return (
        source.read(position, min(PIECE_BYTES, size - position)) for position in range(0, size, PIECE_BYTES)
    )


# Everything else that is given to a store counts as a secret.
HARMLESS: Final = frozenset(
    {"url", "endpoint", "region", "profile", "timeout", "connect_timeout", "allow_http"}
)
# Hiding every "1" or "true" of a text would make it useless, and such a value protects nothing.
_SECRET_CHARACTERS_MIN: Final = 6

_QUERY: Final = re.compile(r"\?[^\s\"')]+")


class ErrorReasons:
    """Turns exceptions of a library into reasons that may be logged.

    Libraries quote requests: a signed URL has its signature in the query, and a refusal may repeat the key.
    So a reason is one line, without queries, and without any value of a setting that is not known to be
    harmless.
    """

    def __init__(self, settings: Mapping[str, str]) -> None:
        self._secrets = sorted(
            (
                value
                for name, value in settings.items()
                if name not in HARMLESS and len(value) >= _SECRET_CHARACTERS_MIN
            ),
            key=len,
            reverse=True,
        )

    def of(self, error: BaseException) -> str:
        """The first line of what an error says."""
        line = next(iter(str(error).strip().splitlines()), "") or type(error).__name__
        line = _QUERY.sub("?…", line)
        for secret in self._secrets:
            line = line.replace(secret, "…")
        return line
