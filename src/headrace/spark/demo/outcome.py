"""What has come out of the pipeline so far, read with our own consumer while it comes."""

import json
from collections import Counter, deque
from dataclasses import dataclass, field
from typing import Any, Final

from headrace.clients import ConsumedRecord
from headrace.spark.demo.feeds import ERRORS, JOINED

_LAST_SHOWN: Final = 6


@dataclass(slots=True)
class Outcome:
    """`take` is given every record of the derived feeds."""

    # (service, start of the minute in ms) -> every count that was written for it
    errors: dict[tuple[str, int], list[int]] = field(default_factory=dict)
    # number -> how often it came, and how it looked last
    sessions: Counter[int] = field(default_factory=Counter)
    joined: dict[int, dict[str, Any]] = field(default_factory=dict)
    # Records that are not what the pipeline writes.
    strange: Counter[str] = field(default_factory=Counter)
    latest: deque[dict[str, Any]] = field(default_factory=lambda: deque(maxlen=_LAST_SHOWN))

    def take(self, record: ConsumedRecord) -> None:
        try:
            value = json.loads(record.value or b"")
            if record.topic == ERRORS:
                key = (value["service"], value["minute_ms"])
                self.errors.setdefault(key, []).append(value["errors"])
            elif record.topic == JOINED:
                self.sessions[value["session"]] += 1
                self.joined[value["session"]] = value
                self.latest.append(value)
        except (ValueError, LookupError, TypeError):
            self.strange[record.topic] += 1

    def last_minute(self) -> tuple[int | None, dict[str, int]]:
        """The last minute that was closed, and the errors in it by service."""
        minute = max((at for _, at in self.errors), default=None)
        return minute, {name: found[-1] for (name, at), found in self.errors.items() if at == minute}
