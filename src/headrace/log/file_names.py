"""How Kafka names what lies in a log directory.

A partition's folder is `TOPIC-PARTITION`; a segment's files are its base offset in 20 digits and a suffix.
Folders and files on their way out carry `-delete` and `.deleted`; compaction writes `.cleaned`, then `.swap`,
then the real name. A folder's unique part keeps apart two topics of one name, one deleted and one made since.
"""

import re
from typing import Final, NamedTuple

from headrace.base.ids import TopicPartition

LOG: Final = ".log"
INDEX: Final = ".index"
TIME_INDEX: Final = ".timeindex"
TXN_INDEX: Final = ".txnindex"
SNAPSHOT: Final = ".snapshot"
EPOCHS: Final = ".epochs"
"""Only in a remote store: the leader epochs up to a segment's end, as `leader-epoch-checkpoint` has them."""

SEGMENT_SUFFIXES: Final = (LOG, INDEX, TIME_INDEX, TXN_INDEX)

DELETED: Final = ".deleted"
CLEANED: Final = ".cleaned"
SWAP: Final = ".swap"

DELETE_FOLDER: Final = "-delete"
FUTURE_FOLDER: Final = "-future"
STRAY_FOLDER: Final = "-stray"

LEADER_EPOCHS: Final = "leader-epoch-checkpoint"
PARTITION_METADATA: Final = "partition.metadata"
ABORTED_SEALS: Final = ".headrace_txnindexes"
"""Which segments have a transaction index, with checksums: Kafka's has none, and nobody misses a lost one."""
CLEAN_SHUTDOWN: Final = ".kafka_cleanshutdown"
RECOVERY_POINTS: Final = "recovery-point-offset-checkpoint"
LOG_STARTS: Final = "log-start-offset-checkpoint"
HIGH_WATERMARKS: Final = "replication-offset-checkpoint"
CLEANER_OFFSETS: Final = "cleaner-offset-checkpoint"
META_PROPERTIES: Final = "meta.properties"
LOCK: Final = ".lock"

CLUSTER_METADATA: Final = TopicPartition("__cluster_metadata", 0)

_NAME_MAX: Final = 255  # of a file, on every file system that matters
_SEGMENT_FILE: Final = re.compile(r"(\d{20})(\.(?:log|index|timeindex|txnindex|snapshot))(\.\w+)?")
_PARTITION: Final = re.compile(r"(.+)-(\d+)", re.DOTALL)
_MARKED: Final = re.compile(r"(.+)-(\d+)\.[0-9a-f]+(-delete|-future|-stray)", re.DOTALL)


_OBJECT: Final = re.compile(r"(\d{20})-[A-Za-z0-9_-]{22}(\.(?:log|index|timeindex|txnindex|snapshot|epochs))")


class SegmentFile(NamedTuple):
    """A segment's file by its name; `state` is "" or .deleted, .cleaned, .swap."""

    base_offset: int
    suffix: str
    state: str


class PartitionFolder(NamedTuple):
    """A partition's folder by its name; `state` is "" or -delete, -future, -stray."""

    topic_partition: TopicPartition
    state: str


def offset_name(offset: int) -> str:
    """The 20 digits that name a segment's or snapshot's files."""
    return f"{offset:020}"


def parse_segment_file(name: str) -> SegmentFile | None:
    """None for what is not a segment's or snapshot's file."""
    match = _SEGMENT_FILE.fullmatch(name)
    return SegmentFile(int(match[1]), match[2], match[3] or "") if match else None


def parse_segment_object(name: str) -> SegmentFile | None:
    """A segment's object in a remote store, which has the copy's id behind the offset; None for others."""
    match = _OBJECT.fullmatch(name)
    return SegmentFile(int(match[1]), match[2], "") if match else None


def parse_partition_folder(name: str) -> PartitionFolder | None:
    """None for what is not a partition's folder."""
    match = _MARKED.fullmatch(name)
    if match:
        return PartitionFolder(TopicPartition(match[1], int(match[2])), match[3])
    match = _PARTITION.fullmatch(name)
    return PartitionFolder(TopicPartition(match[1], int(match[2])), "") if match else None


def marked_folder(topic_partition: TopicPartition, unique: str, state: str) -> str:
    """The name of a folder on its way out; a long topic name is cut so that the whole stays a legal name."""
    ending = f".{unique}{state}"
    return str(topic_partition)[: _NAME_MAX - len(ending)] + ending
