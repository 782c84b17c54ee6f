"""A node's part in deciding what the cluster is: its member of the quorum, the image that the log gives, its
own controller where it has that role, and the way to the active one.

The image follows whatever the quorum commits, on every node. A controller comes before the image among the
log's listeners, for it compares the two. Stopping has two steps: the controllers first, and the quorum when
the broker beside them needs it no more.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any, Final

from headrace.base.errors import ApiError
from headrace.controller.activation import default_bootstrap
from headrace.controller.cluster_state import DiskRoom
from headrace.controller.drivers.active_controller import ActiveController
from headrace.controller.drivers.broker_lifecycle_manager import (
    LATER,
    REGISTER_AGAIN_S,
    controller_registration_request,
)
from headrace.controller.drivers.broker_watch import BrokerWatch
from headrace.controller.drivers.controller import Controller
from headrace.controller.drivers.quorum_controller import QuorumController
from headrace.metadata.brokers import Endpoint
from headrace.metadata.image import MetadataImage
from headrace.metadata.image_writer import entries_of_image
from headrace.metadata.metadata_loader import MetadataLoader
from headrace.raft.drivers.network_channel import Endpoints
from headrace.raft.drivers.raft_client import KafkaRaftClient
from headrace.raft.drivers.raft_manager import RaftManager, open_raft_client
from headrace.raft.metadata_log import read_bootstrap
from headrace.server.environment import NodeEnvironment
from headrace.server.suspected_brokers import SuspectedBrokers
from headrace.settings.broker_config import BrokerConfig
from headrace.settings.listeners import PROTOCOLS
from headrace.transport.node_client import NodeClient
from headrace.wire.schemas import add_raft_voter, update_raft_voter
from headrace.wire.schemas.remove_raft_voter import RemoveRaftVoterRequest

logger = logging.getLogger(__name__)

OTHERS_MS: Final = 1_000
"""How long a controller that is to stop waits for brokers that are handing over."""

OTHERS_POLL_S: Final = 0.02

JOIN_AGAIN_S: Final = 0.5
JOIN_TIMEOUT_MS: Final = 30_000
"""Of a controller that asks to become a voter."""


class ControlPlane:
    """`endpoints` tells where this node's controller listens; `incarnation_id` is new for every process."""

    def __init__(
        self,
        config: BrokerConfig,
        image: MetadataImage,
        world: NodeEnvironment,
        *,
        directory_id: bytes,
        incarnation_id: bytes,
        endpoints: Callable[[], Endpoints],
        suspected_brokers: SuspectedBrokers,
        room: DiskRoom,
        on_failure: Callable[[Exception], None],
    ) -> None:
        self._config = config
        self._room = room
        self._world = world
        self._incarnation_id = incarnation_id
        self._endpoints = endpoints
        self._stopping = False
        self._joining: asyncio.Task[None] | None = None
        self.raft = open_raft_client(
            config,
            directory_id=directory_id,
            disk=world.disk,
            loop=world.loop,
            clock=world.clock,
            rng=world.rng,
            entries_of_image=lambda: entries_of_image(image),
            on_failure=on_failure,
        )
        self.quorum = RaftManager(
            self.raft,
            config,
            cluster_id=image.cluster_id,
            network=world.network,
            loop=world.loop,
            clock=world.clock,
            rng=world.rng,
            memory=world.memory,
            endpoints=endpoints,
            channel_builder=world.channel_builder(next(iter(config.controller_listener_names), "")),
        )
        self.metadata_loader = MetadataLoader(image)
        self.own: QuorumController | None = None
        self.watch: BrokerWatch | None = None
        if "controller" in config.roles:
            bootstrap = read_bootstrap(world.disk, config.metadata_log_dir)
            self.own = self._controller(image, None if bootstrap is None else bootstrap.records)
            self.watch = self._watch(self.own, suspected_brokers)
        self.raft.register_listener(self.metadata_loader)
        self.active = ActiveController(
            self.raft,
            self.own,
            name=f"{config.node_id}-{incarnation_id.hex()}",
            loop=world.loop,
            new_peer=self._way_to_controller,
            is_stopping=lambda: self._stopping,
        )

    def _controller(self, image: MetadataImage, bootstrap: Sequence[Any] | None) -> QuorumController:
        own = QuorumController(
            self.raft,
            self._config,
            cluster_id=image.cluster_id,
            bootstrap=default_bootstrap() if bootstrap is None else bootstrap,
            committed=image,
            incarnation_id=self._incarnation_id,
            loop=self._world.loop,
            clock=self._world.clock,
            rng=self._world.rng,
            room=self._room,
        )
        self.raft.register_listener(own)
        return own

    def _watch(self, own: QuorumController, suspected_brokers: SuspectedBrokers) -> BrokerWatch:
        watch = BrokerWatch(
            own,
            loop=self._world.loop,
            network=self._world.network,
            memory=self._world.memory,
            suspect=suspected_brokers.suspect,
            trust=suspected_brokers.trust,
            between_brokers=self._config.inter_broker_listener_name,
            channel_builder=self._world.channel_builder,
            speaks=self._speaks,
        )
        self.raft.register_listener(watch)
        return watch

    def _speaks(self, endpoint: Endpoint) -> bool:
        """Whether this node has the listener's name, for what the broker says that it is."""
        protocol = self._config.security_protocols.get(endpoint.name)
        return protocol == PROTOCOLS[endpoint.security_protocol]

    def ask_broker(self, broker_id: int) -> "asyncio.Future[None] | None":
        """Whether a broker is there, where this node's controller watches it."""
        return None if self.watch is None else self.watch.ask(broker_id)

    def _way_to_controller(self, node_id: int) -> NodeClient:
        """Another one than the quorum's own, where long polls hold up what comes after them."""
        return self.quorum.channel.new_peer(lambda: self.quorum.channel.address_of(node_id))

    async def start(self, advertised: Callable[[], Sequence[Endpoint]]) -> None:
        """Take part; on return the image has all that was committed, and the quorum knows this controller."""
        await self.quorum.start()
        if self.own is not None:
            await self.own.settle()
            await self._register(advertised())
            await tell_voter_address(self.raft, self.active, self._endpoints())
            if self._config.bool("controller.quorum.auto.join.enable"):
                self._joining = self._world.loop.create_task(
                    join_quorum(self.raft, self.active, self._endpoints())
                )

    async def _register(self, listeners: Sequence[Endpoint]) -> None:
        """Tell the quorum of this controller. The active one may have a full disk, or no majority for a
        while: that is no reason to end."""
        request = controller_registration_request(
            node_id=self._config.node_id, incarnation_id=self._incarnation_id, listeners=listeners
        )
        while True:
            try:
                await self.active.ask(request)
                return
            except ApiError as error:
                if error.code not in LATER or self._stopping:
                    raise
                logger.info("the controller is not registered yet: %s", error)
                await asyncio.sleep(REGISTER_AGAIN_S)

    async def see_others_off(self) -> None:
        """The active controller goes after the brokers that are about to: they would have to wait for the
        next one, and where all stop together there is none."""
        deadline_ms = self._world.clock.monotonic_ms() + OTHERS_MS
        while self._others_are_going() and self._world.clock.monotonic_ms() < deadline_ms:
            await asyncio.sleep(OTHERS_POLL_S)

    def _others_are_going(self) -> bool:
        if self.own is None or not self.own.is_active:
            return False
        brokers = self.own.core.image.brokers.values()
        return any(each.in_controlled_shutdown and not each.fenced for each in brokers)

    def stop_controllers(self) -> None:
        """Decide nothing more, and ask nobody."""
        self._stopping = True
        if self._joining is not None:
            self._joining.cancel()
        if self.watch is not None:
            self.watch.stop()
        if self.own is not None:
            self.own.stop()
        self.active.stop()

    async def stop_quorum(self) -> None:
        await self.quorum.stop()

    def abandon(self) -> None:
        """A start that failed: write nothing more."""
        self.stop_controllers()
        self.quorum.abandon()


