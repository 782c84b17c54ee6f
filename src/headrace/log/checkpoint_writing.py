"""The offset checkpoints of a log directory, from what its logs say now: by a thread while the node runs, at
once where a log has just gone back behind what one of them vouches for.
"""

from dataclasses import dataclass
from typing import Final

from headrace.log.checkpoints import encode_offsets
from headrace.log.faults import FULL
from headrace.log.file_names import CLEANER_OFFSETS, HIGH_WATERMARKS, LOG_STARTS, RECOVERY_POINTS
from headrace.log.log_folder import LogFolder

CHECKPOINTS: Final = (RECOVERY_POINTS, LOG_STARTS, HIGH_WATERMARKS)


@dataclass(frozen=True, slots=True)
class CheckpointWrite:
    """Checkpoints of one folder as they were when the write began."""

    folder: LogFolder
    number: int
    files: tuple[tuple[str, bytes], ...]

    def write(self) -> None:
        """Blocks: call it from a thread. OSError means that the folder must go offline.

        A full disk is no failure: the checkpoint stays as it was, and tells less than it could.
        """
        for name, data in self.files:
            try:
                self.folder.write_checkpoint(name, data, self.number)
            except OSError as error:
                if error.errno not in FULL:
                    raise


def write_checkpoint(folder: LogFolder, name: str) -> None:
    folder.write_checkpoint(name, checkpoint_of(folder, name), folder.next_write())


def checkpoint_of(folder: LogFolder, name: str) -> bytes:
    """Log starts are written only where they differ from what the files say, as Kafka does, or may differ
    before the next time."""
    logs = folder.logs
    if name == RECOVERY_POINTS:
        return encode_offsets({tp: log.recovery_point for tp, log in logs.items()})
    if name == HIGH_WATERMARKS:
        return encode_offsets({tp: log.high_watermark for tp, log in logs.items()})
    if name == CLEANER_OFFSETS:
        cleaned = {tp: log.cleaned_to for tp, log in logs.items()}
        return encode_offsets({tp: offset for tp, offset in cleaned.items() if offset is not None})
    moved = {
        tp: log
        for tp, log in logs.items()
        if log.config.remote_storage_enable or log.log_start_offset > log.segments.first.base_offset
    }
    return encode_offsets({tp: log.log_start_offset for tp, log in moved.items()})
