"""The copiers as processes: kept alive, killed, frozen, and replaced while they are frozen."""

import signal
import subprocess
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from tests.compat.clients.face import eventually

ROOT: Final = Path(__file__).parents[3]


class Copier:
    """One process. `number` is its seat, `life` how many sat there before."""

    def __init__(self, number: int, life: int, command: Sequence[str], folder: Path) -> None:
        self.number = number
        self.is_frozen = False
        self.said = folder / f"copier{number + 1}-{life}.err"
        with self.said.open("wb") as errors:
            self._process = subprocess.Popen(
                command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors
            )

    def freeze(self) -> None:
        self._process.send_signal(signal.SIGSTOP)
        self.is_frozen = True

    def thaw(self) -> None:
        self._process.send_signal(signal.SIGCONT)
        self.is_frozen = False

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    @property
    def code(self) -> int | None:
        return self._process.poll()

    def last_word(self) -> str:
        lines = self.said.read_text(errors="replace").strip().splitlines()
        return lines[-1].strip() if lines else "nothing"


class Crew:
    """Every seat has a copier. `ends` counts what those said that ended by themselves."""

    def __init__(self, commands: Sequence[Callable[[], list[str]]], folder: Path) -> None:
        self.ends: Counter[str] = Counter()
        self.zombies: list[Copier] = []
        self._commands = commands
        self._folder = folder
        self._lives = [0] * len(commands)
        self._seats = [self._start(number) for number in range(len(commands))]

    def tend(self) -> None:
        """Start anew who ended by itself. A zombie is not missed."""
        for number, copier in enumerate(self._seats):
            if copier.code is not None:
                self._note(copier)
                self._seats[number] = self._start(number)
        for zombie in [each for each in self.zombies if each.code is not None]:
            self._note(zombie)
            self.zombies.remove(zombie)

    def kill(self, number: int) -> None:
        self._seats[number].kill()
        self._seats[number] = self._start(number)

    def freeze(self, number: int) -> Callable[[], None]:
        """What is returned lets it go on."""
        copier = self._seats[number]
        copier.freeze()
        return copier.thaw

    def replace(self, number: int) -> Callable[[], None]:
        """Another one sits down in the place of one that is frozen; what is returned lets that one go on."""
        zombie = self._seats[number]
        zombie.freeze()
        self.zombies.append(zombie)
        self._seats[number] = self._start(number)
        return zombie.thaw

    def dismiss_zombies(self) -> None:
        """Those that are members still without a partition, and so never found out."""
        for zombie in self.zombies:
            zombie.kill()
        self.zombies.clear()

    def close(self) -> None:
        self.dismiss_zombies()
        for copier in self._seats:
            copier.kill()

    def await_start(self, has_begun: Callable[[], bool]) -> None:
        def asked() -> bool:
            self.tend()
            return has_begun()

        eventually(asked, lambda: f"the first copied records; ends: {dict(self.ends)}")

    def _start(self, number: int) -> Copier:
        self._lives[number] += 1
        return Copier(number, self._lives[number], self._commands[number](), self._folder)

    def _note(self, copier: Copier) -> None:
        word = copier.last_word() if copier.code else "its work was done"
        self.ends[word[:160]] += 1
