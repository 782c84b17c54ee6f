"""What `headrace doctor` finds of a log's transaction indexes.

They have no checksums of their own: `.headrace_txnindexes` has them. Folders that only Apache Kafka has
written have none.
"""

from collections.abc import Iterator

from crc32c import crc32c

from headrace.base.errors import InvalidBytesError
from headrace.cli.doctor_findings import Finding
from headrace.log.checkpoints import decode_aborted
from headrace.log.disk import Disk
from headrace.log.file_names import ABORTED_SEALS, LOG, TXN_INDEX, offset_name
from headrace.log.transaction_index import ENTRY_BYTES


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
