"""Custom metadata of a segment's record: a store's own note, and the mark of compaction.

A store may want to remember something of its own with a segment, as Kafka's RemoteStorageManager may: which
bucket it chose, a key, a version. Two calls more than a store needs (`NotingStore`) let it: one gives the
note once all objects of a segment are there, the other takes it back whenever they are read or deleted. The
note travels with COPY_FINISHED and is no longer than `remote.log.metadata.custom.metadata.max.bytes`. A copy
that was never finished is deleted without one.

Kafka's record has one field for it. A compacted topic's segments also have a mark there of how far compaction
had been: "clean-to=OFFSET", and the note behind a ";". A note that begins like a mark is put behind an empty
one. With a removal the field says where the log starts from then on: "log-start=OFFSET@EPOCH"; with an
announcement that is repeated, that the copy was "given-up".
"""

from dataclasses import dataclass, field, replace
from typing import Final, Protocol

from headrace.tiered.remote_segment import RemoteSegment
from headrace.tiered.segment_mark import joined
from headrace.tiered.store import RemoteStore, RemoteStoreError

NOTE_BYTES_MAX: Final = 128  # Kafka's default


class NoteTooLargeError(RemoteStoreError):
    """The store's note does not fit into the record: neither would the next one."""


class NotingStore(RemoteStore, Protocol):
    """A store that keeps notes."""

    def finish(self, names: list[str]) -> bytes | None:
        """All objects of a segment are there, of these names or some of them: the note, or None."""
        ...

    def noted(self, note: bytes) -> RemoteStore:
        """The store for the objects of a segment with this note."""
        ...


def store_of(store: RemoteStore, segment: RemoteSegment) -> RemoteStore:
    """The store as it knows the segment's objects."""
    noted = getattr(store, "noted", None)
    note = segment.note
    if noted is None or note is None:
        return store
    found: RemoteStore = noted(note)
    return found


@dataclass(slots=True)
class Finishing:
    """The last work on a copy: the store is told that everything is there. Runs in a thread."""

    store: RemoteStore
    segment: RemoteSegment
    note_bytes_max: int
    note: bytes | None = field(default=None, init=False)

    def __call__(self) -> int:
        finish = getattr(self.store, "finish", None)
        self.note = None if finish is None else finish(self.segment.object_names())
        if self.note is not None and len(self.note) > self.note_bytes_max:
            raise NoteTooLargeError(
                f"the store's note of {len(self.note)} bytes for {self.segment} is larger than "
                f"remote.log.metadata.custom.metadata.max.bytes, {self.note_bytes_max}: allow more and "
                f"restart the node, or have the store write less"
            )
        return 0

    @property
    def finished(self) -> RemoteSegment:
        """The segment with its note, also where that is too large: then it is to be deleted."""
        if self.note is None:
            return self.segment
        return replace(self.segment, custom_metadata=joined(self.segment.clean_to, self.note))
