"""A topic with remote storage: what is on leaders' disks, in the remote store, and on its way there.

What the store holds is read from `__remote_log_metadata`, over the visitor's own connection: who may not
read that topic is told so.
"""

import asyncio
from typing import Any, Final

from headrace.base.ids import TopicId, TopicPartition, uuid_bytes
from headrace.clients import AsyncAdmin, OffsetSpec
from headrace.clients.errors import ClientError
from headrace.clients.tiered_partition import TierOffsets, segment_bytes_of, spread
from headrace.console.cluster_picture import offsets_at
from headrace.console.visit import Visit
from headrace.tiered.segment_metadata import TopicIdPartition

_ENABLED: Final = "remote.storage.enable"
_PLACES: Final = (OffsetSpec.EARLIEST, OffsetSpec.EARLIEST_LOCAL, OffsetSpec.LATEST_TIERED, OffsetSpec.LATEST)


async def tiers(visit: Visit) -> Any:
    """Partition by partition, as `topic describe` tells it; `is_tiered` is false without the setting."""
    name = visit.arguments["topic"]
    settings = {each.name: each.value for each in await visit.admin.describe_configs("topic", name)}
    if settings.get(_ENABLED) != "true":
        return {"is_tiered": False, "partitions": []}
    [described] = await visit.admin.describe_topics(name)
    topic_id = TopicId(uuid_bytes(described.topic_id))
    led = {
        TopicPartition(name, each.number): each.leader for each in described.partitions if each.leader >= 0
    }
    logs = await visit.watch.remote_logs.of(visit.admin, [TopicIdPartition(topic_id, each) for each in led])
    starts, local_starts, tiered, ends = [await offsets_at(visit.admin, led, place) for place in _PLACES]
    sizes = await _local_bytes(visit.admin, led)
    found = []
    for place in sorted(led):
        if place in starts and place in local_starts and place in ends:
            tiered_to = max(tiered.get(place, -1) + 1, starts[place])
            offsets = TierOffsets(starts[place], local_starts[place], tiered_to, ends[place])
            partition = spread(
                place.partition,
                offsets,
                logs[TopicIdPartition(topic_id, place)],
                local_bytes=sizes.get(place),
                segment_bytes=segment_bytes_of(settings),
            )
            found.append(partition._asdict())
    return {"is_tiered": True, "partitions": found}


async def _local_bytes(admin: AsyncAdmin, led: dict[TopicPartition, int]) -> dict[TopicPartition, int]:
    """What these partitions take on their leaders, now."""
    nodes = sorted(set(led.values()))
    asked = await asyncio.gather(*map(admin.describe_log_dirs, nodes), return_exceptions=True)
    found = {}
    for node, folders in zip(nodes, asked, strict=True):
        if isinstance(folders, ClientError):
            continue  # a broker that does not tell takes nothing else with it: its sizes are missing
        if isinstance(folders, BaseException):
            raise folders
        for folder in folders:
            found.update({place: size for place, size in folder.partitions.items() if led.get(place) == node})
    return found
