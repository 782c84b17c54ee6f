"""Records of the metadata log: the only way in which the cluster's state changes.

The image replays them in order. On disk each is framed with its api key and version (`record_frames`). A
record's version is bound to the metadata.version of the cluster, so that older nodes never meet one they
can't read. Brokers, controllers and features come first, then topics and partitions, then access rules and
quotas.
"""

from __future__ import annotations

from dataclasses import field
from typing import Annotated

from headrace.wire.notation import (
    NO_UUID,
    Since,
    Tag,
    float64,
    int8,
    int16,
    int32,
    int64,
    message,
    struct,
    uint16,
    uuid,
)


@struct
class BrokerEndpoint:
    name: str = ""
    host: str = ""
    port: uint16 = 0
    security_protocol: int16 = 0


@struct
class BrokerFeature:
    name: str = ""
    min_supported_version: int16 = 0
    max_supported_version: int16 = 0


@message(api_key=0, versions=range(5), flexible_from=0)
class RegisterBrokerRecord:
    broker_id: int32 = 0
    is_migrating_zk_broker: Annotated[bool, Since(2)] = False
    incarnation_id: uuid = NO_UUID
    broker_epoch: int64 = 0
    end_points: list[BrokerEndpoint] = field(default_factory=list)
    features: list[BrokerFeature] = field(default_factory=list)
    rack: str | None = ""
    fenced: bool = True
    in_controlled_shutdown: Annotated[bool, Since(1)] = False
    log_dirs: Annotated[list[uuid], Since(3), Tag(0)] = field(default_factory=list)
    cordoned_log_dirs: Annotated[list[uuid] | None, Since(4), Tag(1)] = None


@message(api_key=1, versions=range(1), flexible_from=0)
class UnregisterBrokerRecord:
    broker_id: int32 = 0
    broker_epoch: int64 = 0


@message(api_key=7, versions=range(1), flexible_from=0)
class FenceBrokerRecord:
    id: int32 = 0
    epoch: int64 = 0


@message(api_key=8, versions=range(1), flexible_from=0)
class UnfenceBrokerRecord:
    id: int32 = 0
    epoch: int64 = 0


@message(api_key=17, versions=range(4), flexible_from=0)
class BrokerRegistrationChangeRecord:
    broker_id: int32 = 0
    broker_epoch: int64 = 0
    fenced: Annotated[int8, Tag(0)] = 0  # -1 unfence, 0 unchanged, 1 fence
    in_controlled_shutdown: Annotated[int8, Since(1), Tag(1)] = 0  # 0 unchanged, 1 yes
    log_dirs: Annotated[list[uuid], Since(2), Tag(2)] = field(default_factory=list)
    cordoned_log_dirs: Annotated[list[uuid] | None, Since(3), Tag(3)] = None


@struct
class ControllerEndpoint:
    name: str = ""
    host: str = ""
    port: uint16 = 0
    security_protocol: int16 = 0


@struct
class ControllerFeature:
    name: str = ""
    min_supported_version: int16 = 0
    max_supported_version: int16 = 0


@message(api_key=27, versions=range(1), flexible_from=0)
class RegisterControllerRecord:
    controller_id: int32 = 0
    incarnation_id: uuid = NO_UUID
    zk_migration_ready: bool = False
    end_points: list[ControllerEndpoint] = field(default_factory=list)
    features: list[ControllerFeature] = field(default_factory=list)


@message(api_key=12, versions=range(1), flexible_from=0)
class FeatureLevelRecord:
    name: str = ""
    feature_level: int16 = 0  # 0 removes the feature


@message(api_key=21, versions=range(1), flexible_from=0)
class ZkMigrationStateRecord:
    zk_migration_state: int8 = 0


@message(api_key=2, versions=range(1), flexible_from=0)
class TopicRecord:
    name: str = ""
    topic_id: uuid = NO_UUID


@message(api_key=9, versions=range(1), flexible_from=0)
class RemoveTopicRecord:
    topic_id: uuid = NO_UUID


@message(api_key=3, versions=range(3), flexible_from=0)
class PartitionRecord:
    partition_id: int32 = -1
    topic_id: uuid = NO_UUID
    replicas: list[int32] = field(default_factory=list)
    isr: list[int32] = field(default_factory=list)
    removing_replicas: list[int32] = field(default_factory=list)
    adding_replicas: list[int32] = field(default_factory=list)
    leader: int32 = -1
    # 1 while recovering from an unclean election (KIP-704)
    leader_recovery_state: Annotated[int8, Tag(0)] = 0
    leader_epoch: int32 = -1
    partition_epoch: int32 = -1
    # one per replica, in the same order (KIP-858)
    directories: Annotated[list[uuid], Since(1)] = field(default_factory=list)
    # out of the in-sync set, yet known to have all that is committed (KIP-966)
    eligible_leader_replicas: Annotated[list[int32] | None, Since(2), Tag(1)] = None
    # the last members when no eligible one is left
    last_known_elr: Annotated[list[int32] | None, Since(2), Tag(2)] = None


