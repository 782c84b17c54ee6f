"""Heartbeat: strangers, other generations, other instances, and every state of a group."""

from tests.server.beside_kafka.find_coordinator import ready
from tests.server.beside_kafka.join_group import seat, stable
from tests.server.beside_kafka.talk import Talk
from tests.server.group_requests import heartbeat, join, leave, sync

NEWEST = 4


async def script(talk: Talk) -> None:
    await ready(talk)
    await refused(talk)
    await states(talk)
    await sessions(talk)


async def refused(talk: Talk) -> None:
    talk.title("Refused")
    group = talk.name("refusing")
    await talk.each_version("no group id", lambda version: heartbeat("", "nobody", 1))
    await talk.each_version("unknown group", lambda version: heartbeat(group, "nobody", 1))
    member = await stable(talk, group)
    await talk.each_version("alive", lambda version: heartbeat(group, member, 1))
    await talk.each_version("unknown member", lambda version: heartbeat(group, "nobody", 1))
    await talk.each_version("no member", lambda version: heartbeat(group, "", 1))
    for generation in (0, 2, -1):
        await talk.each_version(
            f"generation {generation}", lambda version, number=generation: heartbeat(group, member, number)
        )
    await talk.ask("an unknown instance", heartbeat(group, member, 1, "i"), NEWEST)
    group = talk.name("static")
    reply = await (await talk.begin(join(group, instance="i"), 9))
    await talk.ask("another's instance", heartbeat(group, "nobody", 1, "i"), NEWEST)
    await talk.ask("its own instance", heartbeat(group, reply.member_id, 1, "i"), NEWEST)
    await talk.ask("without its instance", heartbeat(group, reply.member_id, 1), NEWEST)
    await talk.ask("its own instance, an old generation", heartbeat(group, reply.member_id, 0, "i"), NEWEST)


async def states(talk: Talk) -> None:
    talk.title("States of a group")
    group = talk.name("states")
    given = await (await talk.begin(join(group), 9))
    talk.know(given.member_id, "<c>")
    await talk.ask("an id was given", heartbeat(group, given.member_id, 0), NEWEST)
    await talk.ask("an id was given, no generation", heartbeat(group, given.member_id, -1), NEWEST)
    await (await talk.begin(join(group, given.member_id), 9))
    await talk.ask("before the assignment", heartbeat(group, given.member_id, 1), NEWEST)
    await (await talk.begin(sync(group, given.member_id, 1, {}), 5))
    await talk.ask("stable", heartbeat(group, given.member_id, 1), NEWEST)
    other = await (await talk.begin(join(group), 9, client="b"))
    await talk.ask("another was given an id", heartbeat(group, given.member_id, 1), NEWEST)
    await talk.begin(join(group, other.member_id), 9, client="b")
    await talk.pass_time(100)
    await talk.ask("another joins", heartbeat(group, given.member_id, 1), NEWEST)
    await talk.ask("the other one", heartbeat(group, other.member_id, 1), NEWEST)
    await talk.ask("leaves", leave(group, given.member_id), 5)
    await talk.ask("after it left", heartbeat(group, given.member_id, 1), NEWEST)


async def sessions(talk: Talk) -> None:
    talk.title("Sessions that end")
    group = talk.name("short")
    member = await stable(talk, group, session_ms=600)
    for _ in range(3):
        await talk.pass_time(400)
        await talk.ask("in time", heartbeat(group, member, 1), NEWEST)
    await talk.pass_time(1_200)
    await talk.ask("too late", heartbeat(group, member, 1), NEWEST)
    group = talk.name("unsynced")
    member = await seat(talk, group, session_ms=600)
    await talk.pass_time(1_200)
    await talk.ask("too late, and never asked for its share", heartbeat(group, member, 1), NEWEST)
    group = talk.name("slow")
    member = await seat(talk, group, rebalance_ms=600)
    await talk.pass_time(1_200)
    await talk.ask("alive, and never asked for its share", heartbeat(group, member, 1), NEWEST)
