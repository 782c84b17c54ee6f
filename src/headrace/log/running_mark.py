"""The mark of a process that runs: `.headrace_running`, with its broker epoch and the system's boot id.

A process that was killed loses nothing that it had written: the system's page cache has it. Only when the
system itself went down may something be missing, and then it has another boot id. So a broker that finds
the mark of its predecessor with the boot id of today, and cut nothing from its logs when it opened them, or
only the beginning of a batch that it was killed over, can prove by the predecessor's epoch that all is there,
as after a clean stop (KIP-966): nobody was told that it has such a batch. Otherwise three brokers
that were killed one after the other would have to be taken for three that lost data, and whoever led last,
even one whose power was cut, would be as good as any.

A folder whose disk failed loses its mark: what a failed sync left in the page cache may go at any time. One
whose disk is full keeps it: a write that found no room has taken nothing away.
"""

import contextlib
import json
from typing import Final

from headrace.log.checkpoints import NO_BROKER_EPOCH
from headrace.log.disk import Disk

RUNNING: Final = ".headrace_running"


def mark(disk: Disk, folder: str, broker_epoch: int) -> None:
    """Leave the mark in a log directory. Blocks for a sync; OSError where the disk fails."""
    boot_id = disk.boot_id()
    if boot_id:
        data = json.dumps({"version": 0, "brokerEpoch": broker_epoch, "bootId": boot_id}).encode()
        disk.replace_file(f"{folder}/{RUNNING}", data)


def surviving_epoch(disk: Disk, folder: str) -> int:
    """The epoch of a process since whose start the system has not been down; -1 where nothing proves it."""
    try:
        found = json.loads(disk.read_file(f"{folder}/{RUNNING}"))
        epoch, boot_id = found["brokerEpoch"], found["bootId"]
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return NO_BROKER_EPOCH
    return epoch if isinstance(epoch, int) and boot_id and boot_id == disk.boot_id() else NO_BROKER_EPOCH


def is_marked(disk: Disk, folder: str) -> bool:
    """Whether a process has run here that did not stop in order, and whose disk did not fail."""
    return disk.exists(f"{folder}/{RUNNING}")


def unmark(disk: Disk, folder: str) -> None:
    """Nothing is proven any more; a disk that cannot even remove a file is left as it is."""
    with contextlib.suppress(OSError):
        disk.remove(f"{folder}/{RUNNING}")
