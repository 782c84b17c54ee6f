"""Which version of a record may be written, given the levels of the features that the cluster has agreed on.

A record is read in any version we know. It is written in the version that the whole cluster is known to
read, and where Kafka picks the least version that can hold a record's content we pick the same, so that
equal decisions make equal logs.
"""

from typing import Final

from headrace.metadata.features import ELR_VERSION, METADATA_VERSION
from headrace.metadata.image import MetadataRecord
from headrace.wire.schemas.metadata_records import (
    BrokerRegistrationChangeRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
)

DIRECTORIES_FROM: Final = 17
"""3.7-IV2: replicas are assigned to directories (KIP-858)."""

CORDONS_FROM: Final = 30
"""4.3-IV0: directories can be cordoned off (KIP-1066)."""

ZK_FLAG_FROM: Final = 8
"""3.4-IV0: registrations carry the flag of brokers that migrated from ZooKeeper."""

OF_PARTITIONS: Final = frozenset({PartitionRecord, PartitionChangeRecord})
"""Records that come by the hundred thousand; their version depends on nothing but the levels."""


def record_version(record: MetadataRecord, features: dict[str, int]) -> int:
    """The version to write `record` in. Kinds of record that only ever had one version answer 0."""
    level = features.get(METADATA_VERSION, 0)
    if type(record) in OF_PARTITIONS:
        if features.get(ELR_VERSION, 0):
            return 2
        return 1 if level >= DIRECTORIES_FROM else 0
    if isinstance(record, RegisterBrokerRecord):
        if level >= CORDONS_FROM:
            return 4
        return 3 if level >= DIRECTORIES_FROM else 2 if level >= ZK_FLAG_FROM else 1
    if isinstance(record, BrokerRegistrationChangeRecord):
        if record.cordoned_log_dirs is not None:
            return 3
        return 2 if record.log_dirs else 1 if record.in_controlled_shutdown else 0
    return 0
