"""A window that slides over the batches of a closed segment's file, for compaction's kernels."""

from collections.abc import Iterator
from contextlib import contextmanager

from headrace.base.errors import InvalidBytesError
from headrace.log.disk import File
from headrace.records.batch import HEADER_BYTES, LOG_OVERHEAD, BatchHeader, crc_matches, read_header
from headrace.records.compaction.layout import BadBatchError


class ReadBuffer:
    """Bytes `at` to `end` of `data` are those of the file from `position` on that were not dealt with yet."""

    def __init__(self, buffer_bytes: int) -> None:
        self._buffer_bytes = max(buffer_bytes, HEADER_BYTES)
        self.data = bytearray(self._buffer_bytes)
        self.at = self.end = 0
        self._file: File | None = None
        self._file_end = 0
        self._position = 0

    def open(self, file: File, position: int, end: int) -> None:
        """Begin with a file's bytes from `position`, where a batch starts, to before `end`."""
        self._file, self._position, self._file_end = file, position, end
        self.at = self.end = 0
        if len(self.data) > self._buffer_bytes:  # it has grown for a batch
            self.data = bytearray(self._buffer_bytes)

    @property
    def size(self) -> int:
        """What the window was made for; it grows for a larger batch."""
        return self._buffer_bytes

    @property
    def is_done(self) -> bool:
        return self.at == self.end and self._position >= self._file_end

    @property
    def last_end(self) -> int:
        """Where the last batch that was asked for ends in the window; -1 while that is not in it."""
        return self.end if self._position >= self._file_end else -1

    @property
    def origin(self) -> int:
        """Where the first byte of `data` lies in the file."""
        return self._position - self.end

    def fill(self) -> int:
        """Read on behind what is left, which grows where a batch is larger than the window; bytes read."""
        assert self._file is not None
        left = self.end - self.at
        need = self._next_batch_bytes()
        if need > len(self.data):
            grown = bytearray(need)
            grown[:left] = memoryview(self.data)[self.at : self.end]
            self.data = grown
        elif left and self.at:
            self.data[:left] = self.data[self.at : self.end]
        self.at, self.end = 0, left
        wanted = min(len(self.data) - left, self._file_end - self._position)
        count = self._file.read_into(self._position, memoryview(self.data)[left : left + wanted])
        if count < wanted or need > left + count:
            raise InvalidBytesError(f"the batch at byte {self._position - left} is cut off")
        self._position += count
        self.end += count
        return count

    @contextmanager
    def naming_damage(self) -> Iterator[None]:
        """Say of what is damaged which file it is in, and where."""
        try:
            yield
        except BadBatchError as error:
            raise InvalidBytesError(f"{self._path}: byte {self.origin + error.at} {error.flaw}") from None
        except InvalidBytesError as error:
            place = self.origin + self.at
            raise InvalidBytesError(f"{self._path}: at byte {place}: {error}") from None

    @property
    def _path(self) -> str:
        return "" if self._file is None else self._file.path

    def _next_batch_bytes(self) -> int:
        """Bytes of the batch that is not whole yet, as far as its beginning tells."""
        if self.end - self.at < LOG_OVERHEAD:
            return min(HEADER_BYTES, self.end - self.at + self._file_end - self._position)
        length = int.from_bytes(self.data[self.at + 8 : self.at + LOG_OVERHEAD], "big", signed=True)
        if not 0 < length <= self._file_end - self._position + self.end - self.at:
            raise InvalidBytesError(f"a batch says it is {length} bytes long")
        return length + LOG_OVERHEAD

    def batch(self) -> tuple[BatchHeader, memoryview]:
        """The whole batch at `at`, checked."""
        header = read_header(self.data, self.at)
        if not crc_matches(self.data, self.at, header):
            raise InvalidBytesError(f"the CRC of the batch with offset {header.base_offset} does not match")
        return header, memoryview(self.data)[self.at : self.at + header.size]
