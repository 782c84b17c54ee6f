"""What `headrace doctor` finds by the marks that a node leaves beside Kafka's files.

`.headrace_committed` says how far the metadata log had come, and tells a log that was cut at rest from one
that a crash tore. `.headrace_txnindexes` has the checksums of a log's transaction indexes, which have none of
their own. Folders that only Apache Kafka has written have neither.
"""

from collections.abc import Iterator

from crc32c import crc32c

from headrace.base.errors import InvalidBytesError
from headrace.cli.doctor_findings import Finding
from headrace.log.batch_scan import OldFormatError, scan_headers
from headrace.log.checkpoints import decode_aborted, unseal
from headrace.log.disk import Disk
from headrace.log.file_names import ABORTED_SEALS, LOG, TXN_INDEX, offset_name, parse_segment_file
from headrace.log.transaction_index import ENTRY_BYTES
from headrace.raft.committed_mark import COMMITTED
from headrace.raft.quorum_state import FILE_NAME as QUORUM_STATE
from headrace.raft.snapshots import list_snapshots


def committed_findings(disk: Disk, folder: str) -> Iterator[Finding]:
    """Of the metadata log: records that were committed, and are gone."""
    path = f"{folder}/{COMMITTED}"
    try:
        committed = int(unseal(disk.read_file(path)))
    except FileNotFoundError:
        return
    except ValueError as error:  # InvalidBytesError is one
        yield Finding(
            "warning",
            path,
            f"it is damaged: {error}",
            "restart the node, which writes it anew. Until then nobody finds out if the metadata log was cut",
        )
        return
    end = _metadata_end(disk, folder)
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


def _metadata_end(disk: Disk, folder: str) -> int:
    """As far as whole batches follow each other in the last segment, or as the last snapshot says."""
    end = max((snapshot.end_offset for snapshot in list_snapshots(disk, folder)), default=0)
    segments = [
        (parsed.base_offset, f"{folder}/{name}")
        for name in disk.list(folder)
        if (parsed := parse_segment_file(name)) is not None and parsed.suffix == LOG and not parsed.state
    ]
    if not segments:
        return end
    base_offset, path = max(segments)
    end = max(end, base_offset)
    file = disk.open(path, writable=False)
    try:
        for _, header in scan_headers(file, 0, disk.size(path)):
            end = max(end, header.next_offset)
    except (InvalidBytesError, OldFormatError):
        pass  # a torn end, or damage that is told by itself
    finally:
        file.close()
    return end


def txn_index_findings(disk: Disk, folder: str) -> Iterator[Finding]:
    """Of a log: transaction indexes that are not what was written."""
    path = f"{folder}/{ABORTED_SEALS}"
    try:
        seals = decode_aborted(disk.read_file(path))
    except FileNotFoundError:
        return
    except InvalidBytesError as error:
        yield Finding(
            "warning",
            path,
            f"it is damaged: {error}",
            "restart the node, which writes it anew, and takes transaction indexes as they are",
        )
        return
    for base_offset, (count, crc) in sorted(seals.items()):
        index = f"{folder}/{offset_name(base_offset)}{TXN_INDEX}"
        if not disk.exists(index.removesuffix(TXN_INDEX) + LOG):
            continue  # retention has dropped the segment
        try:
            head = disk.read_file(index)[: count * ENTRY_BYTES]
        except FileNotFoundError:
            head = b""
        if len(head) != count * ENTRY_BYTES or crc32c(head) != crc:
            yield Finding(
                "warning",
                index,
                f"its first {count} entries are not those that were written",
                "restart the node, which rebuilds it from the log: until then consumers with "
                "read_committed may get records of aborted transactions",
            )
