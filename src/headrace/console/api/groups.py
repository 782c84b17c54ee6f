"""Groups: the list, members and lag of one, moving its offsets by a plan that is seen first, and deletion."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from headrace.base.ids import TopicPartition
from headrace.clients import GroupDescription, OffsetAndMetadata, OffsetSpec
from headrace.clients.errors import NoSuchGroupError, UnsupportedError
from headrace.console.cluster_picture import ClusterPicture, GroupPicture, offsets_at, topics_of
from headrace.console.cluster_watch import ClusterWatch
from headrace.console.http_server import RefusedCallError
from headrace.console.share_groups import SHARE, describe_share_group, is_share
from headrace.console.visit import Visit, names_in, number_of, text_of

TARGETS: Final = ("earliest", "latest", "offset", "time", "shift", "offsets")
COURSE_SAMPLES: Final = 30
_DESCRIBED: Final = ("classic", "consumer", "streams")


async def groups(visit: Visit) -> Any:
    """All groups, each as a row of the table; with `since`, those that changed since that version."""
    picture = await visit.watch.picture()
    version, is_whole, rows, gone = visit.watch.group_rows.since(
        visit.request.query.get("since", ""), picture, lambda: _rows(visit.watch, picture)
    )
    return {
        "taken": picture.taken_ms,
        "gaps": picture.gaps,
        "version": version,
        "whole": is_whole,
        "gone": gone,
        "groups": rows,
    }


def _rows(watch: ClusterWatch, picture: ClusterPicture) -> Iterator[dict[str, Any]]:
    for name, each in picture.groups.items():
        yield {
            "group": name,
            "type": each.listing.type,
            "state": each.listing.state,
            "protocol": each.listing.protocol_type,
            "coordinator": each.listing.coordinator,
            "topics": len({place.topic for place in each.committed}),
            "lag": each.lag,
            "course": _shape(watch.lags.last(name, COURSE_SAMPLES)),
        }


def _shape(course: list[int | None]) -> list[int | None]:
    """A course that does not move is a line between two points: a row of it stays as it is."""
    known = set(course) - {None}
    return [*known, *known] if len(known) == 1 and len(course) > 1 else course


async def group(visit: Visit) -> Any:
    """One group as it is now: members, what it has committed and how far that is behind."""
    name = visit.arguments["group"]
    known = (await visit.watch.picture()).groups.get(name)
    described = await _describe(visit, name, known)
    committed, lags = await _standing(visit, name, known)
    assigned = {each: member for member in described.members for each in member.assignment}
    places = sorted({*committed, *assigned})
    if places:
        await visit.admin.client.refresh(sorted({each.topic for each in places}))
    ends = await offsets_at(visit.admin, places, OffsetSpec.LATEST)
    starts = await offsets_at(visit.admin, places, OffsetSpec.EARLIEST)
    return {
        "group": name,
        "type": described.type,
        "state": described.state,
        "protocol": described.protocol,
        "coordinator": described.coordinator,
        "epoch": described.epoch,
        "members": [
            {
                "id": each.member_id,
                "instance": each.instance_id,
                "client": each.client_id,
                "host": each.host,
                "partitions": [[place.topic, place.partition] for place in each.assignment],
            }
            for each in described.members
        ],
        "offsets": [
            {
                "topic": place.topic,
                "partition": place.partition,
                "committed": committed[place].offset if place in committed else None,
                "metadata": committed[place].metadata if place in committed else "",
                "start": starts.get(place),
                "end": ends.get(place),
                "lag": lags[place] if place in lags else _lag(committed.get(place), ends.get(place)),
                "member": assigned[place].member_id if place in assigned else None,
            }
            for place in places
        ],
        "times": list(visit.watch.times),
        "course": visit.watch.lags.of(name),
    }


async def _standing(
    visit: Visit, name: str, known: GroupPicture | None
) -> tuple[dict[TopicPartition, OffsetAndMetadata], dict[TopicPartition, int | None]]:
    """Where a group is now, and the lags that its coordinator tells: that is share groups' only."""
    if known is None or not is_share(known.listing):
        return await visit.admin.group_offsets(name), {}
    try:
        places = await visit.admin.list_share_group_offsets(name)
    except UnsupportedError:
        return {}, {}
    committed = {each: OffsetAndMetadata(found.start_offset) for each, found in places.items()}
    return committed, {each: found.lag for each, found in places.items()}


def _lag(committed: OffsetAndMetadata | None, end: int | None) -> int | None:
    return None if committed is None or end is None else max(0, end - committed.offset)


async def _describe(visit: Visit, name: str, known: GroupPicture | None) -> GroupDescription:
    """What is of a kind that is not known here is told by its listing only."""
    kind = "" if known is None else known.listing.type.lower()
    if known is None or kind in _DESCRIBED:
        return await visit.admin.describe_group(name)
    if kind == SHARE:
        return await describe_share_group(visit.admin, name)
    listing = known.listing
    return GroupDescription(
        name, listing.type, listing.state, listing.protocol_type, "", listing.coordinator, None, []
    )


async def _is_share(visit: Visit, name: str) -> bool:
    known = (await visit.watch.picture()).groups.get(name)
    return known is not None and is_share(known.listing)


async def plan(visit: Visit) -> Any:
    """What a reset would do; nothing is changed."""
    changes, notes = await _plan(visit)
    return {"changes": changes, "notes": notes}


