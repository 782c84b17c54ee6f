"""What members in Python share: their settings, the lines they print, and the word to leave.

The settings are one JSON object on the command line: bootstrap, group, topic, client_id, commit (sync, async
or auto), heartbeat_ms, session_ms, poll_interval_ms, and `more` for what only one library understands.
"""

import json
import sys
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Settings:
    bootstrap: str
    group: str
    topic: str
    client_id: str
    commit: str
    heartbeat_ms: int
    session_ms: int
    poll_interval_ms: int
    more: dict[str, Any]


def settings() -> Settings:
    return Settings(**json.loads(sys.argv[1]))


def now_ms() -> int:
    return time.time_ns() // 1_000_000


@dataclass
class Telling:
    """Prints lines, and remembers what is owned and what was delivered and not committed."""

    owned: set[int] = field(default_factory=set)
    uncommitted: dict[int, int] = field(default_factory=dict)
    is_asked_to_leave: threading.Event = field(default_factory=threading.Event)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        sys.stdin.readline()  # `close`, or the end
        self.is_asked_to_leave.set()

    def tell(self, event: str, **more: Any) -> None:
        with self._lock:
            sys.stdout.write(json.dumps({"at": now_ms(), "event": event, **more}) + "\n")
            sys.stdout.flush()

    def assigned(self, partitions: Iterable[int]) -> None:
        given = sorted(partitions)
        self.owned.update(given)
        self.tell("assigned", partitions=given)

    def revoked(self, partitions: Iterable[int], event: str = "revoked") -> None:
        taken = sorted(partitions)
        self.owned.difference_update(taken)
        for each in taken:
            self.uncommitted.pop(each, None)
        self.tell(event, partitions=taken)

    def records(self, rows: Iterable[tuple[int, int, bytes | None]]) -> None:
        """Partition, offset and value of each; a value is the number that its offset should be."""
        spans: list[list[int]] = []
        last: dict[int, list[int]] = {}
        for partition, offset, value in rows:
            if value != b"%d" % offset:
                self.tell("garbled", why=f"{value!r} at offset {offset} of partition {partition}")
            span = last.get(partition)
            if span is None or span[2] != offset:
                span = last[partition] = [partition, offset, offset]
                spans.append(span)
            span[2] = offset + 1
        if spans:
            self.tell("records", spans=spans)
            self.uncommitted.update({span[0]: span[2] for span in spans})

    def committed(self, began: int, offsets: Mapping[int, int]) -> None:
        self.tell("committed", began=began, offsets=sorted(offsets.items()))
        for partition, offset in offsets.items():
            if self.uncommitted.get(partition) == offset:
                del self.uncommitted[partition]

    def refused(self, error: BaseException) -> None:
        """It is tried again after the next poll, unless that says that the partition is gone."""
        self.tell("refused", why=f"{type(error).__name__}: {error}")
