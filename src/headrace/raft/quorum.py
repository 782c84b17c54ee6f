"""This node's part in the quorum, whole: the driver, the ways to the others, following and serving.

Made by the node's assembly around a driver that `member.open_member` opened. A quorum of one has nobody to
talk to, and pays for none of it but the objects.
"""

import asyncio
from collections.abc import Callable
from random import Random

from headrace.base.clock import Clock
from headrace.raft.channels import Channels
from headrace.raft.driver import RaftDriver
from headrace.raft.following import Following
from headrace.raft.serving import Serving
from headrace.raft.voters import VoterSet
from headrace.raft.wire_words import Endpoints
from headrace.settings.broker_config import BrokerConfig
from headrace.transport.network import Network
from headrace.transport.peer import Address
from headrace.transport.receive_memory import ReceiveMemory


class Quorum:
    """`endpoints` tells where this node's own controller listens, by listener; empty on a mere broker."""

    def __init__(
        self,
        driver: RaftDriver,
        config: BrokerConfig,
        *,
        cluster_id: str,
        network: Network,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        rng: Random,
        memory: ReceiveMemory,
        endpoints: Callable[[], Endpoints],
    ) -> None:
        self.driver = driver
        self.channels = Channels(
            driver,
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
        )
        self.serving = Serving(driver, self.channels, loop=loop)
        self._following = Following(
            driver,
            self.channels,
            loop=loop,
            fetch_bytes=config.int("controller.quorum.fetch.max.bytes"),
            snapshot_bytes=config.int("controller.quorum.fetch.snapshot.max.bytes"),
        )
        driver.send = self.channels.send

    async def start(self) -> None:
        """Take part; returns when this node leads, or has all that the leader had committed."""
        self._following.start()
        await self.driver.start()

    async def stop(self) -> None:
        await self._following.stop()
        await self.driver.stop()
        self.serving.close()
        self.channels.close()

    def abandon(self) -> None:
        """A start that failed: ask and answer nothing more, write nothing."""
        self._following.abandon()
        self.driver.abandon()
        self.channels.close()


def _configured_voters(config: BrokerConfig) -> dict[int, Address]:
    """Where the settings say that voters listen."""
    voters = VoterSet.from_setting(config.list("controller.quorum.voters"))
    return {voter.id: next(iter(voter.endpoints.values())) for voter in voters.by_id.values()}


def address_of(text: str) -> Address:
    """HOST:PORT of a setting."""
    host, _, port = text.strip().rpartition(":")
    return host.strip("[]"), int(port)
