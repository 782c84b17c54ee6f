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
from typing import TYPE_CHECKING

from headrace.base.clock import Clock
from headrace.server.fetch_sessions import FetchSessionCache
from headrace.server.large_batches import LargeBatches
from headrace.server.metadata_replies import MetadataReplies
from headrace.server.purgatory import Purgatory
from headrace.server.quotas.quota_managers import QuotaManagers
from headrace.server.replica_selection import ReplicaSelector
from headrace.server.request_log import RequestLog
from headrace.server.streams_internal_topics import StreamsInternalTopics
from headrace.server.suspected_brokers import SuspectedBrokers

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.controller.drivers.broker_watch import BrokerWatch
    from headrace.controller.drivers.controller import Controller
    from headrace.controller.drivers.producer_id_manager import ProducerIdManager
    from headrace.controller.drivers.quorum_controller import QuorumController
    from headrace.coordinators.drivers.group_coordinator import GroupCoordinator
    from headrace.coordinators.drivers.transaction_coordinator import TransactionCoordinator
    from headrace.log.log_manager import LogManager
    from headrace.metadata.image import MetadataImage
    from headrace.raft.drivers.raft_manager import RaftManager
    from headrace.replication.drivers.log_flusher import LogFlusher
    from headrace.replication.drivers.replica_alter_log_dirs_manager import ReplicaAlterLogDirsManager
    from headrace.replication.replica_manager import ReplicaManager
    from headrace.replication.replication_quotas import LeaderReplicationQuota
    from headrace.server.authorizer import Authorizer
    from headrace.server.client_metrics_manager import ClientMetricsManager
    from headrace.server.forwarding import ForwardedOnce
    from headrace.server.share.share_group_parts import ShareGroupParts
    from headrace.server.txn_partitions import TxnPartitions
    from headrace.server.txn_produce import TxnProduce
    from headrace.settings.broker_config import BrokerConfig
    from headrace.telemetry.audit import AuditTrail
    from headrace.telemetry.fault_log import FaultLog
    from headrace.tiered.offset_reader import RemoteLogOffsetReader
    from headrace.tiered.reader import RemoteLogReader


@dataclass(slots=True, kw_only=True)
class Parts:
    """One node's parts."""

    node_id: int
    cluster_id: str
    config: BrokerConfig
    clock: Clock
    loop: asyncio.AbstractEventLoop
    rng: random.Random
    image: MetadataImage
    replica_manager: ReplicaManager
    log_manager: LogManager
    log_flusher: LogFlusher
    sessions: FetchSessionCache
    purgatory: Purgatory
    large_batches: LargeBatches
    suspected_brokers: SuspectedBrokers
    controller: Controller  # the active one, wherever it is
    own_controller: QuorumController | None  # of this node
    broker_watch: BrokerWatch | None
    quorum: RaftManager
    producer_ids: ProducerIdManager
    groups: GroupCoordinator
    transactions: TransactionCoordinator
    share_groups: ShareGroupParts
    txn_partitions: TxnPartitions
    txn_produce: TxnProduce
    authorizer: Authorizer
    forwarded_once: ForwardedOnce  # to this node's controller
    quotas: QuotaManagers
    faults: FaultLog
    replica_alter_log_dirs_manager: ReplicaAlterLogDirsManager
    request_log: RequestLog
    client_metrics: ClientMetricsManager
    replica_selector: ReplicaSelector | None = None  # where consumers read; None: always from the leader
    leader_replication_quota: LeaderReplicationQuota | None = None
    remote_log_reader: RemoteLogReader | None = None  # the remote tier; None: topics cannot be tiered
    remote_log_offset_reader: RemoteLogOffsetReader | None = None
    audit: AuditTrail | None = None  # None: nobody asked for one
    metadata_replies: MetadataReplies = field(default_factory=MetadataReplies)
    streams_internal_topics: StreamsInternalTopics = field(default_factory=StreamsInternalTopics)
    check_stores: Callable[[BrokerConfig], None] = lambda config: None  # SettingError: they cannot take over
    fetch_bytes_max: int = 55 * 1024 * 1024  # `fetch.max.bytes`, which cannot change while a node runs
