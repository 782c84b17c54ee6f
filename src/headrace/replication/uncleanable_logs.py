"""The logs of a node that compaction gave up until the next start, and the files that say so.

Each log directory has a file of its own (`log.uncleanable`). It is written by a thread when the directory's
logs change, and goes when the node starts and when none of them is left: a topic that was deleted is not
mentioned any more.
"""

import asyncio
import logging
from collections.abc import Set as AbstractSet

from headrace.base.ids import TopicPartition
from headrace.log.log_folder import LogFolder
from headrace.log.log_store import LogStore
from headrace.log.partition_log import PartitionLog
from headrace.log.uncleanable import ADVICE, UNCLEANABLE, GivenUp, encode_uncleanable

logger = logging.getLogger(__name__)


class UncleanableLogs:
    """Which, and why."""

    def __init__(self, loop: asyncio.AbstractEventLoop, store: LogStore) -> None:
        self._loop = loop
        self._store = store
        self._logs: dict[PartitionLog, GivenUp] = {}
        self._told: dict[str, bytes] = {}
        self._telling = False

    def start(self) -> None:
        """What the last process said is not known to be true any more."""
        for folder in self._store.online_folders():
            try:
                folder.disk.remove(f"{folder.path}/{UNCLEANABLE}")
            except OSError as error:
                self._store.fail_folder(folder, error)

    @property
    def logs(self) -> AbstractSet[PartitionLog]:
        return self._logs.keys()

    @property
    def reasons(self) -> dict[TopicPartition, str]:
        """Of those that are still there."""
        return {partition: given_up.why for partition, given_up in self._present().items()}

    def add(self, log: PartitionLog, why: str) -> None:
        """Leave a log alone from now on, and say so, once."""
        self._logs[log] = GivenUp(self._store.clock.now_ms(), why)
        logger.error("%s cannot be compacted: %s. %s", log.topic_partition, why, ADVICE)

    def forget_gone(self) -> bool:
        """Forget logs that were deleted, moved or are offline; whether there were any."""
        gone = [log for log in self._logs if log.failure is not None]
        for log in gone:
            del self._logs[log]
        return bool(gone)

    def _present(self) -> dict[TopicPartition, GivenUp]:
        known = ((log.topic_partition, log, given_up) for log, given_up in self._logs.items())
        return {
            partition: given_up for partition, log, given_up in known if self._store.get(partition) is log
        }

    # -- the files -------------------------------------------------------------------------------------------

    async def tell(self) -> None:
        """Have the files say what is known now."""
        if self._telling or not (self._logs or self._told):
            return
        self._telling = True
        try:
            while changed := self._changed():  # also by what came while a file was written
                for folder, data in changed:
                    self._told[folder.path] = data
                    await self._loop.run_in_executor(None, _write, folder, data)
                    if not data:
                        self._told.pop(folder.path, None)
        finally:
            self._telling = False

    def _changed(self) -> list[tuple[LogFolder, bytes]]:
        present, found = self._present(), []
        for folder in self._store.online_folders():
            here = {
                partition: given_up
                for partition, given_up in present.items()
                if self._store.folder_of(partition) is folder
            }
            data = encode_uncleanable(here) if here else b""
            if data != self._told.get(folder.path, b""):
                found.append((folder, data))
        return found


def _write(folder: LogFolder, data: bytes) -> None:
    path = f"{folder.path}/{UNCLEANABLE}"
    try:
        if data:
            folder.disk.replace_file(path, data)
        else:
            folder.disk.remove(path)
    except OSError as error:
        # It is only a message: a disk that fails is noticed by whoever needs it.
        logger.warning("%s could not be written: %s", path, error)
