"""Topics: the list, a topic with its partitions and groups, and changing them."""

from collections.abc import Iterator
from typing import Any

from headrace.base.error_codes import ErrorCode
from headrace.base.ids import TopicPartition
from headrace.clients import OffsetSpec
from headrace.clients.errors import ClientError
from headrace.console.cluster_picture import ClusterPicture, offsets_at
from headrace.console.cluster_watch import ClusterWatch
from headrace.console.course import rates_of
from headrace.console.http_server import RefusedCallError
from headrace.console.visit import Visit, number_of, text_of, texts_of


async def topics(visit: Visit) -> Any:
    """All topics, each as a row of the table; with `since`, those that changed since that version."""
    picture = await visit.watch.picture()
    version, is_whole, rows, gone = visit.watch.topic_rows.since(
        visit.request.query.get("since", ""), picture, lambda: _rows(visit.watch, picture)
    )
    return {
        "taken": picture.taken_ms,
        "gaps": picture.gaps,
        "version": version,
        "whole": is_whole,
        "gone": gone,
        "topics": rows,
    }


def _rows(watch: ClusterWatch, picture: ClusterPicture) -> Iterator[dict[str, Any]]:
    for name, topic in picture.topics.items():
        groups = picture.topic_groups.get(name)
        yield {
            "name": name,
            "internal": topic.internal,
            "partitions": len(topic.partitions),
            "replication": topic.replication_factor,
            "unwell": sum(each.leader < 0 or each.is_under_replicated for each in topic.partitions),
            "records": picture.records(name),
            "bytes": picture.sizes.get(name),
            "rate": watch.rate(name),
            "groups": len(groups or ()),
            "lag": max(groups.values()) if groups else None,
        }


async def topic(visit: Visit) -> Any:
    """One topic as it is now, with the groups that read it as they were in the last picture."""
    name = visit.arguments["topic"]
    [described] = await visit.admin.describe_topics(name)
    places = [TopicPartition(name, each.number) for each in described.partitions]
    starts = await offsets_at(visit.admin, places, OffsetSpec.EARLIEST)
    ends = await offsets_at(visit.admin, places, OffsetSpec.LATEST)
    picture = await visit.watch.picture()
    sizes: dict[TopicPartition, dict[int, int]] = {}
    for folder in picture.folders:
        for each in places:
            if each in folder.partitions:
                sizes.setdefault(each, {})[folder.node_id] = folder.partitions[each]
    return {
        "name": name,
        "id": described.topic_id,
        "internal": described.internal,
        "bytes": picture.sizes.get(name),
        "rate": visit.watch.rate(name),
        "times": list(visit.watch.times),
        "rates": rates_of(visit.watch.times, visit.watch.written.of(name)),
        "partitions": [
            {
                "number": each.number,
                "leader": each.leader,
                "epoch": each.leader_epoch,
                "replicas": each.replicas,
                "isr": each.isr,
                "offline": each.offline,
                "start": starts.get(place),
                "end": ends.get(place),
                "bytes": sizes.get(place, {}).get(each.leader),
                "moving": place in picture.reassignments,
            }
            for place, each in zip(places, described.partitions, strict=True)
        ],
        "groups": [
            {"group": group, "lag": lag, "state": picture.groups[group].listing.state}
            for group, lag in sorted(picture.topic_groups.get(name, {}).items())
        ],
    }


async def create_topic(visit: Visit) -> Any:
    body = visit.request.json()
    name = text_of(body, "name")
    visit.details["topic"] = name
    made = await visit.admin.create_topic(
        name,
        partitions=number_of(body, "partitions", default=-1),
        replication_factor=number_of(body, "replication", default=-1),
        configs=texts_of(body, "configs"),
        validate_only=body.get("validate_only") is True,
    )
    visit.watch.changed()
    return {"name": name, "partitions": made.partitions, "replication": made.replication_factor}


async def delete_topic(visit: Visit) -> Any:
    """The name must be given again: a wrong click deletes nothing."""
    name = visit.arguments["topic"]
    if text_of(visit.request.json(), "confirm") != name:
        raise RefusedCallError(400, f"to delete the topic, confirm it by its name, {name!r}")
    await visit.admin.delete_topics(name)
    visit.watch.changed()
    return {"deleted": name}


async def add_partitions(visit: Visit) -> Any:
    count = number_of(visit.request.json(), "count")
    visit.details["count"] = count
    await visit.admin.create_partitions(visit.arguments["topic"], count)
    visit.watch.changed()
    return {"partitions": count}


async def delete_records(visit: Visit) -> Any:
    """Delete what lies before an offset of a partition, or all records of the topic."""
    name = visit.arguments["topic"]
    body = visit.request.json()
    if text_of(body, "confirm") != name:
        raise RefusedCallError(400, f"to delete records, confirm it by the topic's name, {name!r}")
    given = body.get("before")
    if given is None:
        [described] = await visit.admin.describe_topics(name)
        before = {TopicPartition(name, each.number): -1 for each in described.partitions}
    else:
        before = offsets_of(name, given)
    visit.details["partitions"] = sorted(each.partition for each in before)
    starts = await visit.admin.delete_records(before)
    visit.watch.changed()
    return {"starts": {str(each.partition): offset for each, offset in starts.items()}}


def offsets_of(topic: str, given: Any) -> dict[TopicPartition, int]:
    """{"0": 17, …} of a body; RefusedCallError for anything else."""
    try:
        return {TopicPartition(topic, int(number)): int(offset) for number, offset in given.items()}
    except (AttributeError, TypeError, ValueError):
        raise RefusedCallError(400, "offsets are an object of partitions and numbers") from None


async def election(visit: Visit) -> Any:
    """The plan of an election: partitions whose first replica does not lead, and whether it can."""
    [described] = await visit.admin.describe_topics(visit.arguments["topic"])
    return {
        "changes": [
            {
                "partition": each.number,
                "from": each.leader,
                "to": each.replicas[0],
                "in_sync": each.replicas[0] in each.isr,
            }
            for each in described.partitions
            if each.replicas and each.leader != each.replicas[0]
        ]
    }


async def elect_leaders(visit: Visit) -> Any:
    """Let first replicas lead again in the partitions of a plan, and in no others."""
    name = visit.arguments["topic"]
    given = visit.request.json().get("partitions")
    if not isinstance(given, list) or not given or not all(type(each) is int for each in given):
        raise RefusedCallError(400, "'partitions' must be the list of a plan")
    visit.details["partitions"] = sorted(given)
    failed = await visit.admin.elect_leaders([TopicPartition(name, each) for each in given])
    visit.watch.changed()
    refused = {
        str(each): code.name
        for each, code in failed.items()
        if code != ErrorCode.ELECTION_NOT_NEEDED  # somebody was faster
    }
    if refused:
        raise ClientError("; ".join(f"{place}: {why}" for place, why in refused.items()))
    return {"elected": len(given)}
