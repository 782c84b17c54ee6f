"""The audit trail: who did what to which resource from where, and whether it was allowed. One JSON object
each line; Kafka has log lines of its authorizer at most.

Three kinds of events, by `AuditRules`: changes of the cluster, refusals, and reading of topics that were
chosen, the latter once for each client in a while. An event has names, never contents: no records, no values
of settings, no passwords and no tokens.

Whoever serves requests calls `on_decision` and goes on at once: lines wait in a queue of a limited length
until somebody `take`s and writes them. What does not fit is counted and said, in the trail itself and in the
log, so that a gap can be seen.
"""

from __future__ import annotations

import json
import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final, Protocol

from headrace.telemetry.limited_log import LimitedLog
from headrace.telemetry.log_lines import iso_time

logger = logging.getLogger(__name__)

LINES_MAX: Final = 10_000
"""That wait to be written: some seconds of a flood, in a few MB."""
NAME_MAX: Final = 1_000
"""Characters of a name that a client chose."""
DETAILS_MAX: Final = 100
"""Of one event are told."""
REPEATED_AFTER_MS: Final = 3_600_000
"""The same client reads the same topic: said once in an hour."""
READERS_MAX: Final = 10_000
"""Whose reading is remembered; beyond them all are forgotten, and said again."""

LOST: Final = (
    "%d events are missing from the audit trail: they came faster than they could be written, or the disk "
    "under it is full or fails"
)


class Asking(Protocol):
    """Who asks, as `server/context.py` knows it."""

    api_key: int
    client_id: str | None
    peer: Any


@dataclass(frozen=True, slots=True)
class AuditRules:
    """Which events are written. Of `reads`, a name that ends with * stands for all that begin so."""

    changes: bool = True
    refusals: bool = True
    reads: Sequence[str] = ()

    def has_read(self, topic: str) -> bool:
        """Whether reading this topic is written down."""
        return any(
            topic.startswith(name[:-1]) if name.endswith("*") else topic == name for name in self.reads
        )


class AuditWriter(Protocol):
    """Takes lines from a trail and writes them."""

    def write_soon(self) -> None:
        """Lines wait."""
        ...

    async def close(self) -> None:
        """Write what is left."""
        ...


class AuditTrail:
    """The events of one node that wait to be written, by its `writer`."""

    def __init__(
        self,
        rules: AuditRules,
        *,
        node_id: int,
        requests: Mapping[int, str],
        now_ms: Callable[[], int],
        monotonic_s: Callable[[], float],
    ) -> None:
        self.rules = rules
        self.lost = 0
        self.writer: AuditWriter | None = None
        self._node_id = node_id
        self._requests = requests
        self._now_ms = now_ms
        self._lines: deque[str] = deque()
        self._untold = 0  # events that are missing since the last line
        self._read_at: dict[tuple[str, ...], int] = {}
        self._losses = LimitedLog(monotonic_s, logger, logging.WARNING)

    def on_decision(
        self,
        context: Asking,
        operation: IntEnum | str,
        resource: IntEnum | str,
        name: str,
        allowed: bool,
        *,
        error: str = "",
        details: Sequence[str] = (),
    ) -> None:
        """Somebody asked for an operation on a resource. An `error` says why it failed though it was allowed,
        `details` what it was about, in names.
        """
        if not (self.rules.changes if allowed else self.rules.refusals):
            return
        peer = context.peer
        event: dict[str, Any] = {
            "time": iso_time(self._now_ms() / 1000),
            "node": self._node_id,
            "principal": peer.principal,
            "host": peer.host,
            "listener": peer.listener,
            "client": _cut(context.client_id),
            "request": self._requests.get(context.api_key, str(context.api_key)),
            "operation": _name(operation),
            "resource": _name(resource),
            "name": _cut(name),
            "allowed": allowed,
        }
        if error:
            event["error"] = error
        if details:
            event["details"] = [_cut(each) for each in details[:DETAILS_MAX]]
            if len(details) > DETAILS_MAX:
                event["more_details"] = len(details) - DETAILS_MAX
        self._put(event)

    def on_stranger(self, listener: str, host: str, request: str, why: str) -> None:
        """Somebody was refused before it was known who it is: in a handshake, or with a bare token."""
        if not self.rules.refusals:
            return
        self._put(
            {
                "time": iso_time(self._now_ms() / 1000),
                "node": self._node_id,
                "principal": "User:ANONYMOUS",
                "host": host,
                "listener": listener,
                "client": None,
                "request": request,
                "operation": "AUTHENTICATE",
                "resource": "LISTENER",
                "name": listener,
                "allowed": False,
                "error": _cut(why),
            }
        )

    def on_read(self, context: Asking, topic: str) -> None:
        """Somebody reads a topic, and may. Only for those that `rules.has_read` names."""
        peer = context.peer
        reader = (peer.principal, peer.host, context.client_id or "", topic)
        now_ms = self._now_ms()
        if now_ms - self._read_at.get(reader, -REPEATED_AFTER_MS) < REPEATED_AFTER_MS:
            return
        if len(self._read_at) >= READERS_MAX:
            self._read_at.clear()
        self._read_at[reader] = now_ms
        self._put(
            {
                "time": iso_time(now_ms / 1000),
                "node": self._node_id,
                "principal": peer.principal,
                "host": peer.host,
                "listener": peer.listener,
                "client": _cut(context.client_id),
                "request": self._requests.get(context.api_key, str(context.api_key)),
                "operation": "READ",
                "resource": "TOPIC",
                "name": topic,
                "allowed": True,
            }
        )

    def _put(self, event: dict[str, Any]) -> None:
        if len(self._lines) >= LINES_MAX:
            self.lose(1)
            return
        if self._untold:
            event["missing_before"], self._untold = self._untold, 0
        self._lines.append(json.dumps(event, ensure_ascii=False))
        if len(self._lines) == 1 and self.writer is not None:
            self.writer.write_soon()

    def lose(self, count: int) -> None:
        """So many events are not in the trail: the next one says so, and the log."""
        self.lost += count
        self._untold += count
        self._losses.write(LOST, count)

    def take(self) -> list[str]:
        """The lines that wait; whoever takes them writes them."""
        lines = list(self._lines)
        self._lines.clear()
        return lines


def _name(value: IntEnum | str) -> str:
    return value if isinstance(value, str) else value.name


def _cut(name: str | None) -> str | None:
    return name if name is None or len(name) <= NAME_MAX else f"{name[:NAME_MAX]}…"