async def reset(visit: Visit) -> Any:
    """Do what a plan said: the offsets as they were shown, and no others."""
    name = visit.arguments["group"]
    body = visit.request.json()
    given = body.get("offsets")
    if not isinstance(given, list) or not given:
        raise RefusedCallError(400, "'offsets' must be the list of a plan")
    try:
        offsets = {
            TopicPartition(str(each["topic"]), int(each["partition"])): OffsetAndMetadata(int(each["to"]))
            for each in given
        }
    except (KeyError, TypeError, ValueError):
        raise RefusedCallError(400, "an offset has a topic, a partition and a number `to`") from None
    visit.details["partitions"] = [str(each) for each in sorted(offsets)][:100]
    if await _is_share(visit, name):
        await visit.admin.alter_share_group_offsets(name, {each: to.offset for each, to in offsets.items()})
    else:
        await visit.admin.alter_group_offsets(name, offsets)
    visit.watch.changed()
    return {"moved": len(offsets)}


async def delete_group(visit: Visit) -> Any:
    name = visit.arguments["group"]
    if text_of(visit.request.json(), "confirm") != name:
        raise RefusedCallError(400, f"to delete the group, confirm it by its name, {name!r}")
    if await _is_share(visit, name):
        await visit.admin.delete_share_groups(name)
    else:
        await visit.admin.delete_group(name)
    visit.watch.changed()
    return {"deleted": name}


async def delete_offsets(visit: Visit) -> Any:
    """Forget what the group has committed of one topic, which must be named again."""
    name, topic = visit.arguments["group"], visit.arguments["topic"]
    if text_of(visit.request.json(), "confirm") != topic:
        raise RefusedCallError(400, f"to delete offsets, confirm it by the topic's name, {topic!r}")
    standing, _ = await _standing(visit, name, (await visit.watch.picture()).groups.get(name))
    committed = [each for each in standing if each.topic == topic]
    if not committed:
        raise RefusedCallError(404, f"group {name!r} has committed nothing of {topic!r}")
    if await _is_share(visit, name):
        await visit.admin.delete_share_group_offsets(name, topic)
    else:
        await visit.admin.delete_group_offsets(name, committed)
    visit.watch.changed()
    return {"deleted": len(committed)}


async def _plan(visit: Visit) -> tuple[list[dict[str, Any]], list[str]]:
    name = visit.arguments["group"]
    body = visit.request.json()
    target = text_of(body, "target")
    if target not in TARGETS:
        raise RefusedCallError(400, f"{target!r} is none of {', '.join(TARGETS)}")
    known = (await visit.watch.picture()).groups.get(name)
    standing, _ = await _standing(visit, name, known)
    committed = {place: each.offset for place, each in standing.items()}
    places = await _places(visit, body, target, committed)
    ends = await offsets_at(visit.admin, places, OffsetSpec.LATEST)
    starts = await offsets_at(visit.admin, places, OffsetSpec.EARLIEST)
    wanted = await _wanted(visit, body, target, places, committed, starts, ends)
    notes = [f"{each}: its leader does not answer, so it is left out" for each in places if each not in ends]
    if target == "shift":
        notes += [
            f"{each}: nothing is committed there that could be shifted"
            for each in places
            if each not in committed
        ]
    try:
        if (await _describe(visit, name, known)).members:
            notes.append("the group has members: stop its consumers first, or the reset is refused")
    except NoSuchGroupError:
        notes.append("there is no group of this name yet: a reset makes it")
    changes = []
    for each in places:
        if each in wanted and each in ends and each in starts:
            to = min(max(wanted[each], starts[each]), ends[each])
            changes.append(
                {
                    "topic": each.topic,
                    "partition": each.partition,
                    "from": committed.get(each),
                    "to": to,
                    "wanted": wanted[each],
                    "start": starts[each],
                    "end": ends[each],
                }
            )
    return changes, notes


async def _places(
    visit: Visit, body: dict[str, Any], target: str, committed: Mapping[TopicPartition, int]
) -> list[TopicPartition]:
    """All that is committed, or the partitions of the topics that are named."""
    known = await topics_of(visit.admin)
    if target == "offsets":
        return sorted(_edited(body))
    names = names_in(body, "topics")
    for name in names:
        if name not in known:
            raise RefusedCallError(404, f"there is no topic {name!r}")
    if not names:
        if not committed:
            raise RefusedCallError(400, "the group has committed nothing: name the topics to move")
        return sorted(each for each in committed if each.topic in known)
    return [TopicPartition(name, each.number) for name in names for each in known[name].partitions]


def _edited(body: dict[str, Any]) -> dict[TopicPartition, int]:
    """Offsets that a person has typed, partition by partition."""
    try:
        return {
            TopicPartition(str(each["topic"]), int(each["partition"])): int(each["to"])
            for each in body["offsets"]
        }
    except (KeyError, TypeError, ValueError):
        raise RefusedCallError(400, "an offset has a topic, a partition and a number `to`") from None


async def _wanted(
    visit: Visit,
    body: dict[str, Any],
    target: str,
    places: list[TopicPartition],
    committed: Mapping[TopicPartition, int],
    starts: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
) -> Mapping[TopicPartition, int]:
    """The wish for each partition, in range or not."""
    match target:
        case "earliest":
            return starts
        case "latest":
            return ends
        case "offset":
            return dict.fromkeys(places, number_of(body, "offset"))
        case "time":
            found = await offsets_at(visit.admin, places, number_of(body, "time"))
            return {each: ends[each] if found.get(each, -1) < 0 else found[each] for each in ends}
        case "shift":
            by = number_of(body, "by")
            return {each: committed[each] + by for each in places if each in committed}
    return _edited(body)
