"""Features: what the cluster as a whole has agreed to use, level by level.

A level is raised only when every node can run it, and says which records and requests may be written from
then on. metadata.version has a name per level (4.3-IV0); the others are plain numbers. kraft.version is not
in this log's records: the quorum keeps it in control records of its own.
"""

from typing import Final

from headrace.metadata.brokers import VersionRange

METADATA_VERSION: Final = "metadata.version"
KRAFT_VERSION: Final = "kraft.version"
TRANSACTION_VERSION: Final = "transaction.version"
GROUP_VERSION: Final = "group.version"
SHARE_VERSION: Final = "share.version"
STREAMS_VERSION: Final = "streams.version"
ELR_VERSION: Final = "eligible.leader.replicas.version"

SUPPORTED: Final[dict[str, VersionRange]] = {
    METADATA_VERSION: VersionRange(7, 30),
    KRAFT_VERSION: VersionRange(0, 1),
    TRANSACTION_VERSION: VersionRange(0, 2),
    GROUP_VERSION: VersionRange(0, 1),
    SHARE_VERSION: VersionRange(0, 1),
    STREAMS_VERSION: VersionRange(0, 1),
    ELR_VERSION: VersionRange(0, 1),
}
"""What this release can run: the ranges Apache Kafka 4.3 registers with."""

BOOTSTRAP_LEVELS: Final[dict[str, int]] = {
    METADATA_VERSION: 30,
    ELR_VERSION: 1,
    GROUP_VERSION: 1,
    SHARE_VERSION: 1,
    STREAMS_VERSION: 1,
    TRANSACTION_VERSION: 2,
}
"""The levels a new cluster starts with, in the order Kafka 4.3's format tool writes them."""