@message(api_key=5, versions=range(3), flexible_from=0)
class PartitionChangeRecord:
    partition_id: int32 = -1
    topic_id: uuid = NO_UUID
    isr: Annotated[list[int32] | None, Tag(0)] = None  # null unchanged
    leader: Annotated[int32, Tag(1)] = -2  # -2 unchanged, -1 none
    replicas: Annotated[list[int32] | None, Tag(2)] = None  # null unchanged
    removing_replicas: Annotated[list[int32] | None, Tag(3)] = None  # null unchanged
    adding_replicas: Annotated[list[int32] | None, Tag(4)] = None  # null unchanged
    leader_recovery_state: Annotated[int8, Tag(5)] = -1  # -1 unchanged
    directories: Annotated[list[uuid] | None, Since(1), Tag(8)] = None  # null unchanged
    eligible_leader_replicas: Annotated[list[int32] | None, Since(2), Tag(6)] = None  # null unchanged
    last_known_elr: Annotated[list[int32] | None, Since(2), Tag(7)] = None  # null unchanged


@message(api_key=28, versions=range(1), flexible_from=0)
class ClearElrRecord:
    topic_name: str = ""


@message(api_key=4, versions=range(1), flexible_from=0)
class ConfigRecord:
    resource_type: int8 = 0
    resource_name: str = ""
    name: str = ""
    # It may be a password. Null removes the setting.
    value: str | None = field(default="", repr=False)


@message(api_key=15, versions=range(1), flexible_from=0)
class ProducerIdsRecord:
    broker_id: int32 = 0
    broker_epoch: int64 = -1
    next_producer_id: int64 = 0  # the first one not handed out yet


@message(api_key=20, versions=range(1), flexible_from=0)
class NoOpRecord:
    pass


@message(api_key=23, versions=range(1), flexible_from=0)
class BeginTransactionRecord:
    name: Annotated[str | None, Tag(0)] = None


@message(api_key=24, versions=range(1), flexible_from=0)
class EndTransactionRecord:
    pass


@message(api_key=25, versions=range(1), flexible_from=0)
class AbortTransactionRecord:
    reason: Annotated[str | None, Tag(0)] = None


@message(api_key=18, versions=range(1), flexible_from=0)
class AccessControlEntryRecord:
    id: uuid = NO_UUID
    resource_type: int8 = 0
    resource_name: str = ""
    pattern_type: int8 = 0
    principal: str = ""
    host: str = ""
    operation: int8 = 0
    permission_type: int8 = 0


@message(api_key=19, versions=range(1), flexible_from=0)
class RemoveAccessControlEntryRecord:
    id: uuid = NO_UUID


@message(api_key=11, versions=range(1), flexible_from=0)
class UserScramCredentialRecord:
    name: str = ""
    mechanism: int8 = 0  # 1 SCRAM-SHA-256, 2 SCRAM-SHA-512
    salt: bytes = field(default=b"", repr=False)
    stored_key: bytes = field(default=b"", repr=False)
    server_key: bytes = field(default=b"", repr=False)
    iterations: int32 = 0


@message(api_key=22, versions=range(1), flexible_from=0)
class RemoveUserScramCredentialRecord:
    name: str = ""
    mechanism: int8 = 0


@message(api_key=10, versions=range(1), flexible_from=0)
class DelegationTokenRecord:
    owner: str = ""
    requester: str = ""
    renewers: list[str] = field(default_factory=list)
    issue_timestamp: int64 = 0
    max_timestamp: int64 = 0
    expiration_timestamp: int64 = 0
    token_id: str = ""


@message(api_key=26, versions=range(1), flexible_from=0)
class RemoveDelegationTokenRecord:
    token_id: str = ""


@struct
class EntityData:
    entity_type: str = ""
    entity_name: str | None = ""  # null is the default entity


@message(api_key=14, versions=range(1), flexible_from=0)
class ClientQuotaRecord:
    entity: list[EntityData] = field(default_factory=list)
    key: str = ""
    value: float64 = 0.0
    remove: bool = False  # forget the quota instead of setting it
