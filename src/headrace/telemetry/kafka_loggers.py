"""Kafka's names of loggers, and which of ours say what those say there.

An operator raises the level of `kafka.server.ReplicaManager` by the name he knows (KIP-412). Ours are named
after modules; where Kafka has several classes for one of our modules their names mean the same logger.
"""

from __future__ import annotations

from typing import Final

OWN: Final = "headrace"

_IN_KAFKA: Final = {
    "kafka": ("",),
    "org.apache.kafka": ("",),
    "kafka.authorizer.logger": ("server.authorizer",),
    "kafka.cluster.Partition": ("replication.partition", "replication.drivers.alter_partition_manager"),
    "kafka.controller": ("controller",),
    "kafka.coordinator.group": ("coordinators.group", "coordinators.drivers.group_coordinator"),
    "kafka.coordinator.transaction": ("coordinators.txn", "coordinators.drivers.transaction_coordinator"),
    "kafka.log": ("log",),
    "kafka.log.LogCleaner": ("log.compaction",),
    "kafka.log.LogManager": ("log.log_manager", "replication.drivers.log_manager_tasks"),
    "kafka.log.UnifiedLog": ("log.unified_log",),
    "kafka.network": ("transport",),
    "kafka.network.Processor": ("transport.connection",),
    "kafka.network.RequestChannel$": ("server.request_log",),
    "kafka.network.SocketServer": ("transport.listener",),
    "kafka.raft": ("raft.drivers",),
    "kafka.request.logger": ("server.request_log",),
    "kafka.server": ("server", "node"),
    "kafka.server.BrokerLifecycleManager": ("controller.drivers.broker_lifecycle_manager",),
    "kafka.server.BrokerServer": ("node.assembly", "node.lifecycle"),
    "kafka.server.ControllerServer": ("node.control_plane",),
    "kafka.server.DynamicConfigManager": ("server.config_admin",),
    "kafka.server.KafkaApis": ("server.dispatch", "server.handlers"),
    "kafka.server.KafkaConfig": ("settings",),
    "kafka.server.KafkaRaftServer": ("node.lifecycle",),
    "kafka.server.ReplicaAlterLogDirsManager": ("replication.drivers.replica_alter_log_dirs_manager",),
    "kafka.server.ReplicaFetcherManager": ("replication.drivers.replica_fetcher_manager",),
    "kafka.server.ReplicaFetcherThread": ("replication.replica_fetcher", "replication.follower_log"),
    "kafka.server.ReplicaManager": ("replication.replica_manager",),
    "kafka.server.metadata.BrokerMetadataPublisher": ("node.broker_metadata_publisher",),
    "org.apache.kafka.clients": ("clients",),
    "org.apache.kafka.controller": ("controller",),
    "org.apache.kafka.controller.BrokerHeartbeatManager": ("controller.broker_heartbeat_manager",),
    "org.apache.kafka.controller.ClusterControlManager": ("controller.cluster_control",),
    "org.apache.kafka.controller.ConfigurationControlManager": ("controller.configuration_control",),
    "org.apache.kafka.controller.QuorumController": ("controller.drivers.quorum_controller",),
    "org.apache.kafka.controller.ReplicationControlManager": ("controller.replication_control",),
    "org.apache.kafka.coordinator.common.runtime": ("coordinators.drivers.coordinator_runtime",),
    "org.apache.kafka.coordinator.group": ("coordinators.group", "coordinators.drivers.group_coordinator"),
    "org.apache.kafka.coordinator.transaction": (
        "coordinators.txn",
        "coordinators.drivers.transaction_coordinator",
    ),
    "org.apache.kafka.image": ("metadata",),
    "org.apache.kafka.image.loader.MetadataLoader": ("metadata.metadata_loader",),
    "org.apache.kafka.raft": ("raft",),
    "org.apache.kafka.raft.KafkaRaftClient": ("raft.drivers.raft_client",),
    "org.apache.kafka.server.log.remote": ("remote_log", "tiered"),
    "org.apache.kafka.server.log.remote.storage.RemoteLogManager": ("remote_log",),
    "org.apache.kafka.storage.internals.log": ("log",),
    "org.apache.kafka.storage.internals.log.LogCleaner": ("log.compaction",),
    "org.apache.kafka.storage.internals.log.LogLoader": ("log.log_loader",),
    "org.apache.kafka.storage.internals.log.LogManager": ("log.log_manager",),
    "org.apache.kafka.storage.internals.log.UnifiedLog": ("log.unified_log",),
    "state.change.logger": ("replication.state_changes",),
}

KAFKA_LOGGERS: Final = {
    name: tuple(f"{OWN}.{place}" if place else OWN for place in places) for name, places in _IN_KAFKA.items()
}


def own_loggers(name: str) -> tuple[str, ...]:
    """The loggers that a name stands for: of Kafka's names those here, of any other itself."""
    return KAFKA_LOGGERS.get(name, (name,))
