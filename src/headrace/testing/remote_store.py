"""A remote store that misbehaves by a seed: slow, failing, forgetful, and not always truthful.

It wraps any store. Each fault has a rate, all zero at first, when it is the store that it wraps:

    fails       nothing is done, and the call fails
    denies      everything is done, and the call fails all the same
    halves      a put stores the beginning of its bytes, a delete removes some of its names; then it fails
    delays      a put fails, and its object appears some calls later, unless it was put or deleted meanwhile
    loses       a put succeeds, and its object is not there: what no store may do, and stores have done
    lists_behind   a listing is that of some calls ago
    slows       a call takes up to `slow_s` seconds, which are spent by `wait`

`is_away` fails everything at once. Time is counted in calls, so a run depends on nothing but its seed and the
order of calls. Calls may come from several threads; they are taken one at a time.
"""

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock
from typing import Final

from headrace.log.disk import File
from headrace.tiered.remote_storage import RemoteStorageError, RemoteStorageManager, pieces

# How many calls a late object or an old listing may lie behind.
_CALLS_BEHIND_MAX: Final = 10


@dataclass(slots=True)
class StoreFaults:
    """The share of calls, from 0 to 1, that each fault hits."""

    fails: float = 0.0
    denies: float = 0.0
    halves: float = 0.0
    delays: float = 0.0
    loses: float = 0.0
    lists_behind: float = 0.0
    slows: float = 0.0
    slow_s: float = 1.0


class FaultyStore:
    """Implements `RemoteStorageManager`. Faults can be changed at any time; `lose` takes one object away."""

    def __init__(
        self,
        store: RemoteStorageManager,
        rng: random.Random,
        faults: StoreFaults | None = None,
        *,
        wait: Callable[[float], None] = lambda _: None,
        note: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.faults = faults or StoreFaults()
        self.is_away = False
        self._store = store
        self._rng = rng
        self._wait = wait
        self._note = note
        self._lock = Lock()
        self._calls = 0
        self._late: dict[str, tuple[int, bytes]] = {}
        self._listings: list[tuple[int, list[tuple[str, int]]]] = []

    def put(self, name: str, source: File, size: int) -> None:
        self.put_bytes(name, b"".join(pieces(name, source, size)))

    def put_bytes(self, name: str, data: bytes) -> None:
        with self._called(f"put {name}"):
            self._late.pop(name, None)
            if self._hits(self.faults.halves):
                self._store.put_bytes(name, data[: self._rng.randrange(len(data) + 1)])
                raise self._failure(f"put {name}", "half of it is there")
            if self._hits(self.faults.delays):
                due = self._calls + 1 + self._rng.randrange(_CALLS_BEHIND_MAX)
                self._late[name] = due, data
                raise self._failure(f"put {name}", f"it comes with call {due}")
            if self._hits(self.faults.loses):
                self._note(f"{name} is lost")
                return
            self._store.put_bytes(name, data)
            if self._hits(self.faults.denies):
                raise self._failure(f"put {name}", "all of it is there")

    def read(self, name: str, start: int, end: int) -> bytes:
        with self._called(f"read {name}"):
            return self._store.read(name, start, end)

    def delete(self, names: list[str]) -> None:
        with self._called(f"delete {', '.join(names)}"):
            for name in names:
                self._late.pop(name, None)
            if self._hits(self.faults.halves):
                self._store.delete([name for name in names if self._rng.random() < 0.5])
                raise self._failure("delete", "some are gone")
            self._store.delete(names)
            if self._hits(self.faults.denies):
                raise self._failure("delete", "all are gone")

    def list(self, prefix: str) -> Iterator[tuple[str, int]]:
        with self._called(f"list {prefix}"):
            found = list(self._store.list(""))
            if self._listings and self._hits(self.faults.lists_behind):
                found = self._rng.choice(self._listings)[1]
        return (entry for entry in found if entry[0].startswith(prefix))

    def close(self) -> None:
        self._store.close()

    def lose(self, name: str) -> None:
        """Take an object away behind everybody's back."""
        self._store.delete([name])
        self._note(f"{name} is lost")

    # --- one call ---

    @contextmanager
    def _called(self, what: str) -> Iterator[None]:
        """Count a call, let happen what is due, fail it where it fails before anything is done."""
        if self._hits(self.faults.slows):
            self._wait(self._rng.random() * self.faults.slow_s)
        with self._lock:
            self._calls += 1
            if self.is_away:
                raise self._failure(what, "the store is away")
            self._settle()
            if self._hits(self.faults.fails):
                raise self._failure(what, "nothing was done")
            yield

    def _settle(self) -> None:
        for name in [name for name, (due, _) in self._late.items() if due <= self._calls]:
            self._note(f"{name} arrives late")
            self._store.put_bytes(name, self._late.pop(name)[1])
        if self.faults.lists_behind:
            self._listings.append((self._calls, list(self._store.list(""))))
            oldest = self._calls - _CALLS_BEHIND_MAX
            self._listings = [each for each in self._listings if each[0] > oldest]

    def _hits(self, rate: float) -> bool:
        return rate > 0 and self._rng.random() < rate

    def _failure(self, what: str, truth: str) -> RemoteStorageError:
        self._note(f"{what} fails: {truth}")
        return RemoteStorageError(f"{what}: the store fails by its seed")
