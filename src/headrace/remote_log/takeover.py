"""What a new leader of a tiered partition must find out before it acts, or tells where its log starts.

What its predecessors did is in the records, which it reads to their end. By them it knows what was removed:
its own log's start may be of before, for it had not heard of a later one, or a crash forgot it. And it must
know its own lineage: whose the copies are tells by its leader epochs alone (`remote_log.core.lineage`).
"""

import logging
from functools import partial

from headrace.log.leader_epoch_file_cache import LeaderEpochFileCache
from headrace.log.unified_log import UnifiedLog
from headrace.remote_log.core.lineage import first_of_lineage, first_there, is_in_doubt, restored, witness
from headrace.remote_log.steps import IsWanted, StepRunner
from headrace.replication.partition import Partition
from headrace.tiered.aux_state import read_epochs
from headrace.tiered.metadata_cache import RemoteLogMetadataCache
from headrace.tiered.segment_metadata import TopicIdPartition

logger = logging.getLogger(__name__)


async def take_over(
    partition: Partition, name: TopicIdPartition, runner: StepRunner, leads: IsWanted
) -> bool:
    """Whether this leader knows all it must, as the partition does from then on. False: it leads no more, or
    must try again.
    """
    epoch = partition.leader_epoch
    if not await runner.metadata.catch_up(name, leads) or not leads():
        return False
    log, remote = partition.local_log(), runner.metadata.logs.get(name)
    if remote is None:
        return False
    if is_in_doubt(log, remote):
        await _find_lineage(log, remote, runner, leads)
        if not leads():
            return False
        partition.enter_epoch()  # a file that told of a later one may have kept it out
    partition.remote_known_epoch = epoch
    move_log_start(partition, log, remote)
    partition.on_advance(partition.topic_partition)  # who asked before waits for it
    return True


def move_log_start(partition: Partition, log: UnifiedLog, remote: RemoteLogMetadataCache) -> None:
    """Move the log's start behind what somebody else removed, as the records say."""
    start = min(first_there(log, remote), log.high_watermark)
    if start > log.log_start_offset:
        log.maybe_increment_log_start_offset(start)
        partition.on_advance(partition.topic_partition)


async def _find_lineage(
    log: UnifiedLog, remote: RemoteLogMetadataCache, runner: StepRunner, leads: IsWanted
) -> None:
    """Ask the store whose records are in it."""
    local = log.segments.first.base_offset
    if all(copy.start_offset >= local for copy in remote.finished()):  # nothing there can be this log's
        log.maybe_increment_log_start_offset(min(local, log.high_watermark))
        return
    found = witness(log, remote)
    if found is None:
        logger.error(
            "%s: its leader epochs before offset %d were lost, and no copy in the remote store tells them: "
            "what lies there cannot be read, and is kept",
            log.topic_partition,
            local,
        )
        return
    told = await runner.in_thread(partial(read_epochs, runner.store, found))
    if not leads():
        return
    entries = restored(log, told)
    if entries != log.leader_epoch_cache.entries():
        logger.warning(
            "%s: its leader epochs were lost, and found in the remote store: %s", log.topic_partition, entries
        )
        log.leader_epoch_cache.take_over(LeaderEpochFileCache(entries))
        log.want_flush()
    start = max(first_of_lineage(log, remote), entries[0][1] if entries else 0)
    log.maybe_increment_log_start_offset(min(start, local, log.high_watermark))
