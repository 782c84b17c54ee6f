"""Which copies in the remote store are a log's own, and where the log starts because of them.

Whose a copy is its leader epochs tell. Batches say which epoch wrote them, and a damaged file of epochs is
made again from those that are on this disk. Of what lies in the remote store alone nothing here tells; and a
bit that flipped in the file's text may say something else. Then copies look as if they were of another
lineage, and those are removed. So where the log would have nothing else at their offsets, its epochs are in
doubt. Each copy has the epochs of everything before its end beside it: one that holds an offset in the epoch
that this log has there, on its own disk, is of this log's lineage, and tells all of it.
"""

from headrace.log.unified_log import UnifiedLog
from headrace.tiered.aux_state import EpochEntries
from headrace.tiered.metadata_cache import RemoteLogMetadataCache, lineage_end
from headrace.tiered.segment_metadata import RemoteLogSegmentMetadata


def is_known(log: UnifiedLog) -> bool:
    """Whether the log's epochs tell of everything from its start on."""
    return log.leader_epoch_cache.epoch_for_offset(log.log_start_offset) >= 0


def is_in_doubt(log: UnifiedLog, remote: RemoteLogMetadataCache) -> bool:
    """Whether the epochs of what is in the store alone were lost, or may be others than they seem."""
    if log.log_start_offset >= log.segments.first.base_offset or not log.config.remote_storage_enable:
        return False
    return not is_known(log) or any(is_missed(log, remote, each) for each in remote.finished())


def is_missed(log: UnifiedLog, remote: RemoteLogMetadataCache, copy: RemoteLogSegmentMetadata) -> bool:
    """Whether a copy, or its end, is not of the log's lineage, and the log has nothing else there. A copy of
    a leader that this one does not know of yet is not missed.
    """
    at = max(lineage_end(log.leader_epoch_cache, copy), log.log_start_offset)
    return (
        at <= copy.end_offset
        and at < log.segments.first.base_offset
        and copy.epochs[-1][0] <= log.leader_epoch_cache.latest_epoch
        and remote.find(log.leader_epoch_cache, at) is None
    )


def witness(log: UnifiedLog, remote: RemoteLogMetadataCache) -> RemoteLogSegmentMetadata | None:
    """A copy of the log's lineage: one that has the first offset that is here too, or else the last before
    that. Of several that differ it is the one of the latest leader, who took the place of the others; but not
    of one later than who wrote what is here.
    """
    local = log.segments.first.base_offset
    found = remote.find(log.leader_epoch_cache, local)
    if found is not None:
        return found
    next_epoch = log.leader_epoch_cache.epoch_for_offset(local)
    before = [
        each
        for each in remote.finished()
        if each.start_offset < local <= each.end_offset + 1
        and (next_epoch < 0 or each.epoch_at(local - 1) <= next_epoch)
    ]
    return max(before, key=lambda each: each.epoch_at(local - 1), default=None)


def restored(log: UnifiedLog, told: EpochEntries) -> EpochEntries:
    """The log's epochs from where this disk begins on, and before what a witness tells."""
    local = log.segments.first.base_offset
    before = [(epoch, start) for epoch, start in told if start < local]
    latest = before[-1][0] if before else -1
    here = [
        (epoch, start)
        for epoch, start in log.leader_epoch_cache.entries()
        if start >= local and epoch > latest
    ]
    first = log.leader_epoch_cache.epoch_for_offset(local)
    if log.log_end_offset > local and first > latest and (not here or here[0][1] > local):
        here.insert(0, (first, local))  # as the batches here say
    return before + here


def first_there(log: UnifiedLog, remote: RemoteLogMetadataCache) -> int:
    """The log's start, or behind what is no longer anywhere: its leader of before has removed it, and a crash
    may have forgotten that the log moved on.
    """
    if not log.config.remote_storage_enable:
        return log.log_start_offset
    start, local = max(log.log_start_offset, _told_start(log, remote)), log.segments.first.base_offset
    return start if start >= local else max(start, min(first_remote(log, remote), local))


def _told_start(log: UnifiedLog, remote: RemoteLogMetadataCache) -> int:
    """Where a leader of this lineage said that the log starts; 0 where none has."""
    if remote.told_start is None:
        return 0
    offset, epoch = remote.told_start
    return offset if log.leader_epoch_cache.epoch_for_offset(offset - 1) == epoch else 0


def first_remote(log: UnifiedLog, remote: RemoteLogMetadataCache) -> int:
    """The first offset from the log's start on that is in the remote store, or was not removed from there.
    Copies are made in order, so where a later one is known the earlier ones are gone. Where none is known,
    only a removal that is known tells that there was one. A copy of another lineage may be this one's.
    """
    if not is_known(log) or remote.holds(log.log_start_offset):
        return log.log_start_offset
    return first_of_lineage(log, remote)


def first_of_lineage(log: UnifiedLog, remote: RemoteLogMetadataCache) -> int:
    """The same where the log's epochs are beyond doubt."""
    start = log.log_start_offset
    if remote.find(log.leader_epoch_cache, start) is not None:
        return start
    for segment in remote.readable(log.leader_epoch_cache):
        if segment.start_offset > start:
            return segment.start_offset
    return max(start, remote.removed_to)
