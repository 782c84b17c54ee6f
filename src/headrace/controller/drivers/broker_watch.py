"""A broker whose process ended is noticed at once, instead of when its session runs out.

A process that died closes its connections. So every controller, active or not, holds one open to each
broker, over which little is ever said: when it ends, or one ends that heartbeats came over, the broker is
connected to again. Where nothing listens any more the system refuses at once, and the broker is certainly
gone. One that is paused, or whose machine is busy, still has its port, and one that cannot be reached does
not answer at all: both are left to the session's time-out, for only silence can tell.

Three things keep a refusal from being taken for more than it is. It counts only where connecting has worked
before, so that a listener that this node could never reach proves nothing. It does not count while a
connection is open that heartbeats of the broker come over: a process that has that one lives. And a
connection that works proves nothing for good: a process that is ending may close its port last, and then ends
this connection too.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

from headrace.base.errors import ApiError, InvalidBytesError
from headrace.controller.drivers.quorum_controller import QuorumController
from headrace.metadata.brokers import BrokerRegistration, Endpoint
from headrace.raft.drivers.raft_client import Commit
from headrace.raft.snapshots import Snapshot
from headrace.transport.addresses import hosts_of
from headrace.transport.channel_builder import PLAINTEXT, ChannelBuilder
from headrace.transport.client_connection import ClientConnection, connect
from headrace.transport.network import Network
from headrace.transport.receive_memory import ReceiveMemory
from headrace.wire.schemas.api_versions import ApiVersionsRequest, ApiVersionsResponse
from headrace.wire.schemas.metadata_records import BrokerRegistrationChangeRecord, RegisterBrokerRecord

logger = logging.getLogger(__name__)

CONNECT_MS: Final = 500
"""How long an answer may take before an attempt to connect proves nothing."""

PAUSE_MS: Final = (10, 1_000)
"""Before the next attempt to connect; it doubles while they fail, or do not last."""

TRUSTED_S: Final = 0.05
"""A connection that lasts so long is to a process that lives: one that ends closes its port within that."""

SIGN_OF_LIFE_S: Final = 0.05
"""How long a broker may take to show that it is there before that is believed without."""

RECENTLY_S: Final = 0.002
"""One that has just shown it is not asked again."""

WITHOUT_LOGIN: Final = (0, 1)
"""The numbers of PLAINTEXT and SSL."""

UNHEARD_MS: Final = 30_000
"""A connection on which nothing was answered for so long is opened again."""


class WatchedConnection(Protocol):
    """The face of a transport's connection that a watch needs: something to remember it by."""

    def __hash__(self) -> int: ...


class _Held:
    """What is known of one incarnation of a broker, and the task that keeps a connection to it."""

    __slots__ = ("answered", "asked", "broker_id", "connection", "epoch", "reached", "task", "wake")

    def __init__(self, broker_id: int, epoch: int, wake: "asyncio.Future[None]") -> None:
        self.broker_id = broker_id
        self.epoch = epoch
        self.reached = False
        self.connection: ClientConnection | None = None
        """That is up, over which the broker can be asked whether it is there."""
        self.asked: asyncio.Future[None] | None = None
        self.answered = 0.0
        self.wake = wake
        self.task: asyncio.Task[None] | None = None

    def look_now(self) -> None:
        """Do not wait for the pause to end; a connection that is open needs no look."""
        if not self.wake.done():
            self.wake.set_result(None)


