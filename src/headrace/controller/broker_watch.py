"""A broker whose connection ended is looked for at once, instead of when its session runs out.

A process that died closes its connections. Whether it did is found out by connecting to it: where nothing
listens any more the system refuses at once, and the broker is certainly gone. One that is paused, or whose
machine is busy, still has its port, and one that cannot be reached does not answer at all: both are left to
the session's time-out, for only silence can tell. A refusal counts only where connecting has worked before,
so that a listener that this node could never reach proves nothing.
"""

import asyncio
import logging
from typing import Final, Protocol

from headrace.controller.driver import Controller
from headrace.metadata.brokers import BrokerImage
from headrace.raft.driver import Commit
from headrace.raft.snapshots import Snapshot
from headrace.transport.addresses import hosts_of
from headrace.transport.client_connection import connect
from headrace.transport.network import Network
from headrace.transport.receive_memory import ReceiveMemory
from headrace.wire.schemas.metadata_records import BrokerRegistrationChangeRecord, RegisterBrokerRecord

logger = logging.getLogger(__name__)

PROBE_MS: Final = 500
"""How long an answer may take before the probe proves nothing."""


class Connection(Protocol):
    """The face of a transport's connection that a watch needs: something to remember it by."""

    def __hash__(self) -> int: ...


class BrokerWatch:
    """Told of heartbeats and of connections that ended; tells the controller who is gone."""

    def __init__(
        self,
        controller: Controller,
        *,
        loop: asyncio.AbstractEventLoop,
        network: Network,
        memory: ReceiveMemory,
    ) -> None:
        self._controller = controller
        self._loop = loop
        self._network = network
        self._memory = memory
        self._brokers: dict[Connection, int] = {}
        self._reached: set[tuple[int, int]] = set()
        self._probes: set[asyncio.Task[None]] = set()

    # -- following the log: each controller gets to know the brokers, to be sure of them when it is active ---

    def load_snapshot(self, snapshot: Snapshot) -> None:
        self._look_at_all()

    def commit(self, commit: Commit) -> None:
        for record in commit.records:
            if isinstance(record, RegisterBrokerRecord | BrokerRegistrationChangeRecord):
                self._probe(record.broker_id)

    def follow_leader(self, leader_id: int, epoch: int) -> None:
        """The controller that was active may have died with the broker beside it."""
        if self._controller.is_active:
            self._look_at_all()

    def _look_at_all(self) -> None:
        for broker in self._controller.core.image.brokers.values():
            if not broker.fenced:
                self._probe(broker.id)

    # -- connections -----------------------------------------------------------------------------------------

    def note(self, connection: Connection, broker_id: int) -> None:
        """A heartbeat of a broker came over this connection."""
        if self._brokers.get(connection) != broker_id:
            self._brokers[connection] = broker_id
            self._probe(broker_id)

    def closed(self, connection: Connection, reason: str) -> None:
        """A connection ended; if it was a broker's, see what has become of it."""
        broker_id = self._brokers.pop(connection, None)
        if broker_id is not None and self._controller.is_active:
            logger.info("the connection of broker %d ended (%s)", broker_id, reason)
            self._probe(broker_id)

    def stop(self) -> None:
        for probe in list(self._probes):
            probe.cancel()

    def _probe(self, broker_id: int) -> None:
        broker = self._controller.core.image.brokers.get(broker_id)
        if broker is not None and broker_id != self._controller.core.node_id:
            task = self._loop.create_task(self._look(broker))
            self._probes.add(task)
            task.add_done_callback(self._probes.discard)

    async def _look(self, broker: BrokerImage) -> None:
        """Connect once: it works, it is refused, or it tells nothing."""
        key = (broker.id, broker.epoch)
        refused = 0
        addresses = [
            (host, each.port) for each in list(broker.endpoints.values())[:1] for host in hosts_of(each.host)
        ]
        for host, port in addresses:
            try:
                connection = await connect(
                    self._loop, self._network, host, port, memory=self._memory, timeout_ms=PROBE_MS
                )
            except ConnectionRefusedError:
                refused += 1
            except OSError:
                return
            else:
                connection.close()
                self._reached.add(key)
                return
        if refused and key in self._reached and self._controller.is_active:
            self._reached.discard(key)
            self._controller.broker_gone(broker.id, broker.epoch)
