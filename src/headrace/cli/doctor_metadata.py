"""What `headrace doctor` finds of the metadata log: its snapshots, its batches, how far it was committed by
this node's word (`.headrace_committed`), and the vote.

A node that starts settles the same (`raft.damage`, `raft.committed_mark`); here nothing is changed. One that
runs writes and removes files meanwhile.
"""

from collections.abc import Generator, Iterator
from contextlib import suppress
from typing import Final

from headrace.base.errors import InvalidBytesError
from headrace.cli.doctor_findings import Finding
from headrace.log.batch_scan import OldFormatError, scan_headers
from headrace.log.checkpoints import unseal
from headrace.log.disk import Disk
from headrace.log.file_names import LOG, parse_segment_file
from headrace.raft.committed_mark import COMMITTED
from headrace.raft.damage import WITHOUT_IT, find_damage
from headrace.raft.quorum_state import FILE_NAME as QUORUM_STATE
from headrace.raft.snapshots import SnapshotId, whole_snapshots

LOOKS: Final = 5


def metadata_findings(disk: Disk, folder: str) -> list[Finding]:
    """Of the folder `__cluster_metadata-0`."""
    for _ in range(LOOKS):
        with suppress(FileNotFoundError):  # a running node has removed it: what is left is looked at
            return list(_findings(disk, folder))
    return []


def _findings(disk: Disk, folder: str) -> Iterator[Finding]:
    committed = yield from _committed(disk, folder)  # before the log, which may grow
    damaged: list[tuple[SnapshotId, InvalidBytesError]] = []
    snapshots, _ = whole_snapshots(disk, folder, lambda *found: damaged.append(found))
    for snapshot, error in damaged:
        yield Finding(
            "warning",
            f"{folder}/{snapshot.file_name}",
            f"it is damaged: {error}",
            "nothing, if the node starts: it reads an older one and more of the log",
        )
    end = max((snapshot.end_offset for snapshot in snapshots), default=0)
    found = find_damage(disk, folder, snapshots)
    if found is not None and not found.is_replaced:
        end = max(end, found.offset)
    else:
        end = max(end, _end_of_last(disk, folder))
    if found is not None and found.is_replaced:
        advice = "restart the node: a snapshot has the same records, and this part of the log is dropped"
        yield Finding("warning", found.path, f"it {found}", advice)
    elif found is not None and not found.is_torn:
        yield Finding("error", found.path, f"it {found}", WITHOUT_IT)
        return
    if end < committed:
        yield Finding(
            "error",
            folder,
            f"the metadata log ends at offset {end}, and had committed records up to {committed}",
            "bring its files back from a copy; of several controllers, start this one: it fetches them",
        )
    if committed and not disk.exists(f"{folder}/{QUORUM_STATE}"):
        yield Finding(
            "error",
            f"{folder}/{QUORUM_STATE}",
            "it is missing: it said for whom this node has voted",
            "bring it back from a copy; a single controller starts without it, one of several must be "
            "formatted anew",
        )


def _committed(disk: Disk, folder: str) -> Generator[Finding, None, int]:
    """How far the log was committed; 0 where nothing is known."""
    path = f"{folder}/{COMMITTED}"
    try:
        return int(unseal(disk.read_file(path)))
    except FileNotFoundError:
        return 0
    except ValueError as error:  # InvalidBytesError is one
        yield Finding(
            "warning",
            path,
            f"it is damaged: {error}",
            "restart the node, which writes it anew. Until then nobody finds out if the metadata log was cut",
        )
        return 0


def _end_of_last(disk: Disk, folder: str) -> int:
    """As far as whole batches follow each other in the last segment."""
    segments = [
        (parsed.base_offset, f"{folder}/{name}")
        for name in disk.list(folder)
        if (parsed := parse_segment_file(name)) is not None and parsed.suffix == LOG and not parsed.state
    ]
    if not segments:
        return 0
    end, path = max(segments)
    file = disk.open(path, writable=False)
    try:
        for _, header in scan_headers(file, 0, disk.size(path)):
            end = max(end, header.next_offset)
    except (InvalidBytesError, OldFormatError):
        pass  # a torn end, or damage that is told by itself
    finally:
        file.close()
    return end
