"""Offsets as a user gives and gets them. Importing this costs nothing: it knows no cluster."""

from collections.abc import Mapping
from enum import IntEnum
from typing import NamedTuple

from headrace.base.ids import NO_EPOCH, TopicPartition


class OffsetSpec(IntEnum):
    """A place in a partition, where ListOffsets takes a time.

    EARLIEST_LOCAL is where a tiered partition's local part starts; of others, where the log does.
    LATEST_TIERED is the last offset in the remote store; none where nothing is there.
    """

    LATEST = -1
    EARLIEST = -2
    MAX_TIMESTAMP = -3
    EARLIEST_LOCAL = -4
    LATEST_TIERED = -5


class OffsetAndMetadata(NamedTuple):
    """A committed offset: the next record to read, with the epoch of the one before and a note."""

    offset: int
    leader_epoch: int = NO_EPOCH
    metadata: str = ""


def with_metadata(
    offsets: Mapping[TopicPartition, OffsetAndMetadata | int],
) -> dict[TopicPartition, OffsetAndMetadata]:
    """Offsets as a user may give them."""
    return {
        TopicPartition(*each): OffsetAndMetadata(place) if isinstance(place, int) else place
        for each, place in offsets.items()
    }


class OffsetAndTimestamp(NamedTuple):
    """An offset with its record's time and leader epoch; -1 where there is none."""

    offset: int = -1
    timestamp_ms: int = -1
    epoch: int = NO_EPOCH
