"""What may take long when a node starts, and what is told meanwhile: waiting for others, opening the logs.

A node of a cluster waits for the others for as long as it takes, and most often for a moment only. Where it
takes longer there may be a reason that nobody would find in silence: an address that is wrong, a cluster of
another id, an id that is taken.

Logs are opened in a thread, recovered where the last stop was not clean. A log is a stray, and set aside,
where the image does not have this broker among the partition's replicas.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Final, TypeVar

from headrace.base.errors import ApiError
from headrace.base.ids import NO_TOPIC_ID, TopicId
from headrace.log.future_logs import recover_abandoned_future_logs
from headrace.log.log_directory import ConfigOf
from headrace.log.log_manager import LogManager
from headrace.log.log_recovery import RecoveryProgress
from headrace.log.unified_log import UnifiedLog
from headrace.metadata.image import MetadataImage
from headrace.settings.broker_config import BrokerConfig
from headrace.settings.definition import SettingError
from headrace.settings.topic import overrides_in_force

logger = logging.getLogger(__name__)


T = TypeVar("T")

Say = Callable[[str], None]

TELL_EVERY_S: Final = 1.0
"""A node may recover thousands of logs, most in a moment: what takes longer is told, and damage always."""

ODD_AFTER_S: Final = 5.0
"""Longer than others of a cluster that starts take; less than somebody waits before they look."""
AGAIN_AFTER_S: Final = 30.0


async def telling(work: Coroutine[object, object, T], say: Say | None, reason: Callable[[], str]) -> T:
    """What the work returns; while it takes long, the reason is told now and then."""
    if say is None:
        return await work
    task = asyncio.ensure_future(work)
    wait_s = ODD_AFTER_S
    try:
        while not (await asyncio.wait([task], timeout=wait_s))[0]:
            say(reason())
            wait_s = AGAIN_AFTER_S
        return task.result()
    finally:
        task.cancel()


async def open_logs(
    store: LogManager,
    image: MetadataImage,
    config_of: ConfigOf,
    *,
    node_id: int,
    loop: asyncio.AbstractEventLoop,
    say: Say | None,
) -> None:
    """Open all logs of a node's folders; `say` is told of a recovery's progress."""
    told_s = loop.time()

    def tell(progress: RecoveryProgress) -> None:
        nonlocal told_s
        if say is not None and (progress.bytes_cut or loop.time() - told_s >= TELL_EVERY_S):
            told_s = loop.time()
            say(_progress_text(progress))

    def on_progress(progress: RecoveryProgress) -> None:
        loop.call_soon_threadsafe(tell, progress)

    def load_logs() -> None:
        store.load_logs(
            config_of,
            on_progress=on_progress,
            is_stray=lambda log: not is_at_home(log, image, node_id),
        )
        recover_abandoned_future_logs(store)

    await loop.run_in_executor(None, load_logs)
    set_strays_aside(store, image, node_id)


def check_tiering(config: BrokerConfig, image: MetadataImage) -> None:
    """SettingError where tiering is switched off while topics have it: their older records would be out of
    reach, and nobody would clean up behind them. Kafka refuses to start, too."""
    if config.bool("remote.log.storage.system.enable"):
        return
    tiered = sorted(topic.name for topic in image.topics_by_id.values() if _is_tiered(image, topic.name))
    if tiered:
        raise SettingError(
            "remote.log.storage.system.enable",
            f"false, but topics have records in a remote store ({', '.join(tiered[:5])}"
            f"{', …' if len(tiered) > 5 else ''}): delete them, or their remote.storage.enable, before",
        )


def _is_tiered(image: MetadataImage, topic: str) -> bool:
    own = overrides_in_force(topic, image.topic_config_of(topic))
    return own.get("remote.storage.enable", "").lower() == "true"


def _progress_text(progress: RecoveryProgress) -> str:
    text = f"recovering {progress.folder}: segment {progress.segments_done} of {progress.segments_total}"
    return f"{text}, {progress.bytes_cut} damaged bytes cut off" if progress.bytes_cut else text


def set_strays_aside(store: LogManager, image: MetadataImage, node_id: int) -> None:
    """Logs of topics that were deleted or moved while this node was down are not this node's any more.

    A log whose `partition.metadata` was lost to damage says no id, or one that chance cannot have made so
    like the topic's: its name decides, and the id is written anew.
    """
    for log in list(store.logs()):
        topic = image.topics_by_name.get(log.topic_partition.topic)
        try:
            if topic is None or not is_at_home(log, image, node_id):
                logger.warning("%s is not placed here by the cluster: set aside", log.topic_partition)
                store.mark_stray(log.topic_partition)
            elif log.topic_id != topic.id:
                log.assign_topic_id(topic.id)
        except ApiError as error:
            logger.error("the disk under %s failed: %s", log.topic_partition, error)


def is_at_home(log: UnifiedLog, image: MetadataImage, node_id: int) -> bool:
    """Whether the cluster places this log on this node."""
    topic = image.topics_by_name.get(log.topic_partition.topic)
    if topic is None or not _is_or_was(log.topic_id, topic.id):
        return False
    partition = topic.partitions.get(log.topic_partition.partition)
    return partition is not None and node_id in partition.replicas


def _is_or_was(found: TopicId, topic_id: TopicId) -> bool:
    """Whether a log's id is the topic's, as it was written or as a damaged character left it.

    A character stands for six bits. Of two random ids so many bits agree less than once in 10^27.
    """
    unlike = int.from_bytes(found, "big") ^ int.from_bytes(topic_id, "big")
    return found == NO_TOPIC_ID or unlike.bit_count() <= 6
