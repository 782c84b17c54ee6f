"""How a log line looks: text for people, JSON for machines; each line is one line.

Times are UTC, as 2026-01-31T12:00:00.123Z, whatever the zone and language of the machine. A line in JSON has
the time, level, logger, node and message, the template of the message (what an alert can be set on), and
whatever the place that logs gave as `extra`. Tracebacks are a field in JSON, and lines of their own in text.
"""

from __future__ import annotations

import json
import logging
import time
from typing import Any, Final

# What every record has: the rest was given by whoever logs.
_ORDINARY: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_CONTROL: Final = {code: f"\\x{code:02x}" for code in range(32)} | {
    10: "\\n",
    9: "\\t",
    13: "\\r",
    127: "\\x7f",
}


class TextLines(logging.Formatter):
    """`2026-01-31T12:00:00.123Z INFO  [1] headrace.node.lifecycle: message`; the number is the node's id."""

    def __init__(self, node_id: int | None = None) -> None:
        super().__init__()
        self._node = "" if node_id is None else f"[{node_id}] "

    def format(self, record: logging.LogRecord) -> str:
        # A client chooses names that stand in messages: they may not begin a line of their own.
        message = record.getMessage().translate(_CONTROL)
        line = f"{iso_time(record.created)} {record.levelname:<7} {self._node}{record.name}: {message}"
        trace = _trace(self, record)
        return f"{line}\n{trace}" if trace else line


class JsonLines(logging.Formatter):
    """One JSON object each line."""

    def __init__(self, node_id: int | None = None) -> None:
        super().__init__()
        self._node_id = node_id

    def format(self, record: logging.LogRecord) -> str:
        fields: dict[str, Any] = {
            "time": iso_time(record.created),
            "level": record.levelname,
            "logger": record.name,
            "node": self._node_id,
            "message": record.getMessage(),
            "template": str(record.msg),
        }
        given = {name: value for name, value in vars(record).items() if name not in _ORDINARY}
        trace = _trace(self, record)
        if trace:
            fields["traceback"] = trace
        return json.dumps(given | fields if given else fields, ensure_ascii=False, default=str)


def iso_time(seconds: float) -> str:
    """Seconds since the epoch as ISO 8601 in UTC, with milliseconds."""
    whole, milliseconds = divmod(int(seconds * 1000), 1000)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(whole))}.{milliseconds:03d}Z"


def _trace(formatter: logging.Formatter, record: logging.LogRecord) -> str:
    if not record.exc_info or record.exc_info[0] is None:
        return ""
    return formatter.formatException(record.exc_info)
