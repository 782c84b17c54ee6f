"""The table of requests agrees with Kafka 4.3 and with the schemas."""

import re
import subprocess
import sys

import pytest

from headrace.wire.apis import API, API_BY_NAME, Api, ApiKey
from headrace.wire.notation import schema_of

# Key, name, versions; (c) is served by controllers only.
FACTS = """
0 Produce 3-13 · 1 Fetch 4-18 · 2 ListOffsets 1-11 · 3 Metadata 0-13 · 8 OffsetCommit 2-10 ·
9 OffsetFetch 1-10 ·
10 FindCoordinator 0-6 · 11 JoinGroup 0-9 · 12 Heartbeat 0-4 · 13 LeaveGroup 0-5 · 14 SyncGroup 0-5 ·
15 DescribeGroups 0-6 · 16 ListGroups 0-5 · 17 SaslHandshake 0-1 · 18 ApiVersions 0-5 · 19 CreateTopics 2-7 ·
20 DeleteTopics 1-6 · 21 DeleteRecords 0-2 · 22 InitProducerId 0-6 · 23 OffsetForLeaderEpoch 2-4 ·
24 AddPartitionsToTxn 0-5 · 25 AddOffsetsToTxn 0-4 · 26 EndTxn 0-5 · 27 WriteTxnMarkers 1-2 ·
28 TxnOffsetCommit 0-6 · 29 DescribeAcls 1-3 · 30 CreateAcls 1-3 · 31 DeleteAcls 1-3 ·
32 DescribeConfigs 1-4 ·
33 AlterConfigs 0-2 · 34 AlterReplicaLogDirs 1-2 · 35 DescribeLogDirs 1-5 · 36 SaslAuthenticate 0-2 ·
37 CreatePartitions 0-3 · 38 CreateDelegationToken 1-3 · 39 RenewDelegationToken 1-2 ·
40 ExpireDelegationToken 1-2 · 41 DescribeDelegationToken 1-3 · 42 DeleteGroups 0-3 · 43 ElectLeaders 0-2 ·
44 IncrementalAlterConfigs 0-1 · 45 AlterPartitionReassignments 0-1 · 46 ListPartitionReassignments 0 ·
47 OffsetDelete 0 · 48 DescribeClientQuotas 0-1 · 49 AlterClientQuotas 0-1 ·
50 DescribeUserScramCredentials 0 ·
51 AlterUserScramCredentials 0 · 52 Vote 0-2 (c) · 53 BeginQuorumEpoch 0-1 (c) · 54 EndQuorumEpoch 0-1 (c) ·
55 DescribeQuorum 0-2 · 56 AlterPartition 2-3 (c) · 57 UpdateFeatures 0-2 · 58 Envelope 0 (c) ·
59 FetchSnapshot 0-1 (c) · 60 DescribeCluster 0-2 · 61 DescribeProducers 0 · 62 BrokerRegistration 0-4 (c) ·
63 BrokerHeartbeat 0-2 (c) · 64 UnregisterBroker 0 · 65 DescribeTransactions 0 · 66 ListTransactions 0-2 ·
67 AllocateProducerIds 0 (c) · 68 ConsumerGroupHeartbeat 0-1 · 69 ConsumerGroupDescribe 0-1 ·
70 ControllerRegistration 0 (c) · 71 GetTelemetrySubscriptions 0 · 72 PushTelemetry 0 ·
73 AssignReplicasToDirs 0 (c) · 74 ListConfigResources 0-1 · 75 DescribeTopicPartitions 0 ·
76 ShareGroupHeartbeat 1 · 77 ShareGroupDescribe 1 · 78 ShareFetch 1-2 · 79 ShareAcknowledge 1-2 ·
80 AddRaftVoter 0-1 · 81 RemoveRaftVoter 0 · 82 UpdateRaftVoter 0 (c) · 83 InitializeShareGroupState 0 ·
84 ReadShareGroupState 0 · 85 WriteShareGroupState 0-1 · 86 DeleteShareGroupState 0 ·
87 ReadShareGroupStateSummary 0-1 · 88 StreamsGroupHeartbeat 0 · 89 StreamsGroupDescribe 0 ·
90 DescribeShareGroupOffsets 0-1 · 91 AlterShareGroupOffsets 0 · 92 DeleteShareGroupOffsets 0
"""


def test_the_table_is_that_of_kafka() -> None:
    facts = {}
    for entry in FACTS.replace("\n", " ").split("·"):
        found = re.fullmatch(r"\s*(\d+) (\w+) (\d+)(?:-(\d+))?( \(c\))?\s*", entry)
        assert found is not None, entry
        key, name, first, last, is_controllers = found.groups()
        facts[int(key)] = (name, int(first), int(last or first), bool(is_controllers))
    ours = {
        api.key: (api.name, api.min_version, api.max_version, api.listeners == {"controller"})
        for api in API.values()
    }
    assert ours == facts


@pytest.mark.parametrize("api", API.values(), ids=lambda api: api.name)
def test_the_table_agrees_with_the_schemas(api: Api) -> None:
    for cls, suffix in ((api.request, "Request"), (api.response, "Response")):
        schema = schema_of(cls)
        assert cls.__name__ == api.name + suffix
        assert schema.api_key == api.key
        assert schema.versions == range(api.min_version, api.max_version + 1)
        assert schema.flexible_from == api.flexible_from


def test_what_is_advertised() -> None:
    assert API[0].advertised_min == 0  # KAFKA-18659
    assert API[22].advertised_max == 5  # KIP-939 is not settled
    others = [api for api in API.values() if api.key not in (0, 22)]
    assert all(
        (api.advertised_min, api.advertised_max) == (api.min_version, api.max_version) for api in others
    )
    assert API_BY_NAME["Fetch"] is API[1]


def test_header_versions() -> None:
    assert [API[12].request_header_version(version) for version in (3, 4)] == [1, 2]
    assert [API[12].response_header_version(version) for version in (3, 4)] == [0, 1]
    assert API[ApiKey.API_VERSIONS].request_header_version(4) == 2
    assert API[ApiKey.API_VERSIONS].response_header_version(4) == 0
    assert API[47].request_header_version(0) == 1  # never became flexible


def test_the_table_imports_no_schema() -> None:
    script = (
        "import sys, headrace.wire.framing, headrace.wire.record_frames\n"
        "loaded = [name for name in sys.modules if name.startswith('headrace.wire.schemas.')]\n"
        "assert loaded == [], loaded"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)
