"""Work on remote segments as steps, and the runner that does them.

Copying, expiration and compaction are generators that run on the event loop. They yield

- `Work` for a thread, and get back how many bytes it moved, or the error it raised thrown in;
- `Publish`, a record for `__remote_log_metadata`, and get back whether it took effect: True once it was read
  back, False where this node has no say any more and nobody knows;
- `AwaitQuota`, before many bytes are moved. That may take long, and where this node has no say any more by
  then, the work ends there: it is yielded only while nothing was begun that somebody must remove.

A crash between any two steps leaves something that the records name.

Threads are of an executor of their own: a slow store must not keep a log from being synced. All logs that are
copied or compacted share `remote.log.manager.copy.max.bytes.per.second`. Their bytes count before they are
moved, so of many that want to begin at once only one does. The small objects beside them do not count, as in
Kafka.
"""

import asyncio
from collections.abc import Callable, Collection, Generator
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from typing import Final, Protocol, TypeVar

from headrace.base.errors import InvalidBytesError
from headrace.tiered.metadata_cache import RemotePartitionMetadataStore
from headrace.tiered.quota_manager import RLMQuotaManager
from headrace.tiered.remote_storage import RemoteStorageError, RemoteStorageManager
from headrace.tiered.segment_metadata import (
    GIVEN_UP,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemoteLogSegmentState,
    TopicIdPartition,
)

T = TypeVar("T")
IsWanted = Callable[[], bool]
Work = Callable[[], int]

PAUSE_S: Final = 1.0
"""How long to wait for the quota at most before asking again: it may have been raised."""


@dataclass(frozen=True, slots=True)
class Publish:
    """A record to be written and read back."""

    record: RemoteLogSegmentMetadata | RemoteLogSegmentMetadataUpdate


@dataclass(frozen=True, slots=True)
class AwaitQuota:
    """Wait until the copy quota has room for so many bytes."""

    size: int


Steps = Generator[Work | Publish | AwaitQuota, int, bool]
"""Returns whether what was to be done is done."""


@dataclass(frozen=True, slots=True)
class Publisher:
    """Makes the records that this broker publishes about a segment."""

    broker_id: int
    now_ms: Callable[[], int]

    def finish(self, copied: RemoteLogSegmentMetadata) -> Publish:
        """All of a copy is there; its store's note came after it was announced."""
        custom_metadata = None if copied.note is None else copied.custom_metadata
        return Publish(
            replace(
                self._update(copied, RemoteLogSegmentState.COPY_FINISHED), custom_metadata=custom_metadata
            )
        )

    def update(
        self, segment: RemoteLogSegmentMetadata, state: RemoteLogSegmentState, mark: bytes | None = None
    ) -> Publish:
        return Publish(replace(self._update(segment, state), custom_metadata=mark))

    def give_up(self, copied: RemoteLogSegmentMetadata) -> Publish:
        """Another leader's copy can no longer be finished: its announcement once more, with a mark."""
        again = copied.moved_to(
            RemoteLogSegmentState.COPY_STARTED, broker_id=self.broker_id, event_ms=self.now_ms()
        )
        return Publish(replace(again, custom_metadata=GIVEN_UP))

    def _update(
        self, segment: RemoteLogSegmentMetadata, state: RemoteLogSegmentState
    ) -> RemoteLogSegmentMetadataUpdate:
        return RemoteLogSegmentMetadataUpdate(
            segment.partition, segment.segment_id, state, self.broker_id, self.now_ms()
        )


class RemoteLogMetadataManager(Protocol):
    """What tasks need of `__remote_log_metadata`: see `metadata_manager`."""

    logs: RemotePartitionMetadataStore

    async def publish(
        self, record: RemoteLogSegmentMetadata | RemoteLogSegmentMetadataUpdate, is_wanted: IsWanted
    ) -> bool: ...

    async def catch_up(self, partition: TopicIdPartition, is_wanted: IsWanted) -> bool: ...

    async def search_for(
        self, partition: TopicIdPartition, ids: Collection[str], is_wanted: IsWanted
    ) -> dict[str, bool] | None: ...


class StepRunner:
    """Does steps: publishes records, and runs what blocks on the store in threads."""

    def __init__(
        self,
        metadata: RemoteLogMetadataManager,
        store: RemoteStorageManager,
        publisher: Publisher,
        *,
        loop: asyncio.AbstractEventLoop,
        bytes_per_second: Callable[[], int],
        executor: Executor | None = None,
    ) -> None:
        self.metadata = metadata
        self.store = store
        self.publisher = publisher
        self._loop = loop
        self._executor = executor
        self._quota = RLMQuotaManager(bytes_per_second)
        self.copied_bytes = 0

    async def run(self, steps: Steps, is_wanted: IsWanted) -> bool:
        """Do the steps one after the other; whether what they are for is done."""
        try:
            step = next(steps)
            while True:
                if isinstance(step, Publish):
                    step = steps.send(await self.metadata.publish(step.record, is_wanted))
                    continue
                if isinstance(step, AwaitQuota):
                    if not await self.await_quota(step.size, is_wanted):
                        steps.close()
                        return False
                    step = steps.send(0)
                    continue
                try:
                    moved = await self.in_thread(step)
                except (RemoteStorageError, OSError, InvalidBytesError) as error:
                    step = steps.throw(error)
                else:
                    step = steps.send(moved)
        except StopIteration as stop:
            return bool(stop.value)

    async def in_thread(self, work: Callable[[], T]) -> T:
        return await self._loop.run_in_executor(self._executor, work)

    async def await_quota(self, size: int, is_wanted: IsWanted) -> bool:
        """Wait until the copy quota has room for so many bytes, and count them. False: nobody wants them
        moved any more.
        """
        while is_wanted():
            wait_s = self._quota.wait_s(self._loop.time())
            if wait_s <= 0:
                self._quota.take(size, self._loop.time())
                self.copied_bytes += size
                return True
            await asyncio.sleep(min(wait_s, PAUSE_S))
        return False
