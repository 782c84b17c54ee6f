"""The requests there are: key, name, versions, and on which listeners they are served.

The table is plain numbers, so that answering ApiVersions or checking a header imports no schema. An Api's
message classes are imported when first asked for: a node uses a third of them, and pays for no more.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from typing import Any, Final

_BROKER: Final = frozenset({"broker"})
_CONTROLLER: Final = frozenset({"controller"})
_EVERYWHERE: Final = _BROKER | _CONTROLLER

# librdkafka up to 2.x takes a broker that does not list Produce 0-2 for one without Produce (KAFKA-18659).
_ADVERTISED_MIN: Final = {0: 0}
# The last version is not settled in Kafka 4.3, which advertises it only when told to: two-phase commit
# (KIP-939).
_ADVERTISED_MAX: Final = {22: 5}


@dataclass(frozen=True)
class Api:
    """A kind of request, and the response to it."""

    key: int
    name: str
    min_version: int
    max_version: int
    flexible_from: int | None  # compact lengths, tagged fields and the longer headers from this version on
    listeners: frozenset[str]

    @cached_property
    def request(self) -> type[Any]:
        return self._schema("Request")

    @cached_property
    def response(self) -> type[Any]:
        return self._schema("Response")

    @property
    def advertised_min(self) -> int:
        """The lowest version that ApiVersions tells of; below `min_version` nothing is parsed."""
        return _ADVERTISED_MIN.get(self.key, self.min_version)

    @property
    def advertised_max(self) -> int:
        """The highest version that ApiVersions tells of."""
        return _ADVERTISED_MAX.get(self.key, self.max_version)

    def supports(self, version: int) -> bool:
        return self.min_version <= version <= self.max_version

    def is_flexible(self, version: int) -> bool:
        return self.flexible_from is not None and version >= self.flexible_from

    def request_header_version(self, version: int) -> int:
        return 2 if self.is_flexible(version) else 1

    def response_header_version(self, version: int) -> int:
        """ApiVersions is answered before the client can know what we speak: its header never changes."""
        return 1 if self.is_flexible(version) and self.key != API_VERSIONS else 0

    def _schema(self, suffix: str) -> type[Any]:
        stem = re.sub(r"(?<=[a-z])([A-Z])", r"_\1", self.name).lower()
        found: type[Any] = getattr(import_module(f"headrace.wire.schemas.{stem}"), self.name + suffix)
        return found


API_VERSIONS: Final = 18

_TABLE: Final = (
    (0, "Produce", 3, 13, 9, _BROKER),
    (1, "Fetch", 4, 18, 12, _EVERYWHERE),
    (2, "ListOffsets", 1, 11, 6, _BROKER),
    (3, "Metadata", 0, 13, 9, _BROKER),
    (8, "OffsetCommit", 2, 10, 8, _BROKER),
    (9, "OffsetFetch", 1, 10, 6, _BROKER),
    (10, "FindCoordinator", 0, 6, 3, _BROKER),
    (11, "JoinGroup", 0, 9, 6, _BROKER),
    (12, "Heartbeat", 0, 4, 4, _BROKER),
    (13, "LeaveGroup", 0, 5, 4, _BROKER),
    (14, "SyncGroup", 0, 5, 4, _BROKER),
    (15, "DescribeGroups", 0, 6, 5, _BROKER),
    (16, "ListGroups", 0, 5, 3, _BROKER),
    (17, "SaslHandshake", 0, 1, None, _EVERYWHERE),
    (18, "ApiVersions", 0, 4, 3, _EVERYWHERE),
    (19, "CreateTopics", 2, 7, 5, _EVERYWHERE),
    (20, "DeleteTopics", 1, 6, 4, _EVERYWHERE),
    (21, "DeleteRecords", 0, 2, 2, _BROKER),
    (22, "InitProducerId", 0, 6, 2, _BROKER),
    (23, "OffsetForLeaderEpoch", 2, 4, 4, _BROKER),
    (24, "AddPartitionsToTxn", 0, 5, 3, _BROKER),
    (25, "AddOffsetsToTxn", 0, 4, 3, _BROKER),
    (26, "EndTxn", 0, 5, 3, _BROKER),
    (27, "WriteTxnMarkers", 1, 2, 1, _BROKER),
    (28, "TxnOffsetCommit", 0, 5, 3, _BROKER),
    (29, "DescribeAcls", 1, 3, 2, _EVERYWHERE),
    (30, "CreateAcls", 1, 3, 2, _EVERYWHERE),
    (31, "DeleteAcls", 1, 3, 2, _EVERYWHERE),
    (32, "DescribeConfigs", 1, 4, 4, _EVERYWHERE),
    (33, "AlterConfigs", 0, 2, 2, _EVERYWHERE),
    (34, "AlterReplicaLogDirs", 1, 2, 2, _BROKER),
    (35, "DescribeLogDirs", 1, 5, 2, _BROKER),
    (36, "SaslAuthenticate", 0, 2, 2, _EVERYWHERE),
    (37, "CreatePartitions", 0, 3, 2, _EVERYWHERE),
    (38, "CreateDelegationToken", 1, 3, 2, _EVERYWHERE),
    (39, "RenewDelegationToken", 1, 2, 2, _EVERYWHERE),
    (40, "ExpireDelegationToken", 1, 2, 2, _EVERYWHERE),
    (41, "DescribeDelegationToken", 1, 3, 2, _EVERYWHERE),
    (42, "DeleteGroups", 0, 2, 2, _BROKER),
    (43, "ElectLeaders", 0, 2, 2, _EVERYWHERE),
    (44, "IncrementalAlterConfigs", 0, 1, 1, _EVERYWHERE),
    (45, "AlterPartitionReassignments", 0, 1, 0, _EVERYWHERE),
    (46, "ListPartitionReassignments", 0, 0, 0, _EVERYWHERE),
    (47, "OffsetDelete", 0, 0, None, _BROKER),
    (48, "DescribeClientQuotas", 0, 1, 1, _BROKER),
    (49, "AlterClientQuotas", 0, 1, 1, _EVERYWHERE),
    (50, "DescribeUserScramCredentials", 0, 0, 0, _EVERYWHERE),
    (51, "AlterUserScramCredentials", 0, 0, 0, _EVERYWHERE),
    (52, "Vote", 0, 2, 0, _CONTROLLER),
    (53, "BeginQuorumEpoch", 0, 1, 1, _CONTROLLER),
    (54, "EndQuorumEpoch", 0, 1, 1, _CONTROLLER),
    (55, "DescribeQuorum", 0, 2, 0, _EVERYWHERE),
    (56, "AlterPartition", 2, 3, 0, _CONTROLLER),
    (57, "UpdateFeatures", 0, 2, 0, _EVERYWHERE),
    (58, "Envelope", 0, 0, 0, _CONTROLLER),
    (59, "FetchSnapshot", 0, 1, 0, _CONTROLLER),
    (60, "DescribeCluster", 0, 2, 0, _EVERYWHERE),
    (61, "DescribeProducers", 0, 0, 0, _BROKER),
    (62, "BrokerRegistration", 0, 4, 0, _CONTROLLER),
    (63, "BrokerHeartbeat", 0, 2, 0, _CONTROLLER),
    (64, "UnregisterBroker", 0, 0, 0, _EVERYWHERE),
    (65, "DescribeTransactions", 0, 0, 0, _BROKER),
    (66, "ListTransactions", 0, 2, 0, _BROKER),
    (67, "AllocateProducerIds", 0, 0, 0, _CONTROLLER),
    (68, "ConsumerGroupHeartbeat", 0, 1, 0, _BROKER),
    (69, "ConsumerGroupDescribe", 0, 1, 0, _BROKER),
    (70, "ControllerRegistration", 0, 0, 0, _CONTROLLER),
    (71, "GetTelemetrySubscriptions", 0, 0, 0, _BROKER),
    (72, "PushTelemetry", 0, 0, 0, _BROKER),
    (73, "AssignReplicasToDirs", 0, 0, 0, _CONTROLLER),
    (74, "ListConfigResources", 0, 1, 0, _BROKER),
    (75, "DescribeTopicPartitions", 0, 0, 0, _BROKER),
    (76, "ShareGroupHeartbeat", 1, 1, 0, _BROKER),
    (77, "ShareGroupDescribe", 1, 1, 0, _BROKER),
    (78, "ShareFetch", 1, 2, 0, _BROKER),
    (79, "ShareAcknowledge", 1, 2, 0, _BROKER),
    (80, "AddRaftVoter", 0, 1, 0, _EVERYWHERE),
    (81, "RemoveRaftVoter", 0, 0, 0, _EVERYWHERE),
    (82, "UpdateRaftVoter", 0, 0, 0, _CONTROLLER),
    (83, "InitializeShareGroupState", 0, 0, 0, _BROKER),
    (84, "ReadShareGroupState", 0, 0, 0, _BROKER),
    (85, "WriteShareGroupState", 0, 1, 0, _BROKER),
    (86, "DeleteShareGroupState", 0, 0, 0, _BROKER),
    (87, "ReadShareGroupStateSummary", 0, 1, 0, _BROKER),
    (88, "StreamsGroupHeartbeat", 0, 0, 0, _BROKER),
    (89, "StreamsGroupDescribe", 0, 0, 0, _BROKER),
    (90, "DescribeShareGroupOffsets", 0, 1, 0, _BROKER),
    (91, "AlterShareGroupOffsets", 0, 0, 0, _BROKER),
    (92, "DeleteShareGroupOffsets", 0, 0, 0, _BROKER),
)

API: Final[dict[int, Api]] = {row[0]: Api(*row) for row in _TABLE}
API_BY_NAME: Final[dict[str, Api]] = {api.name: api for api in API.values()}
