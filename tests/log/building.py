"""What the tests of the log build their logs from."""

from dataclasses import replace

from headrace.base.ids import TopicPartition
from headrace.log.log_loader import open_log
from headrace.log.storage import Storage
from headrace.log.unified_log import AppendOrigin
from headrace.records.batch import Record, batches, build_batch, build_txn_marker, read_records
from headrace.settings.topic import TopicConfig

NOW_MS = 1_700_000_000_000
TP = TopicPartition("events", 3)


def batch_of(count=1, *, timestamp=NOW_MS, value=b"v" * 10, **fields):
    """A batch as a producer sends it; record i has timestamp + i."""
    return build_batch([Record(0, timestamp + i, b"k%d" % i, value) for i in range(count)], **fields)


def sequenced(producer_id, epoch, sequence, count=1, *, transactional=False, timestamp=NOW_MS):
    return batch_of(
        count,
        timestamp=timestamp,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        transactional=transactional,
    )


def marker(producer_id, epoch, *, commit, coordinator_epoch=0, timestamp=NOW_MS):
    return build_txn_marker(
        commit=commit,
        producer_id=producer_id,
        producer_epoch=epoch,
        coordinator_epoch=coordinator_epoch,
        timestamp_ms=timestamp,
    )


def append(log, batch, *, leader_epoch=0, now_ms=NOW_MS, origin=AppendOrigin.CLIENT):
    return log.append_as_leader(batch, leader_epoch=leader_epoch, now_ms=now_ms, origin=origin)


def append_marker(log, producer_id, epoch, *, leader_epoch=0, **fields):
    batch = marker(producer_id, epoch, **fields)
    return append(log, batch, leader_epoch=leader_epoch, origin=AppendOrigin.COORDINATOR)


def read_all(log, offset=None, **bounds):
    """Every record from `offset` on, as a consumer would read them."""
    offset = log.log_start_offset if offset is None else offset
    records = []
    while True:
        result = log.read(offset, max_bytes=bounds.pop("max_bytes", 1 << 20), **bounds)
        data = bytes(result.chunk) if isinstance(result.chunk, bytes) else result.chunk.read()
        whole = list(batches(data))
        if not whole:
            return records
        for at, header in whole:
            records += [record for record in read_records(data, at) if record.offset >= offset]
            offset = header.next_offset


def offsets_of(records):
    return [record.offset for record in records]


class LogBuilder:
    """One partition's log, opened as a node would."""

    def __init__(self, disk, root):
        self.disk = disk
        self.root = root
        self.folder = f"{root}/{TP}"
        self.storage = Storage(disk)
        self.failures = []
        self.storage.on_failure = lambda folder, error: self.failures.append((folder, error))

    def open(
        self,
        *,
        clean=False,
        recovery_point=0,
        log_start_offset=0,
        now_ms=NOW_MS,
        on_progress=None,
        **settings,
    ):
        return open_log(
            self.storage,
            self.folder,
            TP,
            replace(TopicConfig(), **settings),
            now_ms=now_ms,
            clean=clean,
            recovery_point=recovery_point,
            log_start_offset=log_start_offset,
            on_progress=on_progress,
        )

    def reopen(self, log, **settings):
        """A clean stop and a start."""
        flush = log.close()
        if flush is not None:
            flush.sync()
        return self.open(clean=True, log_start_offset=log.log_start_offset, **settings)

    def names(self):
        return self.disk.list(self.folder)
