"""A node's part in deciding what the cluster is: its member of the quorum, the image that the log gives, its
own controller where it has that role, and the way to the active one.

The image follows whatever the quorum commits, on every node. A controller comes before the image among the
log's subscribers, for it compares the two. Stopping has two steps: the controllers first, and the quorum when
the broker beside them needs it no more.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any, Final

from headrace.base.errors import ApiError
from headrace.controller.activation import default_bootstrap
from headrace.controller.active import ActiveController
from headrace.controller.broker_lifecycle import (
    LATER,
    REGISTER_AGAIN_S,
    controller_registration_request,
)
from headrace.controller.broker_watch import BrokerWatch
from headrace.controller.driver import Controller
from headrace.controller.log_entries import entries_of_image
from headrace.metadata.brokers import Endpoint
from headrace.metadata.image import ClusterImage
from headrace.metadata.publisher import ImagePublisher
from headrace.node.auto_join import join_quorum
from headrace.node.voter_address import tell_voter_address
from headrace.node.world import World
from headrace.raft.formatting import read_bootstrap
from headrace.raft.member import open_member
from headrace.raft.quorum import Quorum
from headrace.raft.wire_words import Endpoints
from headrace.server.doubts import Doubts
from headrace.settings.broker_config import BrokerConfig
from headrace.transport.peer import Peer

logger = logging.getLogger(__name__)

OTHERS_MS: Final = 1_000
"""How long a controller that is to stop waits for brokers that are handing over."""

OTHERS_POLL_S: Final = 0.02


class ControlPlane:
    """`endpoints` tells where this node's controller listens; `incarnation_id` is new for every process."""

    def __init__(
        self,
        config: BrokerConfig,
        image: ClusterImage,
        world: World,
        *,
        directory_id: bytes,
        incarnation_id: bytes,
        endpoints: Callable[[], Endpoints],
        doubts: Doubts,
        on_failure: Callable[[Exception], None],
    ) -> None:
        self._config = config
        self._world = world
        self._incarnation_id = incarnation_id
        self._endpoints = endpoints
        self._stopping = False
        self._joining: asyncio.Task[None] | None = None
        self.raft = open_member(
            config,
            directory_id=directory_id,
            disk=world.disk,
            loop=world.loop,
            clock=world.clock,
            rng=world.rng,
            entries_of_image=lambda: entries_of_image(image),
            on_failure=on_failure,
        )
        self.quorum = Quorum(
            self.raft,
            config,
            cluster_id=image.cluster_id,
            network=world.network,
            loop=world.loop,
            clock=world.clock,
            rng=world.rng,
            memory=world.memory,
            endpoints=endpoints,
        )
        self.publisher = ImagePublisher(image)
        self.own: Controller | None = None
        self.watch: BrokerWatch | None = None
        if "controller" in config.roles:
            bootstrap = read_bootstrap(world.disk, config.metadata_log_dir)
            self.own = self._controller(image, None if bootstrap is None else bootstrap.records)
            self.watch = self._watch(self.own, doubts)
        self.raft.subscribe(self.publisher)
        self.active = ActiveController(
            self.raft,
            self.own,
            name=f"{config.node_id}-{incarnation_id.hex()}",
            loop=world.loop,
            new_peer=self._way_to_controller,
            is_stopping=lambda: self._stopping,
        )

    def _controller(self, image: ClusterImage, bootstrap: Sequence[Any] | None) -> Controller:
        own = Controller(
            self.raft,
            self._config,
            cluster_id=image.cluster_id,
            bootstrap=default_bootstrap() if bootstrap is None else bootstrap,
            committed=image,
            loop=self._world.loop,
            clock=self._world.clock,
            rng=self._world.rng,
        )
        self.raft.subscribe(own)
        return own

    def _watch(self, own: Controller, doubts: Doubts) -> BrokerWatch:
        watch = BrokerWatch(
            own,
            loop=self._world.loop,
            network=self._world.network,
            memory=self._world.memory,
            suspect=doubts.suspect,
            trust=doubts.trust,
        )
        doubts.ask = watch.ask
        self.raft.subscribe(watch)
        return watch

    def _way_to_controller(self, node_id: int) -> Peer:
        """Another one than the quorum's own, where long polls hold up what comes after them."""
        return self.quorum.channels.new_peer(lambda: self.quorum.channels.address_of(node_id))

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
                await self.active.register_controller(request)
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
