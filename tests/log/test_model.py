"""A log against a list: random appends, rolls, truncations, deletions, crashes and clean stops."""

import tempfile

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, precondition, rule

from headrace.log.system_disk import SystemDisk
from headrace.log.unified_log import AppendOrigin
from headrace.testing.disk import Crash, VirtualDisk
from tests.log.building import NOW_MS, LogBuilder, batch_of, read_all

RECORDS = st.integers(1, 4)
SETTINGS = {"segment_bytes": 700, "index_interval_bytes": 150, "retention_ms": -1}


class LogMachine(RuleBasedStateMachine):
    """`model` holds (offset, timestamp, leader epoch) of every record in the log."""

    batches = Bundle("batches")

    def make_disk(self):
        return SystemDisk(), self.folder.name

    def crash(self):
        """The process ends; what it wrote is there."""

    def __init__(self):
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        disk, root = self.make_disk()
        self.logs = LogBuilder(disk, root)
        self.log = self.logs.open(**SETTINGS)
        self.model = []
        self.starts = [0]  # where batches start
        self.start = self.end = 0
        self.epoch = 0
        self.time = NOW_MS

    def teardown(self):
        self.folder.cleanup()

    # -- what happens ----------------------------------------------------------------------------------------

    def _grow(self, count, append):
        self.time += 7
        batch = batch_of(count, timestamp=self.time, value=b"x" * 20)
        append(batch)
        for i in range(count):
            self.model.append((self.end + i, self.time + i, self.epoch))
        self.starts.append(self.end)
        self.end += count

    @rule(count=RECORDS)
    def append_as_leader(self, count):
        self._grow(
            count,
            lambda batch: self.log.append_as_leader(
                batch, leader_epoch=self.epoch, now_ms=self.time, origin=AppendOrigin.COORDINATOR
            ),
        )

    @rule(count=RECORDS, gap=st.sampled_from([0, 0, 0, 3]))
    def append_as_follower(self, count, gap):
        self.end += gap
        self._grow(
            count,
            lambda _: self.log.append_as_follower(
                batch_of(
                    count, timestamp=self.time, value=b"x" * 20, base_offset=self.end, leader_epoch=self.epoch
                ),
                now_ms=self.time,
            ),
        )

    @rule()
    def a_new_leader(self):
        self.epoch += 1

    @rule()
    def roll(self):
        self.log.roll(self.time)

    @rule(luck=st.floats(0, 1))
    def truncate(self, luck):
        later = [start for start in self.starts if start >= self.start]
        offset = later[int(luck * (len(later) - 1))] if later else self.end
        self.log.truncate_to(offset, now_ms=self.time)
        if offset < self.end:
            self.model = [entry for entry in self.model if entry[0] < offset]
            self.starts = [start for start in self.starts if start < offset]
            self.end = offset
        self.epoch += 1

    @rule(luck=st.floats(0, 1))
    def delete_records(self, luck):
        self.log.maybe_increment_high_watermark(self.end)
        self.start += int(luck * (self.end - self.start))
        self.log.maybe_increment_log_start_offset(self.start)
        self.log.delete_old_segments(self.time)

    @rule(ahead=st.integers(0, 50))
    def start_anew(self, ahead):
        self.start = self.end = self.end + ahead
        self.log.truncate_fully_and_start_at(self.start, now_ms=self.time)
        self.model, self.starts = [], [self.start]

    @rule()
    def flush(self):
        flush = self.log.begin_flush()
        if flush is not None:
            flush.sync()
            self.log.finish_flush(flush, now_ms=self.time)

    @rule()
    def stop_and_start(self):
        self.log = self.logs.reopen(self.log, now_ms=self.time, **SETTINGS)
        self._find_end()

    @rule()
    def crash_and_recover(self):
        point = self.log.recovery_point
        self.crash()
        self.log = self.logs.open(
            recovery_point=point, log_start_offset=self.start, now_ms=self.time, **SETTINGS
        )
        self._find_end()

    def _find_end(self):
        """An end without a batch before it, as truncation after a gap leaves it, is not in any file."""
        least = max(self.start, self.model[-1][0] + 1 if self.model else 0)
        assert least <= self.log.log_end_offset <= self.end
        self.end = self.log.log_end_offset

    # -- what must hold --------------------------------------------------------------------------------------

    def _live(self):
        return [entry for entry in self.model if entry[0] >= self.start]

    @invariant()
    def offsets_agree(self):
        assert (self.log.log_start_offset, self.log.log_end_offset) == (self.start, self.end)
        assert self.start <= self.log.high_watermark <= self.end
        assert self.log.size_bytes == sum(segment.size for segment in self.log.segments)

    @invariant()
    def records_agree(self):
        found = [(record.offset, record.timestamp) for record in read_all(self.log)]
        assert found == [entry[:2] for entry in self._live()]

    @invariant()
    def epochs_agree(self):
        for offset, _, epoch in self._live():
            assert self.log.leader_epoch_cache.epoch_for_offset(offset) == epoch

    @precondition(lambda self: self._live())
    @rule(luck=st.floats(0, 1))
    def find(self, luck):
        live = self._live()
        offset, timestamp, _ = live[int(luck * (len(live) - 1))]
        assert read_all(self.log, offset)[0].offset == offset
        expected = next(entry for entry in live if entry[1] >= timestamp)
        assert self.log.offset_for_timestamp(timestamp).offset == expected[0]
        largest = max(live, key=lambda entry: entry[1])
        assert self.log.offset_of_max_timestamp().offset == largest[0]


class MemoryLogMachine(LogMachine):
    """The same on the disk in memory, whose next process finds what the last one wrote."""

    @initialize()
    def begin(self):
        pass

    def make_disk(self):
        disk = VirtualDisk()
        disk.make_folder("/data")
        return disk, "/data"

    def crash(self):
        self.logs = LogBuilder(self.logs.disk.crash(Crash.KILL), "/data")


TestLogOnSystemDisk = LogMachine.TestCase
TestLogOnSystemDisk.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)
TestLogInMemory = MemoryLogMachine.TestCase
TestLogInMemory.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
