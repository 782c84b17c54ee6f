"""What a new leader of a tiered partition must find out before it acts, or tells where its log starts.

What its predecessors did is in the records, which it reads to their end. By them it knows what was removed:
its own log's start may be of before, for it had not heard of a later one, or a crash forgot it. And it must
know its own lineage: whose the copies are tells by its leader epochs alone (`tiered.lineage`).
"""

import logging
from functools import partial

from headrace.log.leader_epochs import LeaderEpochs
from headrace.log.partition_log import PartitionLog
from headrace.replication.partition import Partition
from headrace.replication.tier_rounds import IsWanted, TierRounds
from headrace.tiered.lineage import is_in_doubt, read_epochs, restored, witness
from headrace.tiered.remote_log import RemoteLog
from headrace.tiered.remote_segment import TopicIdPartition
from headrace.tiered.removal import first_of_lineage, first_there

logger = logging.getLogger(__name__)


async def take_over(
    partition: Partition, name: TopicIdPartition, rounds: TierRounds, leads: IsWanted
) -> bool:
    """Whether this leader knows all it must, as the partition does from then on. False: it leads no more, or
    must try again.
    """
    epoch = partition.leader_epoch
    if not await rounds.records.catch_up(name, leads) or not leads():
        return False
    log, remote = partition.local_log(), rounds.records.logs.get(name)
    if remote is None:
        return False
    if is_in_doubt(log, remote):
        await _find_lineage(log, remote, rounds, leads)
        if not leads():
            return False
        partition.enter_epoch()  # a file that told of a later one may have kept it out
    partition.remote_known_epoch = epoch
    settle(partition, log, remote)
    partition.on_advance(partition.topic_partition)  # who asked before waits for it
    return True


def settle(partition: Partition, log: PartitionLog, remote: RemoteLog) -> None:
    """Have the log start where it does: what somebody else removed is known by the records."""
    start = min(first_there(log, remote), log.high_watermark)
    if start > log.log_start_offset:
        log.advance_log_start(start)
        partition.on_advance(partition.topic_partition)


async def _find_lineage(log: PartitionLog, remote: RemoteLog, rounds: TierRounds, leads: IsWanted) -> None:
    """Ask the store whose records are in it."""
    local = log.segments.first.base_offset
    if all(copy.start_offset >= local for copy in remote.finished()):  # nothing there can be this log's
        log.advance_log_start(min(local, log.high_watermark))
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
    told = await rounds.in_thread(partial(read_epochs, rounds.store, found))
    if not leads():
        return
    entries = restored(log, told)
    if entries != log.epochs.entries():
        logger.warning(
            "%s: its leader epochs were lost, and found in the remote store: %s", log.topic_partition, entries
        )
        log.epochs.take_over(LeaderEpochs(entries))
        log.want_flush()
    start = max(first_of_lineage(log, remote), entries[0][1] if entries else 0)
    log.advance_log_start(min(start, local, log.high_watermark))
