"""What goes wrong with a simulated disk, and when.

The rates are chances per operation and may be changed at any time; all zero is a perfect disk. `stop_after`
ends the process in the middle of its n-th operation from now, wherever its code then is: also inside a
recovery.
"""

import errno
import random
from collections.abc import Callable
from typing import Literal

from headrace.testing.file_tree import fault

Operation = Literal["read", "write", "sync", "name"]


class ProcessEndedError(BaseException):
    """The process was killed in the middle of a disk operation. Not an Exception: nobody survives it."""


class DiskFaults:
    """The faults of one disk."""

    def __init__(self, rng: random.Random | None = None) -> None:
        self.rng = rng or random.Random(0)
        self.read_error_rate = 0.0
        self.write_error_rate = 0.0
        self.sync_error_rate = 0.0
        self.name_error_rate = 0.0
        self.flipped_read_rate = 0.0
        self.is_full = False
        self.is_gone = False
        self.refuses_names = False  # a full disk that has no block left for a name either
        self.concerns: Callable[[str], bool] = _every_path
        self.operations = 0
        self._stop_at = 0
        self._on_stop: Callable[[], None] = _nothing

    def clear(self) -> None:
        """A healthy disk again. A planned end of the process stays planned."""
        self.read_error_rate = self.write_error_rate = self.sync_error_rate = self.name_error_rate = 0.0
        self.flipped_read_rate = 0.0
        self.is_full = self.is_gone = self.refuses_names = False
        self.concerns = _every_path

    def calm(self) -> None:
        """A healthy disk that nobody will be stopped on."""
        self.clear()
        self.stop_never()

    def stop_after(self, operations: int, on_stop: Callable[[], None]) -> None:
        """End the process in the middle of the operation that comes after `operations` more."""
        self._stop_at = self.operations + 1 + operations
        self._on_stop = on_stop

    def stop_never(self) -> None:
        """The process is not to be ended after all."""
        self._stop_at = 0

    def stop_is_due(self) -> bool:
        """Count one operation that changes something; True for the one that the process does not survive."""
        self.operations += 1
        return self.operations == self._stop_at

    def stop(self) -> None:
        self._on_stop()
        raise ProcessEndedError

    def check(self, operation: Operation, path: str) -> None:
        """Raise what the system would raise, if it is time for it."""
        if self.is_gone:
            raise fault(errno.EIO, path)
        rate: float = getattr(self, f"{operation}_error_rate")
        if rate and self.concerns(path) and self.rng.random() < rate:
            raise fault(errno.EIO, path)

    def flip(self, path: str, data: bytes) -> bytes:
        """What a read gives: now and then with one bit wrong."""
        if not data or not self.flipped_read_rate or not self.concerns(path):
            return data
        if self.rng.random() >= self.flipped_read_rate:
            return data
        flipped = bytearray(data)
        flipped[self.rng.randrange(len(flipped))] ^= 1 << self.rng.randrange(8)
        return bytes(flipped)


def _every_path(path: str) -> bool:
    return True


def _nothing() -> None:
    pass
