"""What depends on a cluster's transaction.version (KIP-890)."""

from typing import Final

from headrace.transport.versions import VersionTable

PRODUCE_EXPLICIT: Final = 11
"""The last version of Produce that takes no partition into a transaction by itself."""
END_EXPLICIT: Final = 4
"""The last version of EndTxn that leaves the producer's epoch as it is."""
OFFSETS_EXPLICIT: Final = 4
"""The last version of TxnOffsetCommit that needs an AddOffsetsToTxn before it."""
CONCURRENT_PAUSE_MS: Final = 20
"""The markers of the transaction before are still being written: that is over in a moment."""
_IMPLICIT_LEVEL: Final = 2


def is_implicit(versions: VersionTable) -> bool:
    """Whether partitions and groups join a transaction with their first write, and each has its own epoch."""
    return versions.features.get("transaction.version", 0) >= _IMPLICIT_LEVEL
