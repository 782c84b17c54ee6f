"""Rounds of compaction in the remote store, one at a time: they fetch, clean and put whole segments.

They share the local cleaner's memory as one more of its rounds, and the copies' bound on bytes per second.
"""

import random
from collections.abc import Callable

from headrace.log.cleaner import Limits
from headrace.log.partition_log import PartitionLog
from headrace.records.cleaning import KeyTable
from headrace.replication.cleaning import TABLE_BYTES_MAX, shares
from headrace.replication.tier_rounds import IsWanted, TierRounds
from headrace.settings.broker_config import BrokerConfig
from headrace.tiered.compaction import SCRATCH, RemoteCleanable, Tools, compact
from headrace.tiered.remote_log import RemoteLog


class TierCompaction:
    """Rounds one after the other."""

    def __init__(self, rounds: TierRounds, config: BrokerConfig, rng: random.Random) -> None:
        self._rounds = rounds
        self._config = config
        self._rng = rng

    async def run(
        self, found: RemoteCleanable, remote: RemoteLog, *, new_id: Callable[[], bytes], leads: IsWanted
    ) -> bool:
        """One round; whether it was done to its end."""
        parts = shares(self._config, self._config.int("log.cleaner.threads"))
        table = KeyTable(
            min(self._config.int("log.cleaner.dedupe.buffer.size") // parts, TABLE_BYTES_MAX),
            self._config.float("log.cleaner.io.buffer.load.factor"),
            (self._rng.getrandbits(64), self._rng.getrandbits(64)),
        )
        tools = Tools(
            store=self._rounds.store,
            teller=self._rounds.teller,
            disk=found.log.storage.disk,
            scratch=scratch_of(found.log),
            table=table,
            limits=Limits(window_bytes=self._config.int("log.cleaner.io.buffer.size") // parts),
            new_id=new_id,
            is_leading=leads,
            note_bytes_max=self._config.int("remote.log.metadata.custom.metadata.max.bytes"),
        )
        try:
            return await self._rounds.run(compact(found, remote, tools), leads)
        finally:
            table.drop()


def scratch_of(log: PartitionLog) -> str:
    """The folder for what is written anew, beside the partitions' folders."""
    return f"{log.folder.rpartition('/')[0]}/{SCRATCH}"
