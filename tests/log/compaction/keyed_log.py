"""A log with keys, and what must be true of it however often it was compacted."""

import random

from headrace.log.compaction.cleaner import Cleaner, CleanerLimits, run_round
from headrace.log.compaction.log_to_clean import log_to_clean
from headrace.records.batch import Record, batches, build_batch, read_records
from headrace.records.compaction.offset_map import OffsetMap
from tests.log.building import NOW_MS, LogBuilder, append, append_marker

COMPACT = frozenset({"compact"})
SETTINGS = {"cleanup_policy": COMPACT, "segment_bytes": 2_000, "index_interval_bytes": 150}


def clean_log(
    log,
    *,
    now_ms=NOW_MS,
    table_bytes=1 << 14,
    buffer_bytes=700,
    load_factor=0.9,
    runs_bytes=2_000,
):
    """A round on a log, whether it is worth it or not."""
    found = log_to_clean(log, now_ms)
    table = OffsetMap(table_bytes, load_factor, (5, 7), runs_bytes=runs_bytes, notes_bytes=runs_bytes)
    return run_round(Cleaner(found, table, CleanerLimits(buffer_bytes, 1_000), now_ms=now_ms).clean())


def follower_of(logs, log, **settings):
    """Another log, in a folder beside, that was fetched from this one batch by batch."""
    builder = LogBuilder(logs.disk, f"{logs.root}/follower")
    logs.disk.make_folder(builder.root)
    follower = builder.open(**settings)
    for _, batch in chunks(log):
        follower.append_as_follower(batch, now_ms=NOW_MS)
    follower.maybe_increment_high_watermark(log.high_watermark)
    return follower


def chunks(log, offset=None):
    """The bytes of all batches, as they are fetched."""
    offset = log.log_start_offset if offset is None else offset
    while True:
        chunk = log.read(offset, max_bytes=1 << 20).chunk
        data = bytes(chunk) if isinstance(chunk, bytes) else chunk.read()
        found = list(batches(data))
        if not found:
            return
        for at, header in found:
            yield header, data[at : at + header.size]
        offset = found[-1][1].next_offset


def committed(log):
    """The records that a read_committed consumer gets."""
    aborted = {}
    upto = log.last_stable_offset
    for producer_id, first in log.aborted_transactions(log.log_start_offset, upto):
        aborted.setdefault(producer_id, []).append(first)
    open_aborted = set()
    for header, batch in chunks(log):
        producer_id = header.producer_id
        if header.last_offset >= upto:
            return
        firsts = aborted.get(producer_id, [])
        while firsts and firsts[0] <= header.last_offset:
            open_aborted.add(producer_id)
            firsts.pop(0)
        if header.is_control:
            open_aborted.discard(producer_id)
        elif not (header.is_transactional and producer_id in open_aborted):
            yield from read_records(batch)


class KeyedLog:
    """Writes to a log what a seed says, and remembers what was written."""

    def __init__(self, log, seed, *, keys=12, codecs=(0, 0, 4), transactions=True):
        self.log = log
        self.rng = random.Random(seed)
        self.keys = keys
        self.codecs = codecs
        self.transactions = transactions
        self.written = {}  # by offset
        self.decided = {}  # by offset: whether it was committed
        self.sequences = {}
        self.pending = {}  # offsets of open transactions by producer

    def write(self, count, *, now_ms=NOW_MS):
        for _ in range(count):
            self.write_batch(now_ms)
            if self.pending and self.rng.random() < 0.4:
                self.end_transaction(self.rng.choice(sorted(self.pending)), now_ms)
        self.log.maybe_increment_high_watermark(self.log.log_end_offset)

    def end_all(self, *, now_ms=NOW_MS):
        for producer_id in sorted(self.pending):
            self.end_transaction(producer_id, now_ms)
        self.log.maybe_increment_high_watermark(self.log.log_end_offset)

    def write_batch(self, now_ms):
        rng = self.rng
        rows = [
            Record(
                0,
                now_ms + rng.randint(-50, 50),
                b"key %d" % rng.randrange(self.keys),
                None if rng.random() < 0.15 else rng.randbytes(rng.choice([0, 9, 60])),
                (("h", b"x"),) if rng.random() < 0.2 else (),
            )
            for _ in range(rng.randint(1, 6))
        ]
        kind = rng.random()
        producer_id = -1
        if kind < 0.3:
            producer_id = rng.choice([100, 101])
        elif kind < 0.6 and self.transactions:
            producer_id = rng.choice([200, 201, 202])
        fields = {}
        if producer_id >= 0:
            sequence = self.sequences.get(producer_id, 0)
            self.sequences[producer_id] = sequence + len(rows)
            fields = {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": sequence}
        transactional = producer_id >= 200
        first = append(
            self.log,
            build_batch(rows, codec=rng.choice(self.codecs), transactional=transactional, **fields),
            now_ms=now_ms,
        ).first_offset
        offsets = range(first, first + len(rows))
        self.written.update(zip(offsets, rows, strict=True))
        if transactional:
            self.pending.setdefault(producer_id, []).extend(offsets)
        else:
            self.decided.update(dict.fromkeys(offsets, True))

    def end_transaction(self, producer_id, now_ms):
        commit = self.rng.random() < 0.6
        append_marker(self.log, producer_id, 0, commit=commit, timestamp=now_ms)
        self.decided.update(dict.fromkeys(self.pending.pop(producer_id), commit))

    # -- what must be true -----------------------------------------------------------------------------------

    def latest(self, upto):
        """Each key's last committed value, None where that deletes it."""
        last = {}
        for offset in sorted(self.written):
            if offset < upto and self.decided.get(offset):
                last[self.written[offset].key] = (offset, self.written[offset].value)
        return last

    def check(self, log=None):
        """Nothing is lost, changed, or back from the dead."""
        log = log or self.log
        found = {}
        for record in committed(log):
            written = self.written[record.offset]
            assert record == written._replace(offset=record.offset)
            assert self.decided[record.offset], f"{record.offset} was aborted"
            found[record.key] = (record.offset, record.value)
        expected = self.latest(log.last_stable_offset)
        for key, (offset, value) in expected.items():
            if value is not None:
                assert found.get(key) == (offset, value), f"{key} was lost"
            else:
                # The delete marker may be gone, and with it everything that it deleted.
                assert found.get(key, (offset, None)) == (offset, None), f"{key} is back from the dead"
        self.check_segments(log)
        return found

    @staticmethod
    def check_segments(log):
        """Segments and batches follow each other, and indexes lead where they should."""
        end = log.segments.first.base_offset
        for number, segment in enumerate(log.segments):
            assert segment.base_offset >= end
            end = segment.base_offset
            for position, header in segment.headers():
                assert header.base_offset >= end
                end = header.next_offset
                assert segment.locate(header.last_offset) == position
            following = log.segments.base_after(number)
            assert following is None or end <= following