class BrokerWatch:
    """Told of heartbeats and of connections that ended; tells the controller who is gone. `suspect` and
    `trust` are told of brokers that may be."""

    def __init__(
        self,
        controller: QuorumController,
        *,
        loop: asyncio.AbstractEventLoop,
        network: Network,
        memory: ReceiveMemory,
        suspect: Callable[[int], None],
        trust: Callable[[int], None],
        between_brokers: str = "",
        channel_builder: Callable[[str], ChannelBuilder] = lambda listener: PLAINTEXT,
        speaks: Callable[[Endpoint], bool] = lambda endpoint: True,
    ) -> None:
        """Brokers are watched at the listener `between_brokers`, where they have one of that name, else at
        one that this node `speaks` to."""
        self._controller = controller
        self._loop = loop
        self._network = network
        self._memory = memory
        self._suspect = suspect
        self._trust = trust
        self._between_brokers = between_brokers
        self._channel_builder = channel_builder
        self._speaks = speaks
        self._beating: dict[WatchedConnection, int] = {}
        self._held: dict[int, _Held] = {}

    # -- following the log: each controller gets to know the brokers, to be sure of them when it is active ---

    def prepare(self, snapshot: Snapshot, records: Sequence[Any]) -> None:
        """The controller's image will have them."""

    def handle_load_snapshot(self, snapshot: Snapshot) -> None:
        self._hold_all()

    def handle_commit(self, commit: Commit) -> None:
        for record in commit.records:
            if isinstance(record, RegisterBrokerRecord | BrokerRegistrationChangeRecord):
                self._hold(record.broker_id)

    def handle_leader_change(self, leader_id: int, epoch: int) -> None:
        """The controller that was active may have died with the broker beside it."""
        if self._controller.is_active:
            self._hold_all()
            for held in self._held.values():
                held.look_now()

    def _hold_all(self) -> None:
        for broker_id in list(self._controller.core.image.brokers):
            self._hold(broker_id)

    # -- connections of theirs -------------------------------------------------------------------------------

    def note(self, connection: WatchedConnection, broker_id: int) -> None:
        """A heartbeat of a broker came over this connection."""
        self._beating[connection] = broker_id

    def closed(self, connection: WatchedConnection, reason: str) -> None:
        """A connection ended; if it was a broker's, see what has become of it."""
        broker_id = self._beating.pop(connection, None)
        if broker_id in self._held:
            logger.debug("the connection of broker %d ended (%s)", broker_id, reason)
            self._held[broker_id].look_now()

    # -- is it there? ----------------------------------------------------------------------------------------

    def ask(self, broker_id: int) -> "asyncio.Future[None] | None":
        """Ask a broker for a sign of life: done when there is one, when its connection ended, or when it
        takes too long to wait for. None where it gave one just now, or there is no way to ask."""
        held = self._held.get(broker_id)
        if held is None or held.connection is None or self._loop.time() - held.answered < RECENTLY_S:
            return None
        if held.asked is not None and not held.asked.done():
            return held.asked
        held.asked = self._loop.create_future()
        self._loop.call_later(SIGN_OF_LIFE_S, _settle, held.asked)
        if not held.connection.in_flight:
            asked = held.connection.ask(ApiVersionsRequest(), 0, ApiVersionsResponse, timeout_ms=UNHEARD_MS)
            asked.add_done_callback(lambda done: self._heard(held, done))
        return held.asked

    def _heard(self, held: _Held, done: "asyncio.Future[ApiVersionsResponse]") -> None:
        if not done.cancelled() and done.exception() is None:
            held.answered = self._loop.time()
            _settle(held.asked)

    def stop(self) -> None:
        held, self._held = self._held, {}
        for each in held.values():
            if each.task is not None:
                each.task.cancel()

    # -- connections of ours ---------------------------------------------------------------------------------

    def _hold(self, broker_id: int) -> None:
        """Begin to hold a connection, unless there is one to this very incarnation."""
        broker = self._controller.core.image.brokers.get(broker_id)
        held = self._held.get(broker_id)
        if broker is None or broker_id == self._controller.core.node_id:
            return
        if held is not None and held.epoch == broker.epoch:
            return
        if held is not None and held.task is not None:
            held.task.cancel()
        held = self._held[broker_id] = _Held(broker_id, broker.epoch, self._loop.create_future())
        held.task = self._loop.create_task(self._keep(held))
        held.task.add_done_callback(lambda _: self._let_go(held))

    def _let_go(self, held: _Held) -> None:
        if self._held.get(held.broker_id) is held:
            del self._held[held.broker_id]

    def _incarnation(self, held: _Held) -> BrokerRegistration | None:
        broker = self._controller.core.image.brokers.get(held.broker_id)
        return broker if broker is not None and broker.epoch == held.epoch else None

    async def _keep(self, held: _Held) -> None:
        """Hold a connection, and another when it ends; until the broker has ended, or is another one."""
        brief = 0
        while (broker := self._incarnation(held)) is not None:
            began = self._loop.time()
            try:
                await self._hold_one(held, broker)
            except (OSError, ApiError, InvalidBytesError) as error:  # the login may fail, too
                if broker.fenced:
                    return  # when it is back the log says so
                if isinstance(error, ConnectionRefusedError):
                    self._judge(held)
            brief = 0 if self._loop.time() - began > PAUSE_MS[1] / 1000 else brief + 1
            if brief:
                held.wake = self._loop.create_future()
                pause_ms = min(PAUSE_MS[0] << min(brief - 1, 10), PAUSE_MS[1])
                await asyncio.wait([held.wake], timeout=pause_ms / 1000)

    async def _hold_one(self, held: _Held, broker: BrokerRegistration) -> None:
        """Return when the connection ends; OSError where there is none, ConnectionRefusedError where every
        address refuses."""
        ended: asyncio.Future[None] = self._loop.create_future()

        def on_close(reason: str) -> None:
            if not ended.done():
                ended.set_result(None)

        connection = await self._connect(broker, on_close)
        held.reached = True
        trusted = self._loop.call_later(TRUSTED_S, self._trust, broker.id)
        held.connection = connection
        try:
            await ended
        finally:
            held.connection = None
            trusted.cancel()
            connection.close()
        self._suspect(broker.id)
        _settle(held.asked)

    async def _connect(self, broker: BrokerRegistration, on_close: Callable[[str], None]) -> ClientConnection:
        refusal: OSError = OSError("it has no listener that this node can speak to")
        for endpoint in self._watched(broker):
            for host in hosts_of(endpoint.host):
                try:
                    return await connect(
                        self._loop,
                        self._network,
                        host,
                        endpoint.port,
                        memory=self._memory,
                        timeout_ms=CONNECT_MS,
                        on_close=on_close,
                        channel_builder=self._channel_builder(endpoint.name),
                        server_name=endpoint.host,
                    )
                except ConnectionRefusedError as error:
                    refusal = error
        raise refusal

    def _watched(self, broker: BrokerRegistration) -> list[Endpoint]:
        """Where a broker is watched, if anywhere. One that is spoken to in the wrong way would hang up, which
        is no sign of anything."""
        between = broker.endpoints.get(self._between_brokers)
        if between is not None and self._speaks(between):
            return [between]
        others = (each for each in broker.endpoints.values() if each.security_protocol in WITHOUT_LOGIN)
        return list(filter(self._speaks, others))[:1]

    def _judge(self, held: _Held) -> None:
        """Nothing listens where the broker did."""
        if held.reached and self._controller.is_active and held.broker_id not in self._beating.values():
            self._controller.broker_gone(held.broker_id, held.epoch)


def _settle(future: "asyncio.Future[None] | None") -> None:
    if future is not None and not future.done():
        future.set_result(None)
