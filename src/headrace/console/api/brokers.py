"""Brokers, their folders, the metadata quorum, and partitions that move."""

from collections.abc import Mapping, Sequence
from typing import Any

from headrace.base.ids import TopicPartition
from headrace.clients.errors import ClientError
from headrace.console.http_server import RefusedCallError
from headrace.console.visit import Visit, number_of, text_of


async def brokers(visit: Visit) -> Any:
    picture = await visit.watch.picture()
    leads: dict[int, int] = {}
    replicas: dict[int, int] = {}
    for topic in picture.topics.values():
        for each in topic.partitions:
            leads[each.leader] = leads.get(each.leader, 0) + 1
            for node in each.replicas:
                replicas[node] = replicas.get(node, 0) + 1
    quorum = picture.quorum
    return {
        "taken": picture.taken_ms,
        "gaps": picture.gaps,
        "cluster_id": picture.cluster.cluster_id,
        "brokers": [
            {
                "id": each.node_id,
                "host": each.host,
                "port": each.port,
                "rack": each.rack,
                "fenced": each.fenced,
                "trouble": picture.unreachable.get(each.node_id, ""),
                "leads": leads.get(each.node_id, 0),
                "replicas": replicas.get(each.node_id, 0),
                "bytes": sum(
                    sum(folder.partitions.values())
                    for folder in picture.folders
                    if folder.node_id == each.node_id
                ),
                "is_controller": quorum is not None and quorum.leader_id == each.node_id,
            }
            for each in picture.cluster.brokers
        ],
        "folders": [
            {
                "broker": each.node_id,
                "path": each.path,
                "error": each.error,
                "partitions": len(each.partitions),
                "bytes": sum(each.partitions.values()),
                "total": each.total_bytes,
                "usable": each.usable_bytes,
            }
            for each in sorted(picture.folders, key=lambda each: (each.node_id, each.path))
        ],
        "quorum": None
        if quorum is None
        else {
            "leader": quorum.leader_id,
            "epoch": quorum.leader_epoch,
            "high_watermark": quorum.high_watermark,
            "members": [
                {
                    "id": each.node_id,
                    "voter": each.is_voter,
                    "end": each.log_end_offset,
                    "behind": max(0, quorum.high_watermark - each.log_end_offset),
                    "caught_up": each.last_caught_up_ms,
                    "endpoints": list(each.endpoints),
                }
                for each in quorum.members
            ],
        },
        # Who may not see the brokers' folders is not told of their load either.
        "metrics": [] if visit.metrics is None or not picture.folders else visit.metrics.figures(),
    }


async def reassignments(visit: Visit) -> Any:
    """Partitions that move, and how far the new replicas have got, by their sizes on disk."""
    moving = await visit.admin.list_reassignments()
    picture = await visit.watch.picture()
    sizes: dict[TopicPartition, dict[int, int]] = {}
    for folder in picture.folders:
        for place in moving:
            if place in folder.partitions:
                sizes.setdefault(place, {})[folder.node_id] = folder.partitions[place]
    return {
        "reassignments": [
            {
                "topic": place.topic,
                "partition": place.partition,
                "replicas": each.replicas,
                "adding": each.adding,
                "removing": each.removing,
                "bytes": {str(node): size for node, size in sizes.get(place, {}).items()},
                "copied": _copied(each.adding, sizes.get(place, {})),
            }
            for place, each in sorted(moving.items())
        ]
    }


def _copied(adding: Sequence[int], sizes: Mapping[int, int]) -> dict[str, float]:
    """How much of the largest replica each new one has, from 0 to 1; empty where nobody tells sizes."""
    whole = max(sizes.values(), default=0)
    if whole <= 0:
        return {}
    return {str(node): sizes.get(node, 0) / whole for node in adding}


async def reassign(visit: Visit) -> Any:
    """Begin to move a partition to other brokers, or (replicas null) stop moving it."""
    body = visit.request.json()
    place = TopicPartition(text_of(body, "topic"), number_of(body, "partition"))
    replicas = body.get("replicas")
    if replicas is not None and (
        not isinstance(replicas, list) or not replicas or not all(isinstance(each, int) for each in replicas)
    ):
        raise RefusedCallError(400, "'replicas' must be a list of broker numbers, or null to stop")
    visit.details |= {"partition": str(place), "replicas": replicas}
    failed = await visit.admin.reassign({place: replicas})
    visit.watch.changed()
    for error in failed.values():
        raise error if isinstance(error, ClientError) else RefusedCallError(409, str(error))
    return {}
