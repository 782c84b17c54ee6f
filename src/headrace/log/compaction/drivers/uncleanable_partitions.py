"""Partitions that compaction gave up until the next start, and the files that say so.

`.headrace_uncleanable` in a log directory says which, since when and why; `headrace log describe` shows it.
It is written by a thread when the directory's uncleanable partitions change, and removed when the node
starts, which tries all of them again, and when none of them is left. Kafka tells as much by its metrics
uncleanable-partitions-count and uncleanable-bytes, without the reason.
"""

import asyncio
import json
import logging
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Final, NamedTuple

from headrace.base.ids import TopicPartition
from headrace.log.disk import Disk
from headrace.log.log_directory import LogDirectory
from headrace.log.log_manager import LogManager
from headrace.log.unified_log import UnifiedLog

UNCLEANABLE: Final = ".headrace_uncleanable"
VERSION: Final = 0

ADVICE: Final = (
    "Nothing in it is removed any more, so it grows. Where another replica is sound, stop this node, remove "
    "the partition's folder and start it: its leader sends everything anew. Otherwise look at the damage by "
    "`headrace log dump FILE`, and delete the records up to behind it (kafka-delete-records.sh). "
    "The node tries again at its next start."
)


class UncleanablePartition(NamedTuple):
    """Why a log is not compacted any more."""

    since_ms: int
    why: str


def encode_uncleanable(logs: Mapping[TopicPartition, UncleanablePartition]) -> bytes:
    entries = [
        {"topic": topic, "partition": number, "sinceMs": given_up.since_ms, "why": given_up.why}
        for (topic, number), given_up in sorted(logs.items())
    ]
    return json.dumps({"version": VERSION, "logs": entries}, indent=1).encode()


def read_uncleanable(disk: Disk, folder: str) -> dict[TopicPartition, UncleanablePartition]:
    """What a log directory says; ValueError where the file is not one of ours."""
    try:
        data = disk.read_file(f"{folder}/{UNCLEANABLE}")
    except FileNotFoundError:
        return {}
    try:
        return {
            TopicPartition(each["topic"], each["partition"]): UncleanablePartition(
                each["sinceMs"], each["why"]
            )
            for each in json.loads(data)["logs"]
        }
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{folder}/{UNCLEANABLE} cannot be read: {error!r}") from None


logger = logging.getLogger(__name__)


class UncleanablePartitions:
    """Which of the node's logs are left alone, and why."""

    def __init__(self, loop: asyncio.AbstractEventLoop, log_manager: LogManager) -> None:
        self._loop = loop
        self._log_manager = log_manager
        self._logs: dict[UnifiedLog, UncleanablePartition] = {}
        self._written: dict[str, bytes] = {}
        self._writing = False

    def start(self) -> None:
        """What the last process said is not known to be true any more."""
        for folder in self._log_manager.live_log_dirs():
            try:
                folder.disk.remove(f"{folder.path}/{UNCLEANABLE}")
            except OSError as error:
                self._log_manager.handle_log_dir_failure(folder, error)

    @property
    def logs(self) -> AbstractSet[UnifiedLog]:
        return self._logs.keys()

    @property
    def reasons(self) -> dict[TopicPartition, str]:
        """Of those that are still there."""
        return {partition: given_up.why for partition, given_up in self._present().items()}

    def add(self, log: UnifiedLog, why: str) -> None:
        """Leave a log alone from now on, and say so, once."""
        self._logs[log] = UncleanablePartition(self._log_manager.clock.now_ms(), why)
        logger.error("%s cannot be compacted: %s. %s", log.topic_partition, why, ADVICE)

    def forget_gone(self) -> bool:
        """Forget logs that were deleted, moved or are offline; whether there were any."""
        gone = [log for log in self._logs if log.failure is not None]
        for log in gone:
            del self._logs[log]
        return bool(gone)

    def _present(self) -> dict[TopicPartition, UncleanablePartition]:
        known = ((log.topic_partition, log, given_up) for log, given_up in self._logs.items())
        return {
            partition: given_up
            for partition, log, given_up in known
            if self._log_manager.get(partition) is log
        }

    # -- the files -------------------------------------------------------------------------------------------

    async def write_files(self) -> None:
        """Make the files say what is known now."""
        if self._writing or not (self._logs or self._written):
            return
        self._writing = True
        try:
            while changed := self._changed():  # also by what came while a file was written
                for folder, data in changed:
                    self._written[folder.path] = data
                    await self._loop.run_in_executor(None, _write, folder, data)
                    if not data:
                        self._written.pop(folder.path, None)
        finally:
            self._writing = False

    def _changed(self) -> list[tuple[LogDirectory, bytes]]:
        present, found = self._present(), []
        for folder in self._log_manager.live_log_dirs():
            here = {
                partition: given_up
                for partition, given_up in present.items()
                if self._log_manager.folder_of(partition) is folder
            }
            data = encode_uncleanable(here) if here else b""
            if data != self._written.get(folder.path, b""):
                found.append((folder, data))
        return found


def _write(folder: LogDirectory, data: bytes) -> None:
    path = f"{folder.path}/{UNCLEANABLE}"
    try:
        if data:
            folder.disk.replace_file(path, data)
        else:
            folder.disk.remove(path)
    except OSError as error:
        # It is only a message: a disk that fails is noticed by whoever needs it.
        logger.warning("%s could not be written: %s", path, error)
