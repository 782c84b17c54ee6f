"""`systemctl start|stop|restart UNIT` for a machine that is a folder: what the documents' steps use of it.

The unit is read from etc/systemd/system below ROOT, and paths in it lie below ROOT too. Of its settings Type=
(exec, notify), ExecStart= and EnvironmentFile= count; what hardens the service needs systemd itself. `start`
returns when a service of Type=notify has said READY=1, `stop` when its process has ended, as with systemd.

    ROOT=/some/folder python systemctl.py start headrace
"""

import os
import re
import select
import shlex
import signal
import socket
import subprocess
import sys
from pathlib import Path

SECONDS = 90.0
PLACES = re.compile(r"(?<![\w.-])/(etc|opt|var)(?=/)")


def below(root: Path, text: str) -> str:
    """The same text with the machine's own folders in place of /etc, /opt and /var."""
    return PLACES.sub(rf"{root}/\1", text)


def _environment(path: str) -> dict[str, str]:
    if not path or not os.path.exists(path):
        return {}
    return dict(line.split("=", 1) for line in Path(path).read_text().split())


class Unit:
    def __init__(self, root: Path, name: str) -> None:
        stem, _, instance = name.removesuffix(".service").partition("@")
        file = root / "etc/systemd/system" / f"{stem}{'@' if instance else ''}.service"
        lines = [line for line in file.read_text().splitlines() if "=" in line and not line.startswith("#")]
        self._settings = dict(line.split("=", 1) for line in lines)
        self._command = shlex.split(below(root, self._settings["ExecStart"].replace("%i", instance)))
        self._environment = _environment(below(root, self._settings.get("EnvironmentFile", "").lstrip("-")))
        self._pid_file = root / f"run/{name}.pid"
        self._log = root / f"run/{name}.log"

    @property
    def pid(self) -> int | None:
        """Of the process, while it runs."""
        try:
            pid = int(self._pid_file.read_text())
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return None
        return None if state in "ZX" else pid

    def start(self, *, blocks: bool = True) -> None:
        if self.pid is not None:
            return
        self._pid_file.parent.mkdir(exist_ok=True)
        address = f"\0headrace-test-{os.getpid()}"
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager, self._log.open("ab") as log:
            manager.bind(address)
            waits = blocks and self._settings.get("Type") == "notify"
            more = {"NOTIFY_SOCKET": f"@{address[1:]}"} if waits else {}
            process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=os.environ | self._environment | more,
                start_new_session=True,
            )
            self._pid_file.write_text(str(process.pid))
            if waits:
                self._await_ready(manager, process.pid)

    def _await_ready(self, manager: socket.socket, pid: int) -> None:
        ended = os.pidfd_open(pid)
        ready, _, _ = select.select([manager, ended], [], [], SECONDS)
        if manager not in ready or manager.recv(1000) != b"READY=1":
            sys.exit(f"{self._command} is not ready:\n{self._log.read_text()[-3000:]}")

    def stop(self, number: int = signal.SIGTERM) -> None:
        pid = self.pid
        if pid is None:
            return
        ended = os.pidfd_open(pid)
        os.kill(pid, number)
        if not select.select([ended], [], [], SECONDS)[0]:
            sys.exit(f"{self._command} does not stop:\n{self._log.read_text()[-3000:]}")


def main() -> None:
    root = Path(os.environ["ROOT"])
    verb, *names = [word for word in sys.argv[1:] if not word.startswith("-")]
    if verb in ("daemon-reload", "enable", "disable"):
        return
    for name in names:
        unit = Unit(root, name)
        if verb in ("stop", "restart"):
            unit.stop()
        if verb in ("start", "restart"):
            unit.start(blocks="--no-block" not in sys.argv)


if __name__ == "__main__":
    main()
