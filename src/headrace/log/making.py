"""Folders of new partitions, made by a thread before their logs are created.

Making a file takes the file system up to a millisecond, and a partition has three. Where a broker gets
thousands at once its loop would stand still for seconds, so a thread makes the files, and the loop creates
the logs from what is there. A disk that fails meanwhile is met again by whoever creates the next log, and
told of there: what could not be made is simply not there yet.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from headrace.base.ids import TopicId, TopicPartition
from headrace.log.log_folder import LogFolder
from headrace.log.new_log import make_files
from headrace.settings.topic import TopicConfig


class NewLog(NamedTuple):
    """A log that is about to be created, in the directory of this id or, without one, in any."""

    partition: TopicPartition
    topic_id: TopicId
    config: TopicConfig
    directory_id: bytes | None = None


@dataclass(slots=True)
class Making:
    """What is to be made, and what was."""

    wanted: Sequence[tuple[NewLog, LogFolder]]
    made: list[tuple[NewLog, LogFolder]] = field(default_factory=list)

    def run(self) -> None:
        """Blocks: call it from a thread."""
        for new, folder in self.wanted:
            path = folder.path_of(new.partition)
            try:
                if folder.disk.exists(path):
                    continue  # it takes more than a look to say whose it is
                make_files(folder.disk, path, 0, new.config, new.topic_id)
            except OSError:
                return
            self.made.append((new, folder))
