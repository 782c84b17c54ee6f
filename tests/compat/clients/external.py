"""A client in another language: a program that takes calls as JSON lines and answers each with one line.

    {"op": "bounds", "args": {"topic": "t"}}   ->   {"result": {"0": [0, 5]}}
                                               or   {"error": {"code": 3, "message": "..."}}

Records are objects with the fields of face.Record; their bytes are base64 text, null where there are none. A
code of null means that the program itself failed, not the broker's refusal.
"""

import base64
import json
import os
import selectors
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from typing import IO, Any

from tests.compat.brokers import REPLICAS
from tests.compat.clients.face import WAIT_SECONDS, Client, Record, RefusedError

# The program has its own deadlines, shorter than this one, with better messages.
ANSWER_SECONDS = WAIT_SECONDS + 30.0


class Program:
    """The process on the other end of the lines."""

    def __init__(self, command: Sequence[str]) -> None:
        self._stderr: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the program
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._stderr, bufsize=0
        )
        assert self._process.stdin
        assert self._process.stdout
        self._stdin, self._stdout = self._process.stdin, self._process.stdout
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._stdout, selectors.EVENT_READ)
        self._unread = b""

    def ask(self, op: str, **args: Any) -> Any:
        line = memoryview(json.dumps({"op": op, "args": args}).encode() + b"\n")
        while line:
            line = line[self._stdin.write(line) :]
        answer = json.loads(self._read_line(op))
        error = answer.get("error")
        if error is None:
            return answer["result"]
        if error["code"] is None:
            raise AssertionError(f"{op}: {error['message']}\n{self._said()}")
        raise RefusedError(error["code"], error["message"])

    def close(self) -> None:
        self._stdin.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _read_line(self, op: str) -> bytes:
        deadline = time.monotonic() + ANSWER_SECONDS
        parts = [self._unread]
        while b"\n" not in parts[-1]:
            if not self._selector.select(deadline - time.monotonic()):
                self._process.kill()
                raise AssertionError(f"no answer to {op} within {ANSWER_SECONDS} s\n{self._said()}")
            more = os.read(self._stdout.fileno(), 1 << 20)
            if not more:
                code = self._process.wait()
                raise AssertionError(f"the program ended with {code} upon {op}\n{self._said()}")
            parts.append(more)
        line, _, self._unread = b"".join(parts).partition(b"\n")
        return line

    def _said(self) -> str:
        self._stderr.seek(0)
        return "\n".join(self._stderr.read().decode(errors="replace").splitlines()[-30:])


class External(Client):
    """Every call is handed on; only maps and records change their form."""

    def __init__(self, command: Sequence[str]) -> None:
        self.program = Program(command)
        self._ask = self.program.ask

    def produce(self, topic: str, records: Sequence[Record], codec: str) -> list[int]:
        return list(
            self._ask("produce", topic=topic, records=[_to_json(each) for each in records], codec=codec)
        )

    def consume(
        self, topic: str, ends: Mapping[int, int], starts: Mapping[int, int] | None = None
    ) -> list[Record]:
        starts = starts or {at: low for at, (low, _) in self.bounds(topic).items()}
        ranges = [[at, starts[at], end] for at, end in ends.items() if starts[at] < end]
        records = [_from_json(each) for each in self._ask("consume", topic=topic, ranges=ranges)]
        return sorted(records, key=lambda record: (record.partition, record.offset))

    def offsets_for_time(self, topic: str, timestamp_ms: int) -> dict[int, int]:
        return _int_keys(self._ask("offsets_for_time", topic=topic, timestamp_ms=timestamp_ms))

    def bounds(self, topic: str) -> dict[int, tuple[int, int]]:
        return {at: (low, high) for at, (low, high) in _int_keys(self._ask("bounds", topic=topic)).items()}

    def join(self, member: str, group: str, topic: str) -> None:
        self._ask("join", member=member, group=group, topic=topic)

    def assigned(self, member: str) -> list[int]:
        return sorted(self._ask("assigned", member=member))

    def taken(self, member: str) -> list[Record]:
        return [_from_json(each) for each in self._ask("taken", member=member)]

    def commit(self, member: str) -> None:
        self._ask("commit", member=member)

    def leave(self, member: str) -> None:
        self._ask("leave", member=member)

    def committed(self, group: str, topic: str) -> dict[int, int]:
        return {
            at: each
            for at, each in _int_keys(self._ask("committed", group=group, topic=topic)).items()
            if each >= 0
        }

    def create_topic(self, topic: str, partitions: int, config: Mapping[str, str]) -> None:
        self._ask(
            "create_topic", topic=topic, partitions=partitions, replication=REPLICAS, config=dict(config)
        )

    def topics(self) -> list[str]:
        return sorted(self._ask("topics"))

    def describe_topic(self, topic: str) -> dict[int, dict[str, Any]]:
        return _int_keys(self._ask("describe_topic", topic=topic))

    def add_partitions(self, topic: str, count: int) -> None:
        self._ask("add_partitions", topic=topic, count=count)

    def delete_topic(self, topic: str) -> None:
        self._ask("delete_topic", topic=topic)

    def topic_config(self, topic: str) -> dict[str, str]:
        return dict(self._ask("topic_config", topic=topic))

    def alter_topic_config(self, topic: str, config: Mapping[str, str]) -> None:
        self._ask("alter_topic_config", topic=topic, config=dict(config))

    def cluster(self) -> dict[str, Any]:
        return dict(self._ask("cluster"))

    def groups(self) -> list[str]:
        return sorted(self._ask("groups"))

    def describe_group(self, group: str) -> dict[str, Any]:
        return dict(self._ask("describe_group", group=group))

    def delete_group(self, group: str) -> None:
        self._ask("delete_group", group=group)

    def delete_records(self, topic: str, before: Mapping[int, int]) -> None:
        self._ask("delete_records", topic=topic, before=[[at, offset] for at, offset in before.items()])

    def close(self) -> None:
        self.program.close()


def _int_keys(answer: Mapping[str, Any]) -> dict[int, Any]:
    return {int(key): value for key, value in answer.items()}


def _to_json(record: Record) -> dict[str, Any]:
    return {
        "partition": record.partition,
        "timestamp_ms": record.timestamp_ms,
        "key": _to_text(record.key),
        "value": _to_text(record.value),
        "headers": [[name, _to_text(value)] for name, value in record.headers],
    }


def _from_json(answer: Mapping[str, Any]) -> Record:
    return Record(
        partition=answer["partition"],
        timestamp_ms=answer["timestamp_ms"],
        key=_to_bytes(answer["key"]),
        value=_to_bytes(answer["value"]),
        headers=tuple((name, _to_bytes(value)) for name, value in answer["headers"] or ()),
        offset=answer["offset"],
    )


def _to_text(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


def _to_bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)
