"""What topics left in the remote store that were deleted, or are tiered no more, removed by the leaders of
`__remote_log_metadata`.

A topic's own leaders are gone with it, and may have been down when it was deleted. But the records of its
segments stay, so whoever leads the partition that holds them finds a topic id that the cluster does not know
any more, and removes the segments. Before it believes its own image of the cluster it makes sure that this is
not an old one: a topic that is too new to be known would look the same. An id never comes back.

A topic of which tiering was turned off has its leaders remove the segments while its settings say so
(`remote.log.delete.on.disable`). That setting may be taken back before they are done, or have heard of it.
The cluster let tiering be turned off with that setting alone, so whatever the records name of a topic that is
not tiered is to go. But it may be tiered again at any time, and then what is left is the log's: so before
each segment it is made sure anew that it is not, and the last ones go first (see `remote_log.expiration`).
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from headrace.base.errors import ApiError, InvalidBytesError
from headrace.base.internal_topics import METADATA_TOPIC, NEVER_TIERED
from headrace.controller.drivers.controller import Controller
from headrace.metadata.image import MetadataImage
from headrace.remote_log.expiration import OrphanSweep, remove
from headrace.remote_log.metadata_manager import TopicBasedRemoteLogMetadataManager
from headrace.remote_log.steps import StepRunner
from headrace.settings.topic import TIERING
from headrace.tiered.remote_storage import RemoteStorageError
from headrace.tiered.segment_metadata import TopicIdPartition
from headrace.wire.schemas.describe_quorum import (
    DescribeQuorumRequest,
    RequestPartitionData,
    RequestTopicData,
)

logger = logging.getLogger(__name__)

SWEEP_S: Final = 600.0
"""A while after its segments are gone, a topic's objects are looked for once more: a broker that did not know
yet may have been at a copy."""
STOP_S: Final = 5.0
DESCRIBE_VERSION: Final = 2
CATCH_UP_PAUSE_S: Final = 0.1


class DeletedTopics:
    """Looks for what topics left behind every `interval_s`, and soon after `note`."""

    def __init__(
        self,
        metadata: TopicBasedRemoteLogMetadataManager,
        runner: StepRunner,
        sweep: OrphanSweep,
        image: MetadataImage,
        controller: Controller,
        *,
        loop: asyncio.AbstractEventLoop,
        interval_s: Callable[[], float],
    ) -> None:
        self._metadata = metadata
        self._runner = runner
        self._sweep = sweep
        self._image = image
        self._controller = controller
        self._loop = loop
        self._interval_s = interval_s
        self._sweep_at_s: dict[TopicIdPartition, float] = {}
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._stopping = False

    def start(self) -> None:
        self._task = self._loop.create_task(self._run())

    def note(self) -> None:
        """A topic was deleted or has other settings, or a leader changed."""
        self._wake.set()

    def abandon(self) -> None:
        self._stopping = True
        self._wake.set()

    async def stop(self) -> None:
        self.abandon()
        if self._task is not None:
            await asyncio.wait([self._task], timeout=STOP_S)
            self._task.cancel()  # it may wait for a controller that stops as well

    async def _run(self) -> None:
        while not self._stopping:
            try:
                await self._look()
            except (RemoteStorageError, ApiError, OSError, InvalidBytesError) as error:
                logger.warning("what topics left in the remote store is not removed yet: %s", error)
            except Exception:
                logger.exception("what topics left in the remote store")
            self._wake.clear()
            waking = self._loop.create_task(self._wake.wait())
            await asyncio.wait([waking], timeout=self._interval_s())
            waking.cancel()

    async def _look(self) -> None:
        left = self._left_behind()
        if not left or not await self._is_up_to_date():
            return
        for partition in self._left_behind():
            if self._is_ours(partition)():
                await self._remove_all(partition)

    def _left_behind(self) -> list[TopicIdPartition]:
        """Partitions of topics that are deleted or tiered no more, which nobody has looked for lately."""
        led, now_s = self._metadata.partitions_led_here(), self._loop.time()
        logs = self._metadata.logs
        return [
            partition
            for partition in logs.partitions()
            if (len(logs.known(partition)) or self._sweep_at_s.get(partition, 0.0) <= now_s)
            and self._metadata.partition_of(partition) in led
            and (self._is_deleted(partition) or self._is_tiered_no_more(partition))
        ]

    def _is_deleted(self, partition: TopicIdPartition) -> bool:
        return partition.topic_id not in self._image.topics_by_id

    def _is_tiered_no_more(self, partition: TopicIdPartition) -> bool:
        """Whether nobody else removes what it has in the store. What cannot be read in its settings may mean
        that it is tiered.
        """
        topic = self._image.topics_by_id.get(partition.topic_id)
        if topic is None or topic.name in NEVER_TIERED:
            return False
        own = self._image.topic_config_of(topic.name)
        return all(own.get(name, "false").strip().lower() == "false" for name in TIERING)

    def _is_ours(self, partition: TopicIdPartition) -> Callable[[], bool]:
        """Whether this broker is to remove what is left, as far as it knows."""
        return lambda: (
            not self._stopping
            and self._metadata.partition_of(partition) in self._metadata.partitions_led_here()
            and (self._is_deleted(partition) or self._is_tiered_no_more(partition))
        )

    async def _is_up_to_date(self) -> bool:
        """Whether the image has everything that was committed before this call."""
        asked = DescribeQuorumRequest([RequestTopicData(METADATA_TOPIC, [RequestPartitionData(0)])])
        answer = await self._controller.ask(asked, api_version=DESCRIBE_VERSION)
        if answer.error_code or answer.topics[0].partitions[0].error_code:
            return False
        committed = answer.topics[0].partitions[0].high_watermark
        while self._image.offset < committed - 1 and not self._stopping:
            await asyncio.sleep(CATCH_UP_PAUSE_S)
        return not self._stopping

    async def _remove_all(self, partition: TopicIdPartition) -> None:
        is_wanted, is_deleted = self._is_ours(partition), self._is_deleted(partition)
        if not await self._metadata.catch_up(partition, is_wanted):
            return
        remote = self._metadata.logs.known(partition)
        segments = sorted(remote, key=lambda segment: segment.start_offset, reverse=True)
        for segment in segments:
            if not is_deleted and not (await self._is_up_to_date() and is_wanted()):
                return
            if not await self._runner.run(
                remove(segment, self._runner.store, self._runner.publisher), is_wanted
            ):
                return
        await self._sweep.run(partition, remote, is_wanted, is_deleted=is_deleted)
        again = bool(segments) or partition not in self._sweep_at_s
        self._sweep_at_s[partition] = self._loop.time() + SWEEP_S if again else float("inf")
        if segments:
            why = "was deleted" if is_deleted else "is tiered no more"
            logger.info("removed %d remote segments of %s, which %s", len(segments), partition, why)
