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

DEAD_LETTERS_FROM: Final = 2
"""The level of share.version that writes records nobody could process to another topic (KIP-1191)."""

SUPPORTED: Final[dict[str, VersionRange]] = {
    METADATA_VERSION: VersionRange(7, 32),
    KRAFT_VERSION: VersionRange(0, 1),
    TRANSACTION_VERSION: VersionRange(0, 2),
    GROUP_VERSION: VersionRange(0, 1),
    SHARE_VERSION: VersionRange(0, 2),
    STREAMS_VERSION: VersionRange(0, 1),
    ELR_VERSION: VersionRange(0, 1),
}
"""What this release can run: the ranges of Apache Kafka 4.3, and of 4.4 dead letters and ranges of hosts."""

BOOTSTRAP_LEVELS: Final[dict[str, int]] = {
    METADATA_VERSION: 30,
    ELR_VERSION: 1,
    GROUP_VERSION: 1,
    SHARE_VERSION: 1,
    STREAMS_VERSION: 1,
    TRANSACTION_VERSION: 2,
}
"""The levels a new cluster starts with, in the order Kafka 4.3's format tool writes them."""

METADATA_VERSION_NAMES: Final[dict[int, str]] = dict(
    enumerate(
        (
            "3.3-IV3",
            "3.4-IV0",
            "3.5-IV0",
            "3.5-IV1",
            "3.5-IV2",
            "3.6-IV0",
            "3.6-IV1",
            "3.6-IV2",
            "3.7-IV0",
            "3.7-IV1",
            "3.7-IV2",
            "3.7-IV3",
            "3.7-IV4",
            "3.8-IV0",
            "3.9-IV0",
            "4.0-IV0",
            "4.0-IV1",
            "4.0-IV2",
            "4.0-IV3",
            "4.1-IV0",
            "4.1-IV1",
            "4.2-IV0",
            "4.2-IV1",
            "4.3-IV0",
            "4.4-IV0",
            "4.4-IV1",
        ),
        start=7,
    )
)

NEW_RECORDS_FROM: Final = frozenset({8, 11, 13, 14, 15, 17, 23, 30, 32})
"""Levels of metadata.version that brought records, or fields or meanings of them, that lower ones lack."""

NEEDS_METADATA_VERSION: Final[dict[tuple[str, int], int]] = {
    (ELR_VERSION, 1): 23,
    (SHARE_VERSION, DEAD_LETTERS_FROM): 31,
}
"""The level of metadata.version that a level of another feature builds on."""

CORDONS_FROM: Final = 30
"""4.3-IV0: directories can be cordoned off (KIP-1066)."""
