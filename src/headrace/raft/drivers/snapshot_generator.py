"""When snapshots are taken, and what goes because of them.

One is due after metadata.log.max.record.bytes.between.snapshots of new records, or after
metadata.log.max.snapshot.interval.ms with any. The image is copied at once, which is cheap, and written out
in slices between which the loop serves others; the file is synced in a thread. Then the oldest snapshots
and the log below the next one go, as far as metadata.max.retention.bytes and metadata.max.retention.ms ask
for it. The latest always stays.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

from headrace.base.clock import Clock
from headrace.base.errors import ApiError
from headrace.raft.drivers.delivery import Commit, Record
from headrace.raft.metadata_log import MetadataLog
from headrace.raft.snapshots import Snapshot, SnapshotId, SnapshotWriter
from headrace.wire.record_frames import ApiMessageAndVersion

logger = logging.getLogger(__name__)

SLICE_RECORDS: Final = 500
"""Records encoded in one go: a few milliseconds, which is what a client may have to wait."""


@dataclass(frozen=True, slots=True)
class SnapshotRules:
    """The settings; 0 for the interval or -1 for a retention turns it off."""

    bytes_between: int = 20 * 1024 * 1024
    interval_ms: int = 3_600_000
    retention_bytes: int = 100 * 1024 * 1024
    retention_ms: int = 7 * 24 * 3_600_000


class SnapshotGenerator:
    """A listener of the log. It takes snapshots of what `entries_of_image` gives: an iterator over records
    that later commits do not change, or None while the image cannot be told in a snapshot.
    """

    def __init__(
        self,
        rules: SnapshotRules,
        entries_of_image: Callable[[], Iterable[ApiMessageAndVersion] | None],
        *,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
    ) -> None:
        self._rules = rules
        self._entries_of_image = entries_of_image
        self._loop = loop
        self._clock = clock
        self._log: MetadataLog | None = None
        self._bytes = 0
        self._epoch = 0
        self._timestamp_ms = 0
        self._last_ms = 0
        self._end_offset = 0
        self._task: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None

    def start(self, log: MetadataLog, now_ms: int) -> None:
        self._log = log
        self._last_ms = now_ms

    # -- following the log -----------------------------------------------------------------------------------

    def prepare(self, snapshot: Snapshot, records: Sequence[Record]) -> None:
        """The log begins with another snapshot: none is taken of what was before it."""
        self._forget_time()
        self._bytes = 0

    def handle_load_snapshot(self, snapshot: Snapshot) -> None:
        self._last_ms = self._clock.monotonic_ms()
        self._epoch, self._timestamp_ms = snapshot.id.epoch, snapshot.timestamp_ms

    def handle_commit(self, commit: Commit) -> None:
        self._bytes += commit.size
        self._epoch, self._timestamp_ms = commit.epoch, commit.timestamp_ms

    def handle_leader_change(self, leader_id: int, epoch: int) -> None:
        """Every member takes its own."""

    # -- taking them -----------------------------------------------------------------------------------------

    def consider(self, end_offset: int, now_ms: int) -> None:
        """Take a snapshot of everything below an offset if one is due and none is under way."""
        rules = self._rules
        self._end_offset = end_offset
        if self._task is not None or not self._bytes:
            return
        left_ms = self._last_ms + rules.interval_ms - now_ms
        if self._bytes >= rules.bytes_between or (rules.interval_ms > 0 and left_ms <= 0):
            self.take(end_offset, now_ms)
        elif rules.interval_ms > 0 and self._timer is None:
            self._timer = self._loop.call_later(left_ms / 1000, self._look_again)

    def _look_again(self) -> None:
        """Records may have waited for a snapshot without any following them."""
        self._timer = None
        self.consider(self._end_offset, self._clock.monotonic_ms())

    def take(self, end_offset: int, now_ms: int) -> "asyncio.Task[None] | None":
        """Take one now."""
        entries = self._entries_of_image()
        if entries is None or self._log is None:
            return None
        kraft_version, voters = self._log.history.at(end_offset)
        writer = SnapshotWriter(
            SnapshotId(end_offset, self._epoch),
            timestamp_ms=self._timestamp_ms,
            kraft_version=kraft_version,
            voters=voters,
        )
        try:
            # A segment that ends near the snapshot can go as a whole once a later one stands for it.
            self._log.log.roll(self._clock.now_ms())
        except ApiError as error:
            logger.error("no snapshot of the metadata log is taken: %s", error)
            return None
        self._bytes = 0
        self._last_ms = now_ms
        self._task = self._loop.create_task(self._write(writer, entries))
        return self._task

    async def stop(self) -> None:
        """Let a snapshot that is being written come to its end."""
        self._forget_time()
        if self._task is not None:
            await self._task

    def _forget_time(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    async def _write(self, writer: SnapshotWriter, entries: Iterable[ApiMessageAndVersion]) -> None:
        log = self._log
        assert log is not None
        try:
            data = await self._encode(writer, entries)
            await self._loop.run_in_executor(None, log.disk.replace_file, log.path_of(writer.id), data)
            log.add_snapshot(writer.id, writer.timestamp_ms)
            gone = self._outdated(log)
            if gone:
                await self._loop.run_in_executor(None, log.remove, gone)
        except (OSError, ApiError) as error:
            # The log still has everything, so nothing is lost: the next snapshot may find a better disk.
            logger.error("no snapshot of the metadata log could be written: %s", error)
        finally:
            self._task = None

    async def _encode(self, writer: SnapshotWriter, entries: Iterable[ApiMessageAndVersion]) -> bytes:
        writer.begin(self._clock.now_ms())
        left = iter(entries)
        while part := list(islice(left, SLICE_RECORDS)):
            writer.add(part, self._clock.now_ms())
            await asyncio.sleep(0)
        return writer.finish(self._clock.now_ms())

    def _outdated(self, log: MetadataLog) -> list[str]:
        """Drop the oldest snapshots, each with the log below the one after it, while the settings ask for
        it.
        """
        rules = self._rules
        now_ms = self._clock.now_ms()
        gone: list[str] = []
        while len(log.snapshots) > 1:
            oldest, following = log.snapshots[0], log.snapshots[1]
            too_large = 0 <= rules.retention_bytes < log.size_bytes
            too_old = 0 <= rules.retention_ms < now_ms - log.timestamp_of(oldest)
            if not too_large and not too_old:
                break
            gone += log.drop_before(following, now_ms)
        return gone
