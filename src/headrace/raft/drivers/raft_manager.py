"""This node's part in the quorum, whole: Kafka's KafkaRaftManager. It joins the client, the network channel,
the fetcher and what answers others.

`open_raft_client` opens the folder, the vote and the log, and makes the client; the manager is made around
it. A quorum of one has nobody to talk to, and pays for none of it but the objects.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from random import Random
from typing import Final

from headrace.base.clock import Clock
from headrace.base.errors import InvalidBytesError
from headrace.log.disk import Disk
from headrace.raft.committed_mark import check_folder
from headrace.raft.core import ElectionTimeouts, RaftCore
from headrace.raft.drivers.network_channel import Endpoints, NetworkChannel
from headrace.raft.drivers.raft_client import KafkaRaftClient
from headrace.raft.drivers.raft_fetcher import RaftFetcher
from headrace.raft.drivers.request_handler import RaftRequestHandler
from headrace.raft.drivers.snapshot_generator import SnapshotGenerator, SnapshotRules
from headrace.raft.messages import ElectionState
from headrace.raft.metadata_log import MetadataLog, log_settings
from headrace.raft.quorum_state import FILE_NAME, read_state
from headrace.raft.sane_epochs import INT32_MAX, believable
from headrace.raft.voters import VoterSet
from headrace.settings.broker_config import BrokerConfig
from headrace.transport.channel_builder import PLAINTEXT, ChannelBuilder
from headrace.transport.network import Network
from headrace.transport.node_client import Address
from headrace.transport.receive_memory import ReceiveMemory
from headrace.wire.record_frames import ApiMessageAndVersion

logger = logging.getLogger(__name__)

JITTER: Final = 2
"""An election is stood for after one to two time-outs, so that voters rarely do it at once."""

FIRST_BACKOFF_MS: Final = 50
"""The bound of the first wait after an election that nobody won; it doubles up to the setting's."""

HURRY_MS: Final = 50
"""Voters of a new cluster, and followers of a leader that is gone, stand within so many milliseconds, rarely
at once."""


class RaftManager:
    """The parts of one node's member. `endpoints` tells where this node's own controller listens, by
    listener; empty on a mere broker.
    """

    def __init__(
        self,
        client: KafkaRaftClient,
        config: BrokerConfig,
        *,
        cluster_id: str,
        network: Network,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        rng: Random,
        memory: ReceiveMemory,
        endpoints: Callable[[], Endpoints],
        channel_builder: ChannelBuilder = PLAINTEXT,
    ) -> None:
        self.client = client
        self.channel = NetworkChannel(
            client,
            cluster_id=cluster_id,
            network=network,
            loop=loop,
            clock=clock,
            memory=memory,
            rng=rng,
            listeners=config.controller_listener_names,
            bootstrap=[address_of(text) for text in config.list("controller.quorum.bootstrap.servers")],
            configured=_configured_voters(config),
            endpoints=endpoints,
            request_ms=config.int("controller.quorum.request.timeout.ms"),
            channel_builder=channel_builder,
        )
        self.request_handler = RaftRequestHandler(client, self.channel, loop=loop)
        self._fetcher = RaftFetcher(
            client,
            self.channel,
            loop=loop,
            fetch_bytes=config.int("controller.quorum.fetch.max.bytes"),
            snapshot_bytes=config.int("controller.quorum.fetch.snapshot.max.bytes"),
        )

    async def start(self) -> None:
        """Take part; returns when this node leads, or has all that the leader had committed."""
        self._fetcher.start()
        await self.client.start(self.channel.send)

    async def stop(self) -> None:
        await self._fetcher.stop()
        await self.client.stop()
        self.request_handler.close()
        self.channel.close()

    def abandon(self) -> None:
        """A start that failed: ask and answer nothing more, write nothing."""
        self._fetcher.abandon()
        self.client.abandon()
        self.channel.close()


def _configured_voters(config: BrokerConfig) -> dict[int, Address]:
    """Where the settings say that voters listen."""
    voters = VoterSet.from_setting(config.list("controller.quorum.voters"))
    return {voter.id: next(iter(voter.endpoints.values())) for voter in voters.by_id.values()}


def address_of(text: str) -> Address:
    """HOST:PORT of a setting."""
    host, _, port = text.strip().rpartition(":")
    return host.strip("[]"), int(port)


def election_timeouts(config: BrokerConfig, rng: Random) -> ElectionTimeouts:
    """The settings of the quorum's time-outs, with chance in them."""
    election_ms = max(config.int("controller.quorum.election.timeout.ms"), 1)
    backoff_ms_max = config.int("controller.quorum.election.backoff.max.ms")

    def backoff_ms(attempt: int) -> int:
        return rng.randrange(1, max(min(FIRST_BACKOFF_MS << min(attempt, 20), backoff_ms_max), 2))

    return ElectionTimeouts(
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


def open_raft_client(
    config: BrokerConfig,
    *,
    directory_id: bytes,
    disk: Disk,
    loop: asyncio.AbstractEventLoop,
    clock: Clock,
    rng: Random,
    entries_of_image: Callable[[], Iterable[ApiMessageAndVersion] | None],
    on_failure: Callable[[Exception], None],
) -> KafkaRaftClient:
    """The raft client of this node, not started yet.

    `entries_of_image` gives the records of a snapshot of all that was committed so far. InvalidBytesError
    where the folder is damaged beyond what a crash can do.
    """
    settings = log_settings(
        segment_bytes=config.int("metadata.log.segment.bytes"),
        segment_ms=config.int("metadata.log.segment.ms"),
    )
    log = MetadataLog.open(disk, config.metadata_log_dir, settings, rng=rng, now_ms=clock.now_ms())
    voters = _voters(config, log)
    check_folder(log, voters, config.node_id)
    state = _state(disk, log)
    core = RaftCore(
        node_id=config.node_id,
        directory_id=directory_id,
        voters=voters.directories,
        state=state,
        log_end=log.end,
        timeouts=election_timeouts(config, rng),
    )
    snapshot_generator = SnapshotGenerator(snapshot_rules(config), entries_of_image, loop=loop, clock=clock)
    return KafkaRaftClient(
        core, log, loop=loop, clock=clock, snapshot_generator=snapshot_generator, on_failure=on_failure
    )


def _state(disk: Disk, log: MetadataLog) -> ElectionState:
    """What the node last promised, mended where no election can have led there."""
    epoch = log.end.epoch
    if epoch >= INT32_MAX - 1:
        raise InvalidBytesError(
            f"{log.folder}: the last record of the metadata log is of epoch {epoch}, and no election can "
            "follow it. Somebody sent the quorum an epoch that it took for true. Restore the folder from "
            "before that; or, where other controllers are well, empty it and let this node fetch the log"
        )
    found = read_state(disk, log.folder)
    state = believable(found, epoch)
    if state != found:
        logger.warning(
            "%s/%s said epoch %d, though the metadata log ends in epoch %d: a request of a stranger left "
            "that behind, no election did. This node goes on in epoch %d",
            *(log.folder, FILE_NAME, found.epoch, epoch, state.epoch),
        )
    return state


def _voters(config: BrokerConfig, log: MetadataLog) -> VoterSet:
    """The log's own voters, else those of the settings; none for a node that has yet to find them."""
    voters = log.voters if log.kraft_version else None
    if voters is None:
        names = config.controller_listener_names
        listed = config.list("controller.quorum.voters")
        voters = VoterSet.from_setting(listed, names[0] if names else "CONTROLLER")
    log.history.assume(voters)
    return voters
