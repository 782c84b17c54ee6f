"""A large batch on its way into a log: written in slices behind the log's end, then appended as a whole.

To write 100 MB takes a tenth of a second, in which nobody else would be served. So the bytes go behind the
end of the active segment first, piece by piece, where nobody looks for them: a segment knows its size itself.
They carry the offset and epoch that they will have, so after a crash they are a batch, or one that was cut
off, as after any other write. When all of them are there the batch is appended as every other (`append`),
with all checks, but for the write.

A follower's batches have their offset and epoch already, and go the same way (`follower_append`).

Clients' batches for the same log wait meanwhile (`LogBusyError`). Whoever else changes the log, a marker, a
roll, a truncation, need not know of this: the bytes are not where the end is any more, and are written
again. After some times they are written at once.
"""

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Final

from headrace.base.chunks import Buffer
from headrace.base.errors import ApiError
from headrace.log.disk import File
from headrace.log.faults import fail_log, undo_write
from headrace.log.log_segment import LogSegment
from headrace.records.batch import stamp
from headrace.records.validate import ProducedBatch

if TYPE_CHECKING:
    from headrace.log.unified_log import UnifiedLog

SLICE_BYTES: Final = 512 * 1024
TRIES_MAX: Final = 3
"""So often others may come in between."""


class LargeWriteError(Exception):
    """The batch must be written in slices first: `slices` of this, then it is to be appended again."""

    def __init__(self, write: "LargeWrite") -> None:
        super().__init__("the batch is too large to be written at once")
        self.write = write


class LogBusyError(Exception):
    """Another batch is being written: `write.on_over` tells when it is done."""

    def __init__(self, write: "LargeWrite") -> None:
        super().__init__("a large batch is being written to the log")
        self.write = write


class LargeWrite:
    """One batch behind the end of its log: `log.large_write` until it is appended or abandoned."""

    __slots__ = (
        "_buffer",
        "_file",
        "_generation",
        "_leader_epoch",
        "_log",
        "_on_over",
        "_position",
        "_produced",
        "_segment",
        "_tries",
        "_written",
    )

    def __init__(self, log: "UnifiedLog", buffer: Buffer, produced: ProducedBatch | None) -> None:
        """`produced` is a client's batch, which gets its place here; a leader's bytes stay as they are."""
        self._log = log
        self._buffer = buffer
        self._produced = produced
        self._segment: LogSegment | None = None
        self._file: File | None = None
        self._leader_epoch = self._generation = self._position = self._written = 0
        self._tries = 0
        self._on_over: list[Callable[[], object]] = []
        log.large_write = self

    @property
    def may_try(self) -> bool:
        """Whether it may be written in slices once more."""
        return self._tries < TRIES_MAX

    def is_of(self, batch: ProducedBatch | None) -> bool:
        """Whether this is the batch that is being written."""
        return batch is not None and batch is self._produced

    def place(self, leader_epoch: int) -> None:
        """Where the log ends now, there shall the batch be."""
        self._cut()
        log = self._log
        self._tries += 1
        self._segment = log.segments.active
        self._file = self._segment.file
        self._position, self._generation = self._segment.size, log.generation
        self._leader_epoch, self._written = leader_epoch, 0
        if self._produced is not None:
            stamp(self._produced.buffer, 0, base_offset=log.log_end_offset, leader_epoch=leader_epoch)

    def slices(self) -> Generator[None, None, None]:
        """Write, a slice at a time; ends early where the log has changed. ApiError where the disk refuses."""
        view = memoryview(self._buffer)
        while self._written < len(view) and self._is_where_the_log_ends():
            piece = view[self._written : self._written + SLICE_BYTES]
            assert self._file is not None
            try:
                self._file.write(self._position + self._written, (piece,))
            except OSError as error:
                raise self._refused(error) from error
            self._written += len(piece)
            yield

    def _refused(self, error: OSError) -> ApiError:
        log, produced = self._log, self._produced
        refusal = undo_write(log, error)
        if produced is not None and produced.header.producer_id >= 0:
            log.producer_state_manager.refusals.note(produced.header, refusal.code)
        return refusal

    def is_in_place(self, leader_epoch: int) -> bool:
        """Whether the batch lies where the log ends, as it must be there."""
        return (
            self._written == len(self._buffer)
            and self._leader_epoch == leader_epoch
            and self._is_where_the_log_ends()
        )

    def _is_where_the_log_ends(self) -> bool:
        log, segment = self._log, self._segment
        return (
            log.failure is None
            and log.segments.active is segment
            and segment.size == self._position
            and log.generation == self._generation
            and self._file is not None
            # Who undoes a write of its own cuts off ours.
            and self._file.size() >= self._position + self._written
        )

    def on_over(self, call: Callable[[], object]) -> None:
        """Call this when clients may write to the log again."""
        self._on_over.append(call)

    def over(self) -> None:
        """The batch is part of the log, or never will be."""
        self._log.large_write = None
        calls, self._on_over = self._on_over, []
        for call in calls:
            call()

    def abandon(self) -> None:
        """The batch is not to be appended, unless it is."""
        if self._log.large_write is self:
            self._cut()
            self.over()

    def _cut(self) -> None:
        """Leave nothing behind the segment's end: after a crash it could be taken for records."""
        segment, file = self._segment, self._file
        self._segment = self._file = None
        if segment is None or file is None or self._log.failure is not None:
            return
        try:
            if file.size() > segment.size:
                file.truncate(segment.size)
        except OSError as error:
            fail_log(self._log, error)
