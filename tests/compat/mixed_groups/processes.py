"""Members as processes: started, asked to leave, killed, stopped and continued; their lines are gathered."""

import os
import selectors
import signal
import subprocess
import time
from pathlib import Path

from tests.compat.mixed_groups.lines import Event, read_line
from tests.compat.mixed_groups.roster import Seat


def now_ms() -> int:
    return time.time_ns() // 1_000_000


class MemberProcess:
    """One life of a seat. `client` is its client.id, which no other process has."""

    def __init__(self, seat: Seat, life: int, bootstrap: str, folder: Path) -> None:
        self.seat = seat
        self.client = f"{seat.name}#{life}"
        self.is_frozen = False
        self.is_asked_to_leave = False
        self._unread = b""
        self.said = folder / f"{self.client}.err"
        with self.said.open("wb") as errors:
            self._process = subprocess.Popen(
                seat.command(bootstrap, self.client, folder),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                bufsize=0,
            )
        assert self._process.stdout
        self.out = self._process.stdout
        os.set_blocking(self.out.fileno(), False)

    def signal(self, number: int) -> None:
        self._process.send_signal(number)

    def ask_to_leave(self) -> None:
        self.is_asked_to_leave = True
        if self.seat.leaves_by_signal:
            self.signal(signal.SIGTERM)
        else:
            assert self._process.stdin
            self._process.stdin.write(b"close\n")

    def read(self) -> list[Event]:
        """Events of the lines that are whole by now."""
        try:
            more = os.read(self.out.fileno(), 1 << 20)
        except BlockingIOError:
            return []
        *lines, self._unread = (self._unread + more).split(b"\n")
        return [event for line in lines for event in read_line(self.client, line.decode(errors="replace"))]

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

    @property
    def code(self) -> int:
        return self._process.wait()

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def close(self) -> None:
        self.out.close()
        if self._process.stdin:
            self._process.stdin.close()

    def last_words(self) -> str:
        return "\n".join(self.said.read_text(errors="replace").splitlines()[-12:])


class Company:
    """All members: who is there now, and everything that was told so far."""

    def __init__(self, bootstrap: str, folder: Path) -> None:
        self.present: dict[str, MemberProcess] = {}
        self.events: list[Event] = []
        self.troubles: list[str] = []
        self._bootstrap = bootstrap
        self._folder = folder
        self._lives: dict[str, int] = {}
        self._leaving: list[MemberProcess] = []
        self._selector = selectors.DefaultSelector()

    @property
    def processes(self) -> list[MemberProcess]:
        return [*self.present.values(), *self._leaving]

    def start(self, seat: Seat) -> None:
        if seat.name in self.present:
            return
        self._lives[seat.name] = self._lives.get(seat.name, 0) + 1
        process = MemberProcess(seat, self._lives[seat.name], self._bootstrap, self._folder)
        self.present[seat.name] = process
        self._selector.register(process.out, selectors.EVENT_READ, process)
        self._note(process, "started")

    def leave(self, name: str) -> None:
        if (process := self.present.pop(name, None)) is not None:
            self._note(process, "asked to leave")
            process.ask_to_leave()
            self._leaving.append(process)

    def crash(self, name: str) -> None:
        if (process := self.present.pop(name, None)) is not None:
            process.kill()
            self._forget(process, "killed")

    def freeze(self, name: str) -> None:
        if (process := self.present.get(name)) is not None:
            process.signal(signal.SIGSTOP)
            process.is_frozen = True
            self._note(process, "stopped")

    def thaw(self, name: str) -> None:
        process = self.present.get(name)
        if process is not None and process.is_frozen:
            self._note(process, "continued")
            process.signal(signal.SIGCONT)
            process.is_frozen = False

    def listen(self, seconds: float) -> None:
        """Take in what members say for so long."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            for key, _ in self._selector.select(left):
                self.events += key.data.read()
            for process in self.processes:
                if process.has_ended:
                    self._bury(process)

    def kill_all(self) -> None:
        for process in self.processes:
            process.kill()
            self._forget(process, "killed")
        self.present.clear()
        self._leaving.clear()

    @property
    def all_have_left(self) -> bool:
        return not self._leaving

    def stragglers(self) -> list[str]:
        return [process.client for process in self._leaving]

    def _note(self, process: MemberProcess, kind: str) -> None:
        self.events.append(Event(now_ms(), process.client, kind))

    def _bury(self, process: MemberProcess) -> None:
        """It ended by itself: well after being asked, else it is a trouble."""
        if process in self._leaving:
            self._leaving.remove(process)
        else:
            del self.present[process.seat.name]
        if not process.is_asked_to_leave or process.code not in (0, 143):
            self.troubles.append(
                f"{process.client} ended by itself with {process.code}\n{process.last_words()}"
            )
        self._forget(process, "ended")

    def _forget(self, process: MemberProcess, kind: str) -> None:
        self._selector.unregister(process.out)
        while more := process.read():
            self.events += more
        process.close()
        self._note(process, kind)
