"""RemoteLogSegmentMetadata: what `__remote_log_metadata` says of a segment in the remote store.

A copy is announced before its first object is written, and finished by one record after its last; a removal
likewise. So whatever a crash leaves in the store is named by a record, and whoever leads next removes it.

    COPY_STARTED ──> COPY_FINISHED ──> DELETE_STARTED ──> DELETE_FINISHED
         └──────────────────────────────────^

The record's field for custom metadata holds the note of a store (`remote_storage`), and marks of our own:

- a compacted topic's segment says how far compaction had been: "clean-to=OFFSET", and the note behind a ";".
  A note that begins like a mark is put behind an empty one;
- a removal says where the log starts from then on: "log-start=OFFSET@EPOCH";
- an announcement that is repeated says that the copy was "given-up".
"""

from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Final, NamedTuple

from headrace.base.ids import NO_EPOCH, TopicId, TopicPartition, uuid_text
from headrace.log.file_names import EPOCHS as EPOCHS
from headrace.log.file_names import INDEX, LOG, SNAPSHOT, TIME_INDEX, TXN_INDEX, offset_name

_TOPIC_CHARACTERS_MAX: Final = 200
"""A file system takes names of 255 bytes, and a topic's may have 249 before its id is added."""

_OFFSET_DIGITS: Final = 20

CLEAN_TO: Final = b"clean-to="
LOG_START: Final = b"log-start="
GIVEN_UP: Final = b"given-up"
"""With a repeated announcement: the copy can no longer be finished. Announcements have no note of a store."""
SEPARATOR: Final = b";"

OBJECT_SUFFIXES: Final = (LOG, INDEX, TIME_INDEX, TXN_INDEX, SNAPSHOT, EPOCHS)


class RemoteLogSegmentState(IntEnum):
    """Kafka's RemoteLogSegmentState."""

    COPY_STARTED = 0
    COPY_FINISHED = 1
    DELETE_STARTED = 2
    DELETE_FINISHED = 3


MOVES: Final = {
    RemoteLogSegmentState.COPY_STARTED: {
        RemoteLogSegmentState.COPY_FINISHED,
        RemoteLogSegmentState.DELETE_STARTED,
    },
    RemoteLogSegmentState.COPY_FINISHED: {RemoteLogSegmentState.DELETE_STARTED},
    RemoteLogSegmentState.DELETE_STARTED: {RemoteLogSegmentState.DELETE_FINISHED},
    RemoteLogSegmentState.DELETE_FINISHED: set(),
}


class TopicIdPartition(NamedTuple):
    """A partition that no later topic of the same name can be taken for."""

    topic_id: TopicId
    topic_partition: TopicPartition

    def __str__(self) -> str:
        return f"{uuid_text(self.topic_id)}:{self.topic_partition}"


@dataclass(frozen=True, slots=True)
class RemoteLogSegmentMetadata:
    """One copy of a segment. Its offsets are `start_offset` to `end_offset`, the last one included, as
    Kafka's records have it; `epochs` are (epoch, first offset) within these.
    """

    partition: TopicIdPartition
    segment_id: bytes
    start_offset: int
    end_offset: int
    max_timestamp: int
    size: int
    epochs: tuple[tuple[int, int], ...]
    state: RemoteLogSegmentState
    broker_id: int
    event_ms: int
    custom_metadata: bytes | None = None
    has_aborted: bool = True

    def __str__(self) -> str:
        return f"{self.partition} {self.start_offset}..{self.end_offset} ({uuid_text(self.segment_id)})"

    def epoch_at(self, offset: int) -> int:
        """The epoch that wrote this offset of the segment."""
        found = NO_EPOCH
        for epoch, start in self.epochs:
            if start > offset:
                break
            found = epoch
        return found

    @property
    def clean_to(self) -> int | None:
        """It holds nothing that a record before this offset supersedes: up to there compaction had been when
        it was copied. None where it has not been at it.
        """
        return parted(self.custom_metadata)[0]

    @property
    def is_cleaned(self) -> bool:
        """Whether compaction has been at it: then batches are missing, and its epochs may begin too late."""
        return self.custom_metadata is not None and self.clean_to is not None

    @property
    def note(self) -> bytes | None:
        """What the store keeps with it."""
        return parted(self.custom_metadata)[1]

    def moved_to(
        self, state: RemoteLogSegmentState, *, broker_id: int, event_ms: int
    ) -> "RemoteLogSegmentMetadata":
        return replace(self, state=state, broker_id=broker_id, event_ms=event_ms)

    def object_name(self, suffix: str) -> str:
        """TOPIC-TOPICID/PARTITION/STARTOFFSET-SEGMENTID.SUFFIX: a person finds a topic by its name, and the
        names of a partition's objects sort by offset.
        """
        return f"{self._stem()}{suffix}"

    def object_names(self) -> list[str]:
        """Every object that the segment may have; removing one that it has not does no harm."""
        stem = self._stem()
        return [f"{stem}{suffix}" for suffix in OBJECT_SUFFIXES]

    def _stem(self) -> str:
        return (
            f"{partition_prefix(self.partition)}{offset_name(self.start_offset)}-{uuid_text(self.segment_id)}"
        )


@dataclass(frozen=True, slots=True)
class RemoteLogSegmentMetadataUpdate:
    """A segment that is known moves on."""

    partition: TopicIdPartition
    segment_id: bytes
    state: RemoteLogSegmentState
    broker_id: int
    event_ms: int
    custom_metadata: bytes | None = None


def topic_prefix(topic: str, topic_id: TopicId) -> str:
    """How the names of all objects of a topic begin. A long name is cut, for it may become a folder's; the
    id tells topics apart.
    """
    return f"{topic[:_TOPIC_CHARACTERS_MAX]}-{uuid_text(topic_id)}/"


def partition_prefix(partition: TopicIdPartition) -> str:
    """How the names of all objects of a partition begin."""
    topic, number = partition.topic_partition
    return f"{topic_prefix(topic, partition.topic_id)}{number}/"


def segment_id_in(name: str) -> str:
    """The segment's id, as `uuid_text` has it, in the name of an object or of a cached index. It stands
    behind the offset's digits, and may itself begin with a dash.
    """
    return name.rpartition("/")[2][_OFFSET_DIGITS + 1 :].partition(".")[0]


# -- custom metadata -----------------------------------------------------------------------------------------


def joined(clean_to: int | None, note: bytes | None) -> bytes | None:
    """The field for a mark and a note."""
    if clean_to is None and (note is None or not note.startswith(CLEAN_TO)):
        return note
    mark = CLEAN_TO + (b"" if clean_to is None else b"%d" % clean_to)
    return mark if note is None else mark + SEPARATOR + note


def parted(field: bytes | None) -> tuple[int | None, bytes | None]:
    """The mark and the note of a field."""
    if field is None or not field.startswith(CLEAN_TO):
        return None, field
    digits, separator, note = field.removeprefix(CLEAN_TO).partition(SEPARATOR)
    if digits and not digits.isdigit():
        return None, field  # nobody but us writes marks
    return int(digits) if digits else None, note if separator else None


def start_mark(offset: int, epoch: int) -> bytes:
    """With the removal of a segment: where the log starts from then on, and which leader epoch wrote the last
    record before.
    """
    return LOG_START + b"%d@%d" % (offset, epoch)


def told_start(field: bytes) -> tuple[int, int] | None:
    """What such a mark tells; None where there is none."""
    offset, _, epoch = field.removeprefix(LOG_START).partition(b"@")
    if not field.startswith(LOG_START) or not offset.isdigit() or not epoch.isdigit():
        return None
    return int(offset), int(epoch)
