"""What a new directory gets before a node first runs in it, as Kafka's `kafka-storage format --standalone`
does it.

`bootstrap.checkpoint` holds the records that the first controller writes into the empty log. With
kraft.version 1 the voters are data, so a first snapshot, which stands for no record at all, holds them.
Both are written before `meta.properties`, whose presence says that formatting came to its end; until then
it can be done again.
"""

from collections.abc import Sequence
from typing import Final

from headrace.log.disk import Disk
from headrace.log.file_names import CLUSTER_METADATA
from headrace.raft.durability import make_durable_folder
from headrace.raft.records import Entry
from headrace.raft.snapshots import Snapshot, SnapshotId, decode_snapshot, encode_snapshot
from headrace.raft.voters import VoterSet

BOOTSTRAP: Final = "bootstrap.checkpoint"
BEGINNING: Final = SnapshotId(0, 0)


def format_metadata(
    disk: Disk, directory: str, *, bootstrap: Sequence[Entry], voters: VoterSet | None, now_ms: int
) -> None:
    """Write the first files of the metadata directory. Without `voters` they come from
    controller.quorum.voters.
    """
    data = encode_snapshot(Snapshot(BEGINNING, timestamp_ms=0), bootstrap, now_ms=now_ms)
    make_durable_folder(disk, directory)
    disk.replace_file(f"{directory}/{BOOTSTRAP}", data)
    if voters is None:
        return
    folder = f"{directory}/{CLUSTER_METADATA}"
    make_durable_folder(disk, folder)
    first = Snapshot(BEGINNING, timestamp_ms=now_ms, kraft_version=1, voters=voters)
    disk.replace_file(f"{folder}/{BEGINNING.file_name}", encode_snapshot(first, (), now_ms=now_ms))


def read_bootstrap(disk: Disk, directory: str) -> Snapshot | None:
    """The records to start an empty log with; None where the directory says nothing about it."""
    path = f"{directory}/{BOOTSTRAP}"
    if not disk.exists(path):
        return None
    return decode_snapshot(BEGINNING, disk.read_file(path))
