"""Members of one group for `bench.rebalances`, with what each owns as far as it has told.

librdkafka members run on threads of this process; the one that is to be killed is a process of its own
(`python -m bench.rebalance_members`). Java members share a JVM, which reads `join` and `leave N` and prints
what they own (`RebalanceMembers.java`).
"""

import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import IO

from confluent_kafka import Consumer

from bench.brokers import Broker, java

POLL_S = 0.02


class Members:
    """What every kind of group has: `owned` by member."""

    def __init__(self, broker: Broker, name: str, topic: str, settings: dict[str, str]) -> None:
        self.broker = broker
        self.settings = {
            "bootstrap.servers": broker.address,
            "group.id": name,
            "auto.offset.reset": "earliest",
            **settings,
        }
        self.topic = topic
        self.owned: dict[int, set[int]] = {}
        self.count = 0

    def join(self) -> int:
        """One more member; its number."""
        raise NotImplementedError

    def leave(self, number: int) -> None:
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError

    def follow(self, lines: IO[str]) -> None:
        """Keep `owned` as these lines say: a number and its partitions, or the number alone at its end."""
        for line in lines:
            number, *partitions = line.split()
            if partitions == ["gone"]:
                self.owned.pop(int(number), None)
            else:
                self.owned[int(number)] = {int(each) for each in partitions}


class Librdkafka(Members):
    """confluent-kafka's consumers."""

    def __init__(self, broker: Broker, name: str, topic: str, settings: dict[str, str]) -> None:
        super().__init__(broker, name, topic, settings)
        self._ends: dict[int, threading.Event] = {}
        self._threads: list[threading.Thread] = []
        self._mortal: subprocess.Popen[str] | None = None

    def join(self) -> int:
        number, end = self.count, threading.Event()
        self.count += 1
        self._ends[number] = end
        self._threads.append(threading.Thread(target=self._consume, args=(number, end)))
        self._threads[-1].start()
        return number

    def join_mortal(self) -> int:
        """A member that can be killed."""
        number = self.count
        self.count += 1
        self._mortal = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "bench.rebalance_members",
                str(number),
                self.topic,
                json.dumps(self.settings),
            ],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._mortal.stdout is not None
        self._threads.append(threading.Thread(target=self.follow, args=(self._mortal.stdout,)))
        self._threads[-1].start()
        return number

    def kill(self, number: int) -> None:
        assert self._mortal is not None
        self._mortal.kill()
        self._mortal.wait()
        self._threads[-1].join()
        self.owned.pop(number, None)

    def _consume(self, number: int, end: threading.Event) -> None:
        consumer = Consumer(self.settings)
        consumer.subscribe([self.topic])
        while not end.is_set():
            consumer.poll(POLL_S)
            self.owned[number] = {each.partition for each in consumer.assignment()}
        self.owned.pop(number, None)
        consumer.close()

    def leave(self, number: int) -> None:
        self._ends[number].set()

    def close(self) -> None:
        for end in self._ends.values():
            end.set()
        for thread in self._threads:
            thread.join()


class Java(Members):
    """The Java consumer."""

    def __init__(self, broker: Broker, name: str, topic: str, settings: dict[str, str]) -> None:
        super().__init__(broker, name, topic, settings)
        program = str(Path(__file__).with_name("RebalanceMembers.java"))
        properties = [f"{key}={value}" for key, value in self.settings.items()]
        self._process = subprocess.Popen(
            [*java(broker.folder, "-Xmx512M"), program, topic, *properties],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "ready\n"
        self._reading = threading.Thread(target=self.follow, args=(self._process.stdout,))
        self._reading.start()

    def join(self) -> int:
        self._order("join")
        self.count += 1
        return self.count - 1

    def leave(self, number: int) -> None:
        self._order(f"leave {number}")

    def close(self) -> None:
        self._order("close")
        self._process.wait()
        self._reading.join()

    def _order(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()


def main() -> None:
    number, topic, settings = sys.argv[1:]
    consumer = Consumer(json.loads(settings))
    consumer.subscribe([topic])
    told = None
    while True:
        consumer.poll(POLL_S)
        owned = sorted(each.partition for each in consumer.assignment())
        if owned != told:
            print(number, *owned, flush=True)
            told = owned


if __name__ == "__main__":
    main()
