"""Opening a broker's logs when it starts: recovered where the last stop was not clean, strays set aside.

It may take a while, so it runs in a thread and tells how far it has got. A log is a stray where the image
does not have this broker among the partition's replicas.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from headrace.log.log_folder import ConfigOf
from headrace.log.log_moves import adopt_abandoned
from headrace.log.log_store import LogStore
from headrace.log.recovery import RecoveryProgress
from headrace.metadata.image import ClusterImage
from headrace.node.strays import is_at_home, set_strays_aside
from headrace.settings.broker_config import BrokerConfig
from headrace.settings.definition import SettingError
from headrace.settings.topic import overrides_in_force

Say = Callable[[str], None]

TELL_EVERY_S: Final = 1.0
"""A node may recover thousands of logs, most in a moment: what takes longer is told, and damage always."""


async def open_logs(
    store: LogStore,
    image: ClusterImage,
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

    def open_all() -> None:
        store.open_all(
            config_of,
            on_progress=on_progress,
            is_stray=lambda log: not is_at_home(log, image, node_id),
        )
        adopt_abandoned(store)

    await loop.run_in_executor(None, open_all)
    set_strays_aside(store, image, node_id)


def check_tiering(config: BrokerConfig, image: ClusterImage) -> None:
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


def _is_tiered(image: ClusterImage, topic: str) -> bool:
    own = overrides_in_force(topic, image.topic_config_of(topic))
    return own.get("remote.storage.enable", "").lower() == "true"


def _progress_text(progress: RecoveryProgress) -> str:
    text = f"recovering {progress.folder}: segment {progress.segments_done} of {progress.segments_total}"
    return f"{text}, {progress.bytes_cut} damaged bytes cut off" if progress.bytes_cut else text
