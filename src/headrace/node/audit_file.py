"""The file of the audit trail: lines are appended by a worker thread, some at a time.

The file is opened anew for each write, so that it can be moved away at any time: the next lines begin a new
one under its name. What cannot be written is counted as missing, and tried no more.
"""

import asyncio
import logging
from typing import Final

from headrace.controller.drivers.controller import Controller
from headrace.log.disk import Disk, File
from headrace.metadata.image import MetadataImage
from headrace.server.environment import NodeEnvironment
from headrace.settings.broker_config import BrokerConfig
from headrace.settings.definition import SettingError
from headrace.telemetry.audit import AuditRules, AuditTrail
from headrace.wire.apis import API

logger = logging.getLogger(__name__)

FILE: Final = "headrace.audit.file"
TOPIC: Final = "headrace.audit.topic"
GATHER_S: Final = 0.05
"""Lines that come within this are written together."""
LINE_BYTES_MAX: Final = 1 << 20
"""No line is longer: names and their number are limited."""


def new_audit_trail(
    config: BrokerConfig, world: NodeEnvironment, image: MetadataImage, controller: Controller
) -> AuditTrail | None:
    """A node's trail; None where neither a file nor a topic is named. OSError where the file cannot be
    written to."""
    path, topic = config.str(FILE), config.str(TOPIC)
    if not path and not topic:
        return None
    if path and topic:
        raise SettingError(TOPIC, f"a trail has one place: take out this, or {FILE}")
    rules = AuditRules(
        changes=config.bool("headrace.audit.changes"),
        refusals=config.bool("headrace.audit.refusals"),
        reads=tuple(config.list("headrace.audit.reads")),
    )
    trail = AuditTrail(
        rules,
        node_id=config.node_id,
        requests={int(api.key): api.name for api in API.values()},
        now_ms=world.clock.now_ms,
        monotonic_s=world.loop.time,
    )
    if path:
        trail.writer = AuditFile(path, trail, disk=world.disk, loop=world.loop)
    else:
        from headrace.node.audit_topic import AuditTopic  # most nodes have none

        trail.writer = AuditTopic(
            topic, trail, config=config, image=image, controller=controller, world=world
        )
    return trail


class AuditFile:
    """Writes a trail to the end of a file."""

    def __init__(self, path: str, trail: AuditTrail, *, disk: Disk, loop: asyncio.AbstractEventLoop) -> None:
        self._path = path
        self._disk = disk
        self._loop = loop
        self._trail = trail
        self._writing: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._disk.open(self._path, create=True).close()

    def write_soon(self) -> None:
        """Lines wait."""
        if self._timer is None and self._writing is None:
            self._timer = self._loop.call_later(GATHER_S, self._begin)

    def _begin(self) -> None:
        self._timer = None
        lines = self._trail.take()
        if lines:
            self._writing = self._loop.run_in_executor(None, self._append, lines)
            self._writing.add_done_callback(lambda done: self._written(done, len(lines)))

    def _append(self, lines: list[str]) -> None:
        data = "".join(f"{line}\n" for line in lines).encode("utf-8", "backslashreplace")
        file = self._disk.open(self._path, create=True)
        try:
            file.write(_cut_half_line(file), [data])
        finally:
            file.close()

    def _written(self, done: "asyncio.Future[None]", count: int) -> None:
        self._writing = None
        if done.cancelled():
            return
        error = done.exception()
        if error is not None:
            self._trail.lose(count)
            logger.error("the audit trail cannot be written: %s: make room, or mend its disk", error)
        self._begin()

    async def close(self) -> None:
        """Write what is left."""
        while self._timer is not None or self._writing is not None:
            if self._timer is not None:
                self._timer.cancel()
                self._begin()
            if self._writing is not None:
                await asyncio.wait([self._writing])
                await asyncio.sleep(0)  # its callback may have begun another


def _cut_half_line(file: File) -> int:
    """Where the last whole line ends: a write that failed, or a crash, may have left half of one behind."""
    size = file.size()
    if not size or file.read(size - 1, 1) == b"\n":
        return size
    last = file.read(max(0, size - LINE_BYTES_MAX), min(size, LINE_BYTES_MAX))
    end = size - len(last) + last.rfind(b"\n") + 1
    file.truncate(end)
    return end
