"""How far the metadata log was committed, by this node's own word: `.headrace_committed` in the log's folder.

A log whose end was cut off at rest looks like one that a crash tore: what is gone would be taken for records
that nobody was told of, and topics with it. The mark tells them apart. It is written within a second after
the log has moved, and at a stop. Apache Kafka does not know it: what it commits in this folder comes behind.
"""

import logging
from typing import Final

from headrace.base.errors import InvalidBytesError
from headrace.log.checkpoints import seal, unseal
from headrace.log.disk import Disk
from headrace.raft.metadata_log import MetadataLog
from headrace.raft.quorum_state import FILE_NAME
from headrace.raft.voters import VoterSet

logger = logging.getLogger(__name__)

COMMITTED: Final = ".headrace_committed"


def write_committed(disk: Disk, folder: str, offset: int) -> None:
    """Blocks for a sync."""
    disk.replace_file(f"{folder}/{COMMITTED}", seal(b"%d" % offset))


def read_committed(disk: Disk, folder: str) -> int:
    """0 where nothing is known."""
    path = f"{folder}/{COMMITTED}"
    try:
        return int(unseal(disk.read_file(path)))
    except FileNotFoundError:
        return 0
    except ValueError as error:  # InvalidBytesError is one
        logger.warning("%s is damaged (%s): a metadata log that was cut short is not found out", path, error)
        return 0


def check_folder(log: MetadataLog, voters: VoterSet, node_id: int) -> None:
    """InvalidBytesError where files are gone that no other controller has. With others they are fetched, but
    for the vote: who might vote twice in an epoch does not start."""
    has_others = bool(voters.by_id.keys() - {node_id})
    committed, end = read_committed(log.disk, log.folder), log.log.log_end_offset
    if end < committed and not has_others:
        raise InvalidBytesError(
            f"{log.folder} is damaged: its log ends at offset {end}, and had committed records up to "
            f"{committed}. Topics and settings are gone with them. Bring back its files from a copy; to go "
            f"on without these records, remove {COMMITTED} there"
        )
    if end < committed:
        logger.warning(
            "%s ends at offset %d, and had committed records up to %d: they are fetched from the other "
            "controllers",
            log.folder,
            end,
            committed,
        )
    if not committed or log.disk.exists(f"{log.folder}/{FILE_NAME}"):
        return
    if has_others and node_id in voters.by_id:
        raise InvalidBytesError(
            f"{log.folder}/{FILE_NAME} is missing, though the log has records. It said for whom this node "
            "has voted. Bring it back from a copy; without one, format this node anew and let it join the "
            "others"
        )
    logger.warning(
        "%s/%s is missing, though the log has records: this node votes with no other, and goes on in the "
        "log's last epoch",
        log.folder,
        FILE_NAME,
    )
