"""TxnOffsetCommit: offsets that are pending until their transaction ends, and who may commit them."""

from headrace.wire.schemas.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from tests.server.beside_kafka import find_coordinator
from tests.server.beside_kafka.init_producer_id import begin, ready, settled
from tests.server.beside_kafka.join_group import stable
from tests.server.beside_kafka.talk import Talk
from tests.server.group_requests import commit
from tests.server.txn_requests import add_offsets, commit_offsets, end

NEWEST = 5
VERIFIED = 4


async def script(talk: Talk) -> None:
    await ready(talk)
    await find_coordinator.ready(talk)
    await talk.topic("topic", 4)
    await not_added(talk)
    await pending(talk)
    await members(talk)


async def fetch(talk: Talk, label: str, group: str) -> None:
    """What the group has committed, with and without what may still change."""
    for stable_only in (False, True):
        topics = [OffsetFetchRequestTopics(name=talk.name("topic"), partition_indexes=[0, 1])]
        wish = OffsetFetchRequestGroup(talk.name(group), topics=topics)
        request = OffsetFetchRequest(groups=[wish], require_stable=stable_only)
        await talk.ask(f"{label}{', stable' if stable_only else ''}", request, 9)


async def not_added(talk: Talk) -> None:
    talk.title("Not added")
    who = await begin(talk, "hasty")
    name, producer_id, epoch = who
    group, topic = talk.name("hasty"), talk.name("topic")
    for version in range(VERIFIED + 1):
        await talk.ask(f"v{version}", commit_offsets(who, group, topic, {0: 1}), version)
    for version in (3, VERIFIED, NEWEST):
        fenced = (name, producer_id, epoch + 1)
        await talk.ask(f"fenced, v{version}", commit_offsets(fenced, group, topic, {0: 1}), version)
        unknown = (talk.name("x"), producer_id, epoch)
        await talk.ask(f"unknown, v{version}", commit_offsets(unknown, group, topic, {0: 1}), version)
    await talk.ask("added by it", commit_offsets(who, group, topic, {0: 1}), NEWEST)
    await talk.ask("an unknown partition", commit_offsets(who, group, topic, {9: 1}), NEWEST)
    await talk.ask("an unknown topic", commit_offsets(who, group, talk.name("none"), {0: 1}), NEWEST)
    await talk.ask("long metadata", commit_offsets(who, group, topic, {0: 1}, metadata="x" * 4097), NEWEST)


async def pending(talk: Talk) -> None:
    for ends_well in (True, False):
        talk.title(f"Pending, then {'committed' if ends_well else 'aborted'}")
        kind = f"pending{ends_well}"
        who = await begin(talk, kind)
        group, topic = talk.name(kind), talk.name("topic")
        await talk.ask("a plain commit before", commit(group, topic, {0: 1}), 9)
        await talk.ask("added", add_offsets(who, group), 4)
        await talk.ask("committed in it", commit_offsets(who, group, topic, {0: 5, 1: 6}), VERIFIED)
        await fetch(talk, "while it is open", kind)
        await talk.ask("end", end(who, commit=ends_well), 4)
        await settled(talk, kind)
        await fetch(talk, "when it is over", kind)
        await talk.ask("added again", add_offsets(who, group), 4)
        await talk.ask("committed in it", commit_offsets(who, group, topic, {0: 7}), VERIFIED)
        await talk.ask("a plain commit after", commit(group, topic, {0: 9}), 9)
        await fetch(talk, "while it is open", kind)
        await talk.ask("end", end(who, commit=ends_well), 4)
        await settled(talk, kind)
        await fetch(talk, "when it is over", kind)


async def members(talk: Talk) -> None:
    talk.title("Members")
    who = await begin(talk, "member")
    group, topic = talk.name("members"), talk.name("topic")
    member = await stable(talk, group)
    for label, options in {
        "nobody": {},
        "the member": {"member": member, "generation": 1},
        "an older generation": {"member": member, "generation": 0},
        "a generation to come": {"member": member, "generation": 2},
        "a stranger": {"member": "x", "generation": 1},
        "without a generation": {"member": member},
        "a generation of nobody": {"generation": 1},
        "an unknown instance": {"member": member, "generation": 1, "instance": "i"},
    }.items():
        await talk.ask(label, commit_offsets(who, group, topic, {0: 1}, **options), NEWEST)  # type: ignore[arg-type]
    unknown = talk.name("nobodys")
    request = commit_offsets(who, unknown, topic, {0: 1}, member="m", generation=1)
    await talk.ask("a generation of an unknown group", request, NEWEST)
