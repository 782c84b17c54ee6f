"""The producer and the workers of a queue for `bench.share`: one JVM for each broker (`ShareMembers.java`),
which is told what to do line by line, so that what it has compiled stays."""

import subprocess
from pathlib import Path
from typing import Final

from bench.brokers import Broker, java

Figures = dict[str, float]

PROGRAM: Final = Path(__file__).with_name("ShareMembers.java")
END_S: Final = 60


class ShareMembers:
    """Java's producer and share consumers at one broker."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._process = subprocess.Popen(
            [*java(broker.folder, "-Xmx1G"), str(PROGRAM), broker.address],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def fill(self, topic: str, *, size: int, count: int) -> None:
        self._tell(f"fill {topic} {size} {count}")
        self._hear("filled")

    def read(self, topic: str, group: str, mode: str, *, members: int, count: int) -> Figures:
        """Take so many records out of a topic with members that have all joined before; what is measured is
        the last two thirds."""
        self._tell(f"read {topic} {group} {mode} {members} {count}")
        self._hear("running")
        before = self._broker.cpu_s()
        records, again, seconds = map(float, self._hear("done"))
        cpu_s = self._broker.cpu_s() - before
        self._hear("left")
        return {
            "records_s": records / seconds,
            "cpu_s_per_million": cpu_s / records * 1e6,
            "again": again,
        }

    def latency(self, topic: str, group: str, *, members: int, rate: int, seconds: float) -> Figures:
        """From send to a worker's hands, at a light rate, after a warm-up half as long."""
        self._tell(f"latency {topic} {group} {members} {rate} {seconds / 2} {seconds}")
        self._hear("ready")
        before = self._broker.cpu_s()
        self._tell("go")
        p50_ms, p99_ms = map(float, self._hear("waits"))
        cpu_s = self._broker.cpu_s() - before
        self._hear("left")
        return {
            "end_to_end_p50_ms": p50_ms,
            "end_to_end_p99_ms": p99_ms,
            "cpu_s_per_million": cpu_s / (rate * seconds) * 1e6,
        }

    def close(self) -> None:
        if self._process.poll() is None:
            try:
                self._tell("close")
                self._process.wait(END_S)
            except (BrokenPipeError, subprocess.TimeoutExpired):
                self._process.kill()
        self._process.wait()

    def kill(self) -> None:
        """For when something went wrong: nothing is said, nobody leaves."""
        self._process.kill()
        self._process.wait()

    def _tell(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def _hear(self, word: str) -> list[str]:
        """The line that begins with this word, without it."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        said, *rest = line.split() or [""]
        if said != word:
            raise RuntimeError(f"the members of {self._broker.name} said {line!r} instead of {word}")
        return rest
