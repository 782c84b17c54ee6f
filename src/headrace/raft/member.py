"""Opening this node's part of the quorum: the folder, the vote, the core and the driver, put together."""

import asyncio
from collections.abc import Callable, Iterable
from random import Random
from typing import Final

from headrace.base.clock import Clock
from headrace.log.disk import Disk
from headrace.raft.core import RaftCore
from headrace.raft.driver import RaftDriver
from headrace.raft.metadata_log import MetadataLog, log_settings
from headrace.raft.quorum_state import read_state
from headrace.raft.records import Entry
from headrace.raft.roles import Patience
from headrace.raft.snapshotting import SnapshotRules, Snapshotting
from headrace.raft.voters import VoterSet
from headrace.settings.broker_config import BrokerConfig

JITTER: Final = 2
"""An election is stood for after one to two time-outs, so that voters rarely do it at once."""

FIRST_BACKOFF_MS: Final = 50
"""The bound of the first wait after an election that nobody won; it doubles up to the setting's."""

HURRY_MS: Final = 50
"""Voters of a new cluster, and followers of a leader that is gone, stand within so many milliseconds, rarely
at once."""


def patience_of(config: BrokerConfig, rng: Random) -> Patience:
    """The settings of the quorum's time-outs, with chance in them."""
    election_ms = max(config.int("controller.quorum.election.timeout.ms"), 1)
    backoff_ms_max = config.int("controller.quorum.election.backoff.max.ms")

    def backoff_ms(attempt: int) -> int:
        return rng.randrange(1, max(min(FIRST_BACKOFF_MS << min(attempt, 20), backoff_ms_max), 2))

    return Patience(
        election_ms=lambda: rng.randrange(election_ms, JITTER * election_ms),
        backoff_ms=backoff_ms,
        hurry_ms=lambda: rng.randrange(HURRY_MS),
        fetch_ms=max(config.int("controller.quorum.fetch.timeout.ms"), 1),
    )


def snapshot_rules(config: BrokerConfig) -> SnapshotRules:
    return SnapshotRules(
        bytes_between=config.int("metadata.log.max.record.bytes.between.snapshots"),
        interval_ms=config.int("metadata.log.max.snapshot.interval.ms"),
        retention_bytes=config.int("metadata.max.retention.bytes"),
        retention_ms=config.int("metadata.max.retention.ms"),
    )


def open_member(
    config: BrokerConfig,
    *,
    directory_id: bytes,
    disk: Disk,
    loop: asyncio.AbstractEventLoop,
    clock: Clock,
    rng: Random,
    entries_of_image: Callable[[], Iterable[Entry] | None],
    on_failure: Callable[[Exception], None],
) -> RaftDriver:
    """The driver of this node, not started yet.

    `entries_of_image` gives the records of a snapshot of all that was committed so far. InvalidBytesError
    where the folder is damaged beyond what a crash can do.
    """
    settings = log_settings(
        segment_bytes=config.int("metadata.log.segment.bytes"),
        segment_ms=config.int("metadata.log.segment.ms"),
    )
    log = MetadataLog.open(disk, config.metadata_log_dir, settings, rng=rng, now_ms=clock.now_ms())
    voters = _voters(config, log)
    core = RaftCore(
        node_id=config.node_id,
        directory_id=directory_id,
        voters=voters.directories,
        state=read_state(disk, log.folder),
        log_end=log.end,
        patience=patience_of(config, rng),
    )
    snapshotting = Snapshotting(snapshot_rules(config), entries_of_image, loop=loop, clock=clock)
    return RaftDriver(core, log, loop=loop, clock=clock, snapshotting=snapshotting, on_failure=on_failure)


def _voters(config: BrokerConfig, log: MetadataLog) -> VoterSet:
    """The log's own voters, else those of the settings; none for a node that has yet to find them."""
    voters = log.voters if log.kraft_version else None
    if voters is None:
        names = config.controller_listener_names
        listed = config.list("controller.quorum.voters")
        voters = VoterSet.from_setting(listed, names[0] if names else "CONTROLLER")
    log.history.assume(voters)
    return voters
