"""Places in a partition, for whoever names one without asking a cluster: importing this costs nothing."""

from enum import IntEnum


class Place(IntEnum):
    """A place in a partition, where ListOffsets takes a time."""

    LATEST = -1
    EARLIEST = -2
    MAX_TIMESTAMP = -3
    EARLIEST_LOCAL = -4
    """Where a tiered partition's local part starts; of others, where the log does."""
    LATEST_TIERED = -5
    """The last offset in the remote store; none where nothing is there."""