async def join_quorum(raft: KafkaRaftClient, controller: Controller, endpoints: Endpoints) -> None:
    """A controller makes itself a voter (controller.quorum.auto.join.enable, KIP-853); returns when it votes.

    It follows the log as an observer until it has all of it; then it asks the leader to be added. Where the
    log has a voter of its id with another directory, that was this node before it lost its disk: it is
    removed first. Once it votes, or has been removed later on, nothing more is done: who removes a voter
    means it. Where the voters are a setting it can only wait.
    """
    while not raft.core.is_voter:
        try:
            if raft.log.kraft_version and raft.log.voters is not None:
                await _ask_to_join(raft, controller, endpoints)
        except ApiError as error:
            logger.info("this controller does not vote yet: %s", error)
        await asyncio.sleep(JOIN_AGAIN_S)
    logger.info("this controller votes")


async def _ask_to_join(raft: KafkaRaftClient, controller: Controller, endpoints: Endpoints) -> None:
    core, voters = raft.core, raft.log.voters
    assert voters is not None
    former = voters.by_id.get(core.node_id)
    if former is not None:
        await controller.ask(RemoveRaftVoterRequest(None, core.node_id, former.directory_id))
    listeners = [add_raft_voter.Listener(name, host, port) for name, (host, port) in endpoints.items()]
    await controller.ask(
        add_raft_voter.AddRaftVoterRequest(None, JOIN_TIMEOUT_MS, core.node_id, core.directory_id, listeners)
    )


async def tell_voter_address(raft: KafkaRaftClient, controller: Controller, endpoints: Endpoints) -> None:
    """A voter that listens elsewhere than the metadata log says tells the others (UpdateRaftVoter, KIP-853).

    Nothing to do where the settings fix the voters, for one that is none or alone, or that did not move. A
    quorum that refuses goes on with what it knows: the others learn of this node's address when it leads.
    """
    core = raft.core
    voter = None if raft.log.voters is None else raft.log.voters.by_id.get(core.node_id)
    if not raft.log.kraft_version or voter is None or not core.is_voter or len(core.voters) == 1:
        return
    if voter.endpoints == endpoints:
        return
    request = update_raft_voter.UpdateRaftVoterRequest(
        cluster_id=None,
        current_leader_epoch=core.epoch,
        voter_id=core.node_id,
        voter_directory_id=core.directory_id,
        listeners=[update_raft_voter.Listener(name, host, port) for name, (host, port) in endpoints.items()],
        kraft_version_feature=update_raft_voter.KRaftVersionFeature(*voter.kraft_versions),
    )
    try:
        await controller.ask(request)
    except ApiError as error:
        logger.warning("the quorum does not take this node's new address: %s", error)
