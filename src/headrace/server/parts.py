"""The parts of a node that handlers work with: joined by `node.assembly`, used by every handler.

A handler takes what it needs from `context.parts` and keeps nothing of its own. The `image` is replaced as
the metadata log is replayed, so read it anew with each request. A part that a node does not have (a broker
without the controller's role, a node before its coordinators are up) is None, and its handlers say so with
the error Kafka has for that.
"""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from headrace.base.clock import Clock
from headrace.server.doubts import Doubts
from headrace.server.fetch_sessions import FetchSessions
from headrace.server.forwarded_once import ForwardedOnce
from headrace.server.replica_selection import ReplicaSelector
from headrace.server.waiting import Waiting

if TYPE_CHECKING:
    from headrace.controller.broker_watch import BrokerWatch
    from headrace.controller.driver import Controller
    from headrace.controller.producer_id_blocks import ProducerIdBlocks
    from headrace.controller.requests import ControllerRequests
    from headrace.coordinators.group.coordinator import GroupCoordinator
    from headrace.coordinators.txn.coordinator import TxnCoordinator
    from headrace.log.log_store import LogStore
    from headrace.metadata.image import ClusterImage
    from headrace.raft.quorum import Quorum
    from headrace.replication.flushing import Flushing
    from headrace.replication.moves import ReplicaMoves
    from headrace.replication.replicas import Replicas
    from headrace.replication.throttles import LeaderThrottle
    from headrace.server.txn_partitions import TxnPartitions
    from headrace.server.txn_produce import TxnProduce
    from headrace.settings.broker_config import BrokerConfig
    from headrace.tiered.reader import RemoteReader
    from headrace.tiered.times import RemoteTimes


class Authorizer(Protocol):
    """Whether somebody may do something. The numbers are Kafka's AclOperation and ResourceType."""

    def allows(
        self, principal: str, host: str, operation: int, resource_type: int, resource_name: str
    ) -> bool: ...


class AllowAll:
    """No authorizer is configured: everyone may do everything."""

    def allows(
        self, principal: str, host: str, operation: int, resource_type: int, resource_name: str
    ) -> bool:
        return True


@dataclass(slots=True, kw_only=True)
class Parts:
    """One node's parts."""

    node_id: int
    cluster_id: str
    config: BrokerConfig
    clock: Clock
    loop: asyncio.AbstractEventLoop
    rng: random.Random
    image: ClusterImage
    replicas: Replicas
    logs: LogStore
    flushing: Flushing
    sessions: FetchSessions
    waiting: Waiting
    doubts: Doubts
    controller: ControllerRequests  # the active one, wherever it is
    own_controller: Controller | None  # of this node
    broker_watch: BrokerWatch | None
    quorum: Quorum
    producer_ids: ProducerIdBlocks
    groups: GroupCoordinator
    transactions: TxnCoordinator
    txn_partitions: TxnPartitions
    txn_produce: TxnProduce
    authorizer: Authorizer
    moves: ReplicaMoves
    replica_selector: ReplicaSelector | None = None  # where consumers read; None: always from the leader
    leader_throttle: LeaderThrottle | None = None
    remote: RemoteReader | None = None  # the remote tier; None: topics cannot be tiered
    remote_times: RemoteTimes | None = None
    forwarded_once: ForwardedOnce = field(default_factory=ForwardedOnce)  # by the active controller
    fetch_bytes_max: int = 55 * 1024 * 1024  # `fetch.max.bytes`, which cannot change while a node runs
