"""Leader epochs that were lost on this disk, and are found again in the store.

Batches tell which epoch wrote them, and a damaged file of epochs is made anew from those that are here. Of
what lies in the remote store alone nothing here tells; and a bit that flipped in the file's text may say
something else. Then copies look as if they were of another lineage, and those are removed. So where the log
would have nothing else at their offsets, its epochs are in doubt. Each copy has the epochs of everything
before its end beside it: one that holds an offset in the epoch that this log has there, on its own disk, is
of this log's lineage, and tells all of it.
"""

from headrace.base.errors import InvalidBytesError
from headrace.log.checkpoints import decode_epochs
from headrace.log.partition_log import PartitionLog
from headrace.tiered.custom_metadata import store_of
from headrace.tiered.remote_log import RemoteLog, lineage_end
from headrace.tiered.remote_segment import EPOCHS, RemoteSegment
from headrace.tiered.store import RemoteStore, RemoteStoreError, read_whole

Entries = list[tuple[int, int]]


def is_known(log: PartitionLog) -> bool:
    """Whether the log's epochs tell of everything from its start on."""
    return log.epochs.epoch_at(log.log_start_offset) >= 0


def is_in_doubt(log: PartitionLog, remote: RemoteLog) -> bool:
    """Whether the epochs of what is in the store alone were lost, or may be others than they seem."""
    if log.log_start_offset >= log.segments.first.base_offset or not log.config.remote_storage_enable:
        return False
    return not is_known(log) or any(is_missed(log, remote, each) for each in remote.finished())


def is_missed(log: PartitionLog, remote: RemoteLog, copy: RemoteSegment) -> bool:
    """Whether a copy, or its end, is not of the log's lineage, and the log has nothing else there. A copy of
    a leader that this one does not know of yet is not missed.
    """
    at = max(lineage_end(log.epochs, copy), log.log_start_offset)
    return (
        at <= copy.end_offset
        and at < log.segments.first.base_offset
        and copy.epochs[-1][0] <= log.epochs.latest
        and remote.find(log.epochs, at) is None
    )


def witness(log: PartitionLog, remote: RemoteLog) -> RemoteSegment | None:
    """A copy of the log's lineage: one that has the first offset that is here too, or else the last before
    that. Of several that differ it is the one of the latest leader, who took the place of the others; but not
    of one later than who wrote what is here.
    """
    local = log.segments.first.base_offset
    found = remote.find(log.epochs, local)
    if found is not None:
        return found
    next_epoch = log.epochs.epoch_at(local)
    before = [
        each
        for each in remote.finished()
        if each.start_offset < local <= each.end_offset + 1
        and (next_epoch < 0 or each.epoch_at(local - 1) <= next_epoch)
    ]
    return max(before, key=lambda each: each.epoch_at(local - 1), default=None)


def restored(log: PartitionLog, told: Entries) -> Entries:
    """The log's epochs from where this disk begins on, and before what a witness tells."""
    local = log.segments.first.base_offset
    before = [(epoch, start) for epoch, start in told if start < local]
    latest = before[-1][0] if before else -1
    here = [(epoch, start) for epoch, start in log.epochs.entries() if start >= local and epoch > latest]
    first = log.epochs.epoch_at(local)
    if log.log_end_offset > local and first > latest and (not here or here[0][1] > local):
        here.insert(0, (first, local))  # as the batches here say
    return before + here


def read_epochs(store: RemoteStore, segment: RemoteSegment) -> Entries:
    """The epochs of everything before the segment's end. Blocks: call it from a thread. RemoteStoreError
    where they cannot be had.
    """
    try:
        return decode_epochs(read_whole(store_of(store, segment), segment.object_name(EPOCHS)))
    except InvalidBytesError as error:
        raise RemoteStoreError(f"the leader epochs stored with {segment} are damaged: {error}") from error
