"""A partition's `.snapshot` files: its producers at an offset, so that a start need not replay the whole log.

There is one at the base offset of each segment, and one where the log ended at a clean stop. A snapshot named
by an offset holds the producers as the batches below that offset left them:

    version int16 (1) | crc uint32 | count int32 | per producer: producerId int64, epoch int16,
    lastSequence int32, lastOffset int64, offsetDelta int32, timestamp int64, coordinatorEpoch int32,
    currentTxnFirstOffset int64 (-1: none)

The CRC-32C covers everything behind it. Of a producer's last five batches only the latest is kept.
"""

import logging
import struct
from bisect import bisect_left, insort
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, NamedTuple

from crc32c import crc32c

from headrace.base.errors import InvalidBytesError
from headrace.log.file_names import SNAPSHOT, offset_name
from headrace.log.storage import Storage

if TYPE_CHECKING:
    from headrace.log.producer_state_manager import ProducerStateManager

VERSION: Final = 1

_HEAD: Final = struct.Struct(">hI")
logger = logging.getLogger(__name__)

_COUNT: Final = struct.Struct(">i")
_ENTRY: Final = struct.Struct(">qhiqiqiq")


class ProducerEntry(NamedTuple):
    """A producer as a snapshot keeps it, in the file's order."""

    producer_id: int
    epoch: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int
    coordinator_epoch: int
    txn_first_offset: int


def encode_snapshot(entries: Iterable[ProducerEntry]) -> bytes:
    packed = [_ENTRY.pack(*entry) for entry in entries]
    body = _COUNT.pack(len(packed)) + b"".join(packed)
    return _HEAD.pack(VERSION, crc32c(body)) + body


def decode_snapshot(data: bytes) -> list[ProducerEntry]:
    """InvalidBytesError for a file that is cut, changed or of another version."""
    if len(data) < _HEAD.size + _COUNT.size:
        raise InvalidBytesError(f"a producer snapshot has more than {len(data)} bytes")
    version, crc = _HEAD.unpack_from(data)
    body = memoryview(data)[_HEAD.size :]
    if version != VERSION:
        raise InvalidBytesError(f"a producer snapshot has version {version}, known is {VERSION}")
    if crc32c(body) != crc:
        raise InvalidBytesError("a producer snapshot's CRC does not match")
    (count,) = _COUNT.unpack_from(body)
    if count * _ENTRY.size != len(body) - _COUNT.size:
        raise InvalidBytesError(f"a producer snapshot of {len(body)} bytes cannot hold {count} producers")
    return [ProducerEntry._make(fields) for fields in _ENTRY.iter_unpack(body[_COUNT.size :])]


class ProducerSnapshots:
    """The offsets that have a snapshot in `folder`, in order."""

    __slots__ = ("_storage", "folder", "offsets")

    def __init__(self, storage: Storage, folder: str, offsets: list[int]) -> None:
        self._storage = storage
        self.folder = folder
        self.offsets = sorted(offsets)

    def path(self, offset: int) -> str:
        return f"{self.folder}/{offset_name(offset)}{SNAPSHOT}"

    def take(self, producers: "ProducerStateManager") -> str | None:
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

    def load_latest(self, producers: "ProducerStateManager", *, log_start_offset: int, now_ms: int) -> None:
        """Restore from the latest snapshot that can be read; from nothing at the log's start without one."""
        while self.offsets:
            offset = self.offsets[-1]
            try:
                entries = decode_snapshot(self._storage.disk.read_file(self.path(offset)))
            except (InvalidBytesError, FileNotFoundError) as error:
                path = self.path(offset)
                logger.warning(
                    "%s is damaged (%s): producers are found from an older one and the log", path, error
                )
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
