"""Ids of directories that are not directories (KIP-858): what a replica is said to be in when nobody knows
better.
"""

from typing import Final

MIGRATING: Final = bytes(16)
"""The broker's registration is from before directories had ids."""

UNASSIGNED: Final = bytes(15) + b"\x01"
"""The broker has several directories and will say which one it chose."""

LOST: Final = bytes(15) + b"\x02"
"""The directory is gone, and with it the replica."""


def is_reserved(directory_id: bytes) -> bool:
    """Whether the id is in the range that no real directory may have: the first hundred."""
    return directory_id[:8] == bytes(8) and int.from_bytes(directory_id[8:], "big", signed=True) < 100


def is_online(directory_id: bytes, online: tuple[bytes, ...]) -> bool:
    """Whether a replica in that directory can be served by a broker that reports these directories."""
    if directory_id in (UNASSIGNED, MIGRATING):
        return True
    # A broker that reports no directories at all is from before they had ids.
    return directory_id != LOST and (not online or directory_id in online)
