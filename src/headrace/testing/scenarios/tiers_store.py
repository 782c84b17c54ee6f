"""A remote store in which everything goes wrong that may: it fails before, after and in the middle of what it
is asked for, and the process that asks is killed there.
"""

import random
from collections.abc import Callable, Iterator

from headrace.log.disk import File
from headrace.testing.disk import Crash
from headrace.testing.disk_faults import ProcessEndedError
from headrace.testing.machine import SimulatedMachine
from headrace.tiered.remote_storage import RemoteStorageError, RemoteStorageManager, begun


class TroubledStore:
    """One node's way to the store. While `is_calm` nothing goes wrong."""

    def __init__(
        self,
        store: RemoteStorageManager,
        machine: SimulatedMachine,
        rng: random.Random,
        *,
        is_calm: Callable[[], bool],
        failure_rate: float,
        death_rate: float,
        deaths: tuple[Crash, ...],
    ) -> None:
        self._store = store
        self._machine = machine
        self._rng = rng
        self._is_calm = is_calm
        self._failure_rate = failure_rate
        self._death_rate = death_rate
        self._deaths = deaths

    def put(self, name: str, source: File, size: int) -> None:
        self.put_bytes(name, source.read(0, size))

    def put_bytes(self, name: str, data: bytes) -> None:
        def torn() -> None:
            self._store.put_bytes(name, data[: self._rng.randrange(len(data) + 1)])

        self._do(f"put {name}", lambda: self._store.put_bytes(name, data), torn)

    def read(self, name: str, start: int, end: int) -> bytes:
        return self._store.read(name, start, end)

    def delete(self, names: list[str]) -> None:
        some = [name for name in names if self._rng.random() < 0.5]
        self._do("delete", lambda: self._store.delete(names), lambda: self._store.delete(some))

    def list(self, prefix: str) -> Iterator[tuple[str, int]]:
        if not self._is_calm() and self._rng.random() < self._failure_rate:
            raise RemoteStorageError("it does not list")
        return self._store.list(prefix)

    def begun(self, prefix: str) -> Iterator[str]:
        if not self._is_calm() and self._rng.random() < self._failure_rate:
            raise RemoteStorageError("it does not tell what was begun")
        return iter(begun(self._store, prefix))

    def close(self) -> None:
        """There is nothing to let go of."""

    def _do(self, what: str, whole: Callable[[], None], half: Callable[[], None]) -> None:
        if self._is_calm():
            whole()
            return
        effect = self._rng.choice([whole, half, None])
        if self._rng.random() < self._death_rate and self._machine.is_running:
            if effect is not None:
                effect()
            self._machine.world.note(f"{self._machine.name} dies at: {what}")
            self._machine.crash(self._rng.choice(self._deaths))
            raise ProcessEndedError
        if self._rng.random() < self._failure_rate:
            if effect is not None:
                effect()
            raise RemoteStorageError(f"{what}: it fails, and nobody knows how much was done")
        whole()
