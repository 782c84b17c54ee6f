"""The table of keys: what compaction knows of the dirty part of a log.

A `KeyTable` is one bounded buffer of 24-byte entries with open addressing. Keys are told apart by 128 bits of
a hash that is keyed with a secret, so that nobody can choose keys which collide. A round uses as many slots
as it can have keys, and clears no more than those. Batches that are compressed or part of a transaction are
handed back: the caller decides, unpacks, and gives the records.
"""

from typing import Final

from headrace.base.chunks import Buffer
from headrace.records import cleaning_kernels
from headrace.records.cleaning_kernels import OTHERS, BadBatchError, bad_record
from headrace.records.cleaning_layout import ENTRY_BYTES, Code, Job, Tally
from headrace.records.cleaning_packed import Unpacked, Unpacker
from headrace.records.cleaning_runs import Part, RunBook
from headrace.records.header import BatchHeader

UNKNOWN: Final = -(1 << 62)
"""The position of batches that are not to be noted."""

_INT64_MAX: Final = (1 << 63) - 1


def _signed(number: int) -> int:
    return number - (number >> 63 << 64)


class KeyTable:
    """The last offset of each key, the runs of batches that are in the table, and which of their records are
    superseded, in `size_bytes`, `runs_bytes` and `notes_bytes` of memory."""

    def __init__(
        self,
        size_bytes: int,
        load_factor: float,
        secret: tuple[int, int],
        *,
        runs_bytes: int = 0,
        notes_bytes: int = 0,
    ) -> None:
        self._slots_max = max(size_bytes // ENTRY_BYTES, 2)
        self._notes_words_max = notes_bytes // 8
        # The setting has no limits of its own: a table must have room for a key, and slots that are free.
        self._load_factor = min(max(load_factor, 0.01), 1.0)
        self._data: bytearray | memoryview = bytearray(0)
        self._tally = memoryview(bytearray(8 * len(Tally))).cast("q")
        self.job = memoryview(bytearray(8 * len(Job))).cast("q")
        self.job[Job.SECRET_0], self.job[Job.SECRET_1] = map(_signed, secret)
        self._runs = RunBook(runs_bytes, self._tally)
        self.unpacker = Unpacker()

    @property
    def data(self) -> bytearray | memoryview:
        return self._data

    @property
    def latest(self) -> int:
        """The last offset that the table knows of."""
        return self._tally[Tally.LATEST]

    @property
    def records(self) -> int:
        return self._tally[Tally.RECORDS]

    def __len__(self) -> int:
        return self._tally[Tally.ENTRIES]

    def begin(self, start: int, end: int) -> None:
        """Forget everything; keys of the records from `start` to before `end` are to come. Call it from a
        thread: it touches all the memory it will use."""
        # Fuller than this a table of open addresses is slow, whatever it is allowed to be.
        wanted = int((end - start) / min(self._load_factor, 0.75)) + 2
        slots = min(wanted, self._slots_max)
        notes_words = min((end - start + 63) // 64, self._notes_words_max)
        self._data = cleaning_kernels.chosen().new_table(slots * ENTRY_BYTES + 8 * notes_words)
        self._runs.begin()
        self._tally[Tally.ENTRIES] = self._tally[Tally.RECORDS] = self._tally[Tally.TOMBSTONES] = 0
        self._tally[Tally.LATEST] = start - 1
        job = self.job
        job[Job.SLOTS], job[Job.START] = slots, start
        job[Job.NOTED_END] = start + 64 * notes_words if notes_words else 0
        # One slot stays free, or a search for a key that is not there would never end.
        job[Job.ENTRIES_MAX] = max(1, min(int(self._slots_max * self._load_factor), slots - 1))

    def open(self, base_offset: int, size: int) -> int:
        """Batches of that segment come next: what to add to their positions in its file."""
        return self._runs.open(base_offset, size)

    def add(self, data: Buffer, at: int, end: int, *, position: int = UNKNOWN) -> tuple[Code, int]:
        """Take in whole batches; why it ended, and where. InvalidBytesError at a batch that is damaged.
        `position` is that of the buffer's first byte."""
        code, at = cleaning_kernels.chosen().map_batches(
            data, at, end, OTHERS, position, self._data, self.job, self._tally, self._runs.rows
        )
        if code > Code.OTHER:
            raise BadBatchError(code, at)
        return Code(code), at

    def add_records(self, body: Buffer, header: BatchHeader, *, position: int = UNKNOWN) -> bool:
        """Take in the records of a batch that `add` handed back; False where the table is full. `position` is
        the batch's own, where nothing but the table decides what becomes of it."""
        if header.last_offset < self.job[Job.START]:
            return True
        code = cleaning_kernels.chosen().map_batch(
            body,
            0,
            len(body),
            header.record_count,
            header.base_offset,
            header.last_offset,
            position,
            header.size,
            self._data,
            self.job,
            self._tally,
            self._runs.rows,
        )
        if code == Code.BAD_RECORD:
            raise bad_record(header)
        return bool(code == Code.MORE)

    def unpack(self, data: Buffer, at: int, end: int) -> Unpacked | None:
        """The packed batches from `at` on, if they are some and can be unpacked together."""
        return self.unpacker.unpack(
            cleaning_kernels.chosen(), data, at, end, first=self.job[Job.START], last=_INT64_MAX
        )

    def add_unpacked(self, data: Buffer, found: Unpacked, *, position: int) -> tuple[Code, int]:
        """Take in batches that `unpack` gave; FULL or MORE, and where in `data` it ended. `position` is that
        of the buffer's first byte."""
        code, count = cleaning_kernels.chosen().map_packed(
            data,
            found.body,
            found.rows,
            found.batches,
            position,
            self._data,
            self.job,
            self._tally,
            self._runs.rows,
        )
        at, size, *_ = found.row(min(count, found.batches - 1))
        if code == Code.BAD_RECORD:
            raise BadBatchError(code, at)
        return Code(code), at + (size if count == found.batches else 0)

    def count_live(self) -> None:
        """Everything is in the table: find out what lives in each run. Call it from a thread."""
        self._runs.count_live(cleaning_kernels.chosen(), self._data, self.job[Job.SLOTS])

    def parts(
        self, base_offset: int, size: int, *, keeps_last: bool, bytes_min: int, kept_offsets: memoryview
    ) -> list[Part]:
        """What becomes of the parts of a segment: see `RunBook.parts`."""
        return self._runs.parts(
            cleaning_kernels.chosen(),
            base_offset,
            size,
            keeps_last=keeps_last,
            bytes_min=bytes_min,
            kept_offsets=kept_offsets,
        )

    def skip_to(self, offset: int) -> None:
        """Up to `offset` there is nothing that the table must know."""
        self._tally[Tally.LATEST] = max(self._tally[Tally.LATEST], offset)

    def drop(self) -> None:
        """Give the memory back."""
        self._data = bytearray(0)
        self._runs.drop()
