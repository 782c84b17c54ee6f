"""RemoteIndexCache: indexes of remote segments on this disk, fetched once, dropped by age of use.

They lie in one folder of a log directory under Kafka's names (`remote-log-index-cache/BASEOFFSET_SEGMENTID`
and the suffix) and survive a restart. A file is checked whenever it is read; one that cannot be an index of
its segment is fetched again. Writing is atomic and durable: after a power cut a transaction index that came
out empty would show aborted records to those who must not see them. What is of no use any more is told by
`remote_log.remote_reading`.

Everything here blocks and is called from threads, several at once. Two that need the same index fetch it
once; who needs another one does not wait for them, for the store may hang.
"""

from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from headrace.base.errors import InvalidBytesError
from headrace.base.ids import uuid_text
from headrace.log.disk import Disk
from headrace.log.file_names import INDEX, TIME_INDEX, TXN_INDEX, offset_name
from headrace.log.offset_index import OffsetIndex
from headrace.log.time_index import TimeIndex
from headrace.log.transaction_index import AbortedTxn, read_aborted
from headrace.tiered.remote_storage import RemoteStorageError, RemoteStorageManager, read_whole, store_of
from headrace.tiered.segment_metadata import RemoteLogSegmentMetadata, segment_id_in

T = TypeVar("T")

FOLDER: Final = "remote-log-index-cache"

_SUFFIXES: Final = (INDEX, TIME_INDEX, TXN_INDEX)


@dataclass(slots=True)
class _Turn:
    lock: AbstractContextManager[Any]
    users: int = 0


class RemoteIndexCache:
    """The indexes in `folder`, at most `bytes_max()` of them."""

    def __init__(
        self,
        disk: Disk,
        folder: str,
        store: RemoteStorageManager,
        *,
        bytes_max: Callable[[], int],
        new_lock: Callable[[], AbstractContextManager[Any]],
    ) -> None:
        self._disk = disk
        self._folder = folder
        self._store = store
        self._bytes_max = bytes_max
        self._sizes: OrderedDict[str, int] = OrderedDict()  # the longest unused first
        self._bytes = 0
        self._new_lock = new_lock
        self._turns: dict[str, _Turn] = {}  # by a file's name, while somebody is at it
        self._guard = new_lock()  # of the three above
        self._is_open = False

    def offsets(self, segment: RemoteLogSegmentMetadata) -> OffsetIndex:
        def parse(data: bytes) -> OffsetIndex:
            index = OffsetIndex(segment.start_offset, data)
            index.check(segment.size)
            return index

        return self._get(segment, INDEX, parse)

    def times(self, segment: RemoteLogSegmentMetadata) -> TimeIndex:
        def parse(data: bytes) -> TimeIndex:
            index = TimeIndex(segment.start_offset, data)
            index.check()
            timestamp, offset = index.last()
            if offset > segment.end_offset or timestamp > segment.max_timestamp:
                raise InvalidBytesError(f"its last entry ({timestamp}, {offset}) lies outside of the segment")
            return index

        return self._get(segment, TIME_INDEX, parse)

    def aborted(self, segment: RemoteLogSegmentMetadata) -> list[AbortedTxn]:
        if not segment.has_aborted:
            return []
        return self._get(segment, TXN_INDEX, lambda data: list(read_aborted(data)))

    def discard(self, segment: RemoteLogSegmentMetadata) -> None:
        """What the indexes of a segment say is wrong: have them fetched again."""
        for suffix in _SUFFIXES:
            name = _file_name(segment, suffix)
            with self._turn_at(name):
                self._drop(name)

    def trim(self) -> None:
        """Keep to `bytes_max`, which may have become less."""
        self._open()
        with self._guard:
            surplus = self._take_surplus(keep=None)
        for name in surplus:
            self._disk.remove(self._path(name))

    def segment_ids(self) -> set[str]:
        """The segments of which there are files, as `uuid_text` has their ids."""
        self._open()
        with self._guard:
            return set(map(segment_id_in, self._sizes))

    def forget(self, segment_ids: Collection[str]) -> None:
        """Nobody will ask for these segments any more."""
        with self._guard:
            names = [name for name in self._sizes if segment_id_in(name) in segment_ids]
        for name in names:
            with self._turn_at(name):
                self._drop(name)

    @property
    def size_bytes(self) -> int:
        return self._bytes

    # --- one file ---

    def _get(self, segment: RemoteLogSegmentMetadata, suffix: str, parse: Callable[[bytes], T]) -> T:
        self._open()
        name = _file_name(segment, suffix)
        with self._turn_at(name):
            found = self._cached(name, parse)
            if found is not None:
                return found
            data = read_whole(store_of(self._store, segment), segment.object_name(suffix))
            try:
                parsed = parse(data)
            except InvalidBytesError as error:
                raise RemoteStorageError(f"{segment.object_name(suffix)} is damaged: {error}") from error
            self._keep(name, data)
            return parsed

    def _cached(self, name: str, parse: Callable[[bytes], T]) -> T | None:
        with self._guard:
            if name not in self._sizes:
                return None
            self._sizes.move_to_end(name)
            size = self._sizes[name]
        try:
            data = self._disk.read_file(self._path(name))
            if len(data) == size:
                return parse(data)
        except (FileNotFoundError, InvalidBytesError):
            pass
        self._drop(name)
        return None

    def _keep(self, name: str, data: bytes) -> None:
        self._disk.replace_file(self._path(name), data)
        with self._guard:
            self._bytes += len(data) - self._sizes.pop(name, 0)
            self._sizes[name] = len(data)
            surplus = self._take_surplus(keep=name)
        for each in surplus:
            self._disk.remove(self._path(each))

    def _take_surplus(self, keep: str | None) -> list[str]:
        """The names of files that must go, the longest unused first; they are forgotten at once."""
        surplus, bytes_max = [], self._bytes_max()
        while self._bytes > bytes_max and self._sizes:
            name = next(iter(self._sizes))
            if name == keep:
                break
            self._bytes -= self._sizes.pop(name)
            surplus.append(name)
        return surplus

    def _drop(self, name: str) -> None:
        with self._guard:
            self._bytes -= self._sizes.pop(name, 0)
        self._disk.remove(self._path(name))

    def _path(self, name: str) -> str:
        return f"{self._folder}/{name}"

    @contextmanager
    def _turn_at(self, name: str) -> Iterator[None]:
        """One at a time is at a file."""
        with self._guard:
            turn = self._turns.get(name)
            if turn is None:
                turn = self._turns[name] = _Turn(self._new_lock())
            turn.users += 1
        try:
            with turn.lock:
                yield
        finally:
            with self._guard:
                turn.users -= 1
                if not turn.users:
                    del self._turns[name]

    # --- the folder ---

    def _open(self) -> None:
        """Take over what an earlier process left, the latest written counting as the latest used."""
        with self._guard:
            if self._is_open:
                return
            self._disk.make_folder(self._folder)
            found = []
            for name in self._disk.list(self._folder):
                path = self._path(name)
                if name.endswith(_SUFFIXES):
                    found.append((self._disk.modified_ms(path), name, self._disk.size(path)))
                else:
                    self._disk.remove(path)  # a write that was cut off
            for _, name, size in sorted(found):
                self._sizes[name] = size
                self._bytes += size
            surplus = self._take_surplus(keep=None)
            self._is_open = True
        for name in surplus:
            self._disk.remove(self._path(name))


def _file_name(segment: RemoteLogSegmentMetadata, suffix: str) -> str:
    return f"{offset_name(segment.start_offset)}_{uuid_text(segment.segment_id)}{suffix}"
