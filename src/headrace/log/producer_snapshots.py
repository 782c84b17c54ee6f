"""A partition's `.snapshot` files: one at the base offset of each segment, one where the log ended at a clean
stop.

A snapshot named by an offset holds the producers as the batches below that offset left them.
"""

from bisect import bisect_left, insort

from headrace.base.errors import InvalidBytesError
from headrace.log.file_names import SNAPSHOT, offset_name
from headrace.log.producer_snapshot import decode_snapshot, encode_snapshot
from headrace.log.producer_states import ProducerStates
from headrace.log.storage import Storage


class ProducerSnapshots:
    """The offsets that have a snapshot in `folder`, in order."""

    __slots__ = ("_storage", "folder", "offsets")

    def __init__(self, storage: Storage, folder: str, offsets: list[int]) -> None:
        self._storage = storage
        self.folder = folder
        self.offsets = sorted(offsets)

    def path(self, offset: int) -> str:
        return f"{self.folder}/{offset_name(offset)}{SNAPSHOT}"

    def take(self, producers: ProducerStates) -> str | None:
        """Write the state at its end offset; the path to be synced, None where there is one already."""
        offset = producers.end_offset
        if offset in self.offsets:
            return None
        data = encode_snapshot(producers.snapshot())
        file = self._storage.disk.open(self.path(offset), create=True)
        file.write(0, (data,))
        file.truncate(len(data))
        insort(self.offsets, offset)
        return self.path(offset)

    def load_latest(self, producers: ProducerStates, *, log_start_offset: int, now_ms: int) -> None:
        """Restore from the latest snapshot that can be read; from nothing at the log's start without one."""
        while self.offsets:
            offset = self.offsets[-1]
            try:
                entries = decode_snapshot(self._storage.disk.read_file(self.path(offset)))
            except (InvalidBytesError, FileNotFoundError):
                self.remove(offset)
                continue
            expiry_ms = self._storage.producer_expiry_ms
            producers.restore(entries, offset, now_ms=now_ms, expiry_ms=expiry_ms)
            return
        producers.clear(log_start_offset)

    def remove(self, offset: int) -> None:
        if offset in self.offsets:
            self.offsets.remove(offset)
            self._storage.disk.remove(self.path(offset))

    def remove_outside(self, *, above: int, up_to: int) -> None:
        """Remove those that do not lie in (above, up_to]."""
        for offset in [o for o in self.offsets if not above < o <= up_to]:
            self.remove(offset)

    def remove_strays(self, bases: list[int]) -> None:
        """Keep those of segments, and one behind the last segment's start, which a clean stop wrote."""
        known = set(bases)
        strays = [offset for offset in self.offsets if offset not in known]
        if strays and strays[-1] > max(bases, default=-1):
            strays.pop()
        for offset in strays:
            self.remove(offset)

    def below(self, offset: int) -> list[int]:
        return self.offsets[: bisect_left(self.offsets, offset)]
