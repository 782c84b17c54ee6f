"""The application's instances and its driver, as processes."""

import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.compat import prepare

HERE: Final = Path(__file__).parent
STOP_SECONDS: Final = 90.0
SLF4J: Final = "1.7.36"
LOGGING: Final = [
    f"-Dorg.slf4j.simpleLogger.{name}"
    for name in ("defaultLogLevel=warn", "showDateTime=true", "dateTimeFormat=HH:mm:ss.SSS")
]

RUNNING: Final = "-> RUNNING"
THREW: Final = "SMOKE-TEST-CLIENT-EXCEPTION"
"""What SmokeTestClient says where an exception reached it, after which the instance ends."""


def smoke_jars() -> Path:
    """Kafka Streams, and its smoke test among its tests, from Maven Central."""
    version = prepare.kafka_version()
    return prepare.jars(
        "kafka-streams-smoke",
        f"org.apache.kafka:kafka-streams:{version}",
        f"org.apache.kafka:kafka-streams:{version}:test",
        f"org.apache.kafka:kafka-clients:{version}:test",
        f"org.slf4j:slf4j-simple:{SLF4J}",
    )


def program() -> list[str]:
    """The start of a command line of `Smoke`."""
    jars = smoke_jars()
    classes = prepare.java_class(HERE / "Smoke.java", jars)
    java = ["java", "-Xmx256M", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", *LOGGING]
    return [*java, "-cp", f"{classes}:{jars}/*", "Smoke"]


class Process:
    """One of them, and what it says."""

    def __init__(self, command: Sequence[str], said: Path) -> None:
        self.said = said
        self._begins_at = said.stat().st_size if said.exists() else 0
        with said.open("ab") as out:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out)

    @property
    def code(self) -> int | None:
        return self._process.poll()

    def text(self) -> str:
        """What it has said so far, without what others said before into the same file."""
        with self.said.open("rb") as file:
            file.seek(self._begins_at)
            return file.read().decode(errors="replace")

    def send(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def end(self) -> None:
        """In order, which takes a commit and a farewell."""
        self._process.terminate()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(
                f"an instance did not end within {STOP_SECONDS:.0f} s: {self.said}"
            ) from None


class Instance:
    """A place in the group: a process with a state folder, and another one in its place whenever it ended."""

    def __init__(self, number: int, java: Sequence[str], settings: dict[str, str], folder: Path) -> None:
        name = f"instance{number + 1}"
        settings = settings | {
            "state.dir": str(folder / f"state{number + 1}"),
            "application.server": f"{name}:{number + 1}",  # told to other instances; nobody connects
        }
        file = folder / f"{name}.properties"
        file.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        self._command = [*java, "process", str(file), name]
        self._said = folder / f"{name}.out"
        self.is_frozen = False
        self.start()

    def start(self) -> None:
        self._process = Process(self._command, self._said)

    def kill(self) -> None:
        self._process.kill()
        self.is_frozen = False

    def end(self) -> None:
        if self._process.code is None:
            self.thaw()
            self._process.end()

    def freeze(self) -> None:
        self._process.send(signal.SIGSTOP)
        self.is_frozen = True

    def thaw(self) -> None:
        if self.is_frozen:
            self._process.send(signal.SIGCONT)
        self.is_frozen = False

    def is_running(self) -> bool:
        """Whether it has had tasks, all of them restored."""
        return RUNNING in self._process.text()

    def trouble(self) -> str | None:
        """Why it ended by itself; None where it did not."""
        text = self._process.text()
        if THREW in text:
            at = text.index(THREW)
            return text[at : at + 2000]
        if self._process.code is not None:
            return f"ended with {self._process.code}: {text[-500:]}"
        return None
