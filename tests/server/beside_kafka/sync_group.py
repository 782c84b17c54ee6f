"""SyncGroup: shares, strangers, other generations and protocols, and every state of a group."""

from tests.server.beside_kafka.find_coordinator import ready
from tests.server.beside_kafka.join_group import seat
from tests.server.beside_kafka.talk import Talk
from tests.server.group_requests import join, leave, sync

NEWEST, OLD = 5, 2


async def script(talk: Talk) -> None:
    await ready(talk)
    await versions(talk)
    await refused(talk)
    await states(talk)


async def versions(talk: Talk) -> None:
    talk.title("A leader assigns and gets its share")
    for version in range(NEWEST + 1):
        group = talk.name(f"v{version}")
        member = await seat(talk, group)
        await talk.ask(f"v{version}", sync(group, member, 1, {member: b"all"}), version)
        await talk.ask(f"v{version}, again", sync(group, member, 1), version)
        await talk.ask(f"v{version}, assigned anew", sync(group, member, 1, {member: b"other"}), version)
    group = talk.name("nothing")
    member = await seat(talk, group)
    await talk.ask("nothing for itself", sync(group, member, 1, {"nobody": b"all"}), NEWEST)


async def refused(talk: Talk) -> None:
    talk.title("Refused")
    group = talk.name("refusing")
    await talk.each_version("no group id", lambda version: sync("", "nobody", 1))
    await talk.each_version("unknown group", lambda version: sync(group, "nobody", 1))
    member = await seat(talk, group)
    await talk.each_version("unknown member", lambda version: sync(group, "nobody", 1))
    await talk.each_version("no member", lambda version: sync(group, "", 1))
    for generation in (0, 2, -1):
        await talk.ask(f"generation {generation}", sync(group, member, generation), NEWEST)
    for word in ("connect", "", None):
        await talk.ask(f"protocol type {word}", sync(group, member, 1, protocol_type=word), NEWEST)
        await talk.ask(f"protocol {word}", sync(group, member, 1, protocol=word), NEWEST)
    await talk.ask("another's type and an old generation", sync(group, member, 9, protocol_type="x"), NEWEST)
    await talk.ask("an unknown instance", sync(group, member, 1, instance="i"), NEWEST)
    group = talk.name("static")
    reply = await (await talk.begin(join(group, instance="i"), 9))
    talk.know(reply.member_id, "<static>")
    await talk.ask("another's instance", sync(group, "nobody", 1, instance="i"), NEWEST)
    await talk.ask("its own instance", sync(group, reply.member_id, 1, {}, instance="i"), NEWEST)


async def states(talk: Talk) -> None:
    talk.title("States of a group")
    group = talk.name("states")
    first = await seat(talk, group, "a")
    given = await (await talk.begin(join(group), 9, client="b"))
    talk.know(given.member_id, "<b>")
    await talk.ask(
        "a, while only an id was given", sync(group, first, 1, {first: b"all"}), NEWEST, client="a"
    )
    joining = await talk.begin(join(group, given.member_id), 9, client="b")
    await talk.pass_time(100)
    await talk.ask("a, while b joins", sync(group, first, 1), NEWEST, client="a")
    await (await talk.begin(join(group, first), 9, client="a"))
    await joining
    waiting = await talk.begin(sync(group, given.member_id, 2), NEWEST, client="b")
    await talk.pass_time(100)
    talk.is_waiting("b, before a assigned", waiting)
    again = await talk.begin(sync(group, given.member_id, 2), NEWEST, client="b2")
    await talk.pass_time(100)
    talk.is_waiting("b's first", waiting)
    talk.is_waiting("b's second", again)
    joining = await talk.begin(join(group, first, protocols=["range", "new"]), 9, client="a")
    await talk.hear("b, when a joins again", again)
    await talk.ask("b leaves", leave(group, given.member_id), 5, client="b2")
    await talk.hear("a", joining)
    await talk.ask("a leaves", leave(group, first), 5, client="a")
    await talk.ask("an empty group", sync(group, first, 3), NEWEST, client="a")
