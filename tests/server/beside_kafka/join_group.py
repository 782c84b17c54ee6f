"""JoinGroup: new members, known ones, static ones, full groups, groups that do not fit."""

import asyncio
from typing import Any

from headrace.base.error_codes import ErrorCode
from tests.server.beside_kafka.find_coordinator import ready
from tests.server.beside_kafka.talk import Talk
from tests.server.group_requests import heartbeat, join, leave, sync

NEWEST, NO_ID_NEEDED, STATIC = 9, 3, 5


async def seat(talk: Talk, group: str, client: str = "c", **options: Any) -> str:
    """A member that has an id and has joined; returns the id."""
    given = await (await talk.begin(join(group, **options), NEWEST, client=client))
    talk.know(given.member_id, f"<{client}>")
    await (await talk.begin(join(group, given.member_id, **options), NEWEST, client=client))
    return str(given.member_id)


async def stable(talk: Talk, group: str, client: str = "c", **options: Any) -> str:
    """A stable group of one member, which owns b"all"."""
    member = await seat(talk, group, client, **options)
    await (await talk.begin(sync(group, member, 1, {member: b"all"}), 5, client=client))
    return member


async def script(talk: Talk) -> None:
    await ready(talk)
    await versions(talk)
    await refused(talk)
    await together(talk)
    await again(talk)
    await static(talk)
    await full(talk)


async def versions(talk: Talk) -> None:
    talk.title("A new member")
    for version in range(NEWEST + 1):
        group = talk.name(f"v{version}")
        given = await talk.ask(f"v{version}, without an id", join(group), version)
        if given.error_code:
            await talk.ask(f"v{version}, with the id", join(group, given.member_id), version)


async def refused(talk: Talk) -> None:
    talk.title("Refused")
    group = talk.name("refusing")

    def both(**options: Any) -> Any:
        return lambda version: join(**options)

    await talk.each_version("no group id", both(group=""))
    await talk.each_version("a member id nobody gave", both(group=group, member="nobody"))
    await talk.each_version("no protocols", both(group=talk.name("r1"), protocols=()))
    await talk.each_version("no protocol type", both(group=talk.name("r2"), protocol_type=""))
    await talk.each_version("a session too short", both(group=talk.name("r3"), session_ms=99))
    await talk.each_version("a session too long", both(group=talk.name("r4"), session_ms=1_800_001))
    await talk.ask("a negative rebalance", join(talk.name("r5"), rebalance_ms=-7), NO_ID_NEEDED)
    await talk.ask("a static member with an id nobody gave", join(talk.name("r6"), "x", instance="i"), NEWEST)
    member = await stable(talk, group)
    await talk.ask("another member id", join(group, "nobody"), NEWEST)
    await talk.ask("another protocol type", join(group, protocol_type="connect"), NEWEST)
    await talk.ask("another protocol", join(group, protocols=["sticky"]), NEWEST)
    await talk.ask("none of the protocols", join(group, protocols=()), NEWEST)
    await talk.ask("an instance that has no seat", join(group, member, instance="i"), NEWEST)
    await talk.ask("the member, with another protocol", join(group, member, protocols=["sticky"]), NEWEST)


async def together(talk: Talk) -> None:
    talk.title("Two members")
    group = talk.name("two")
    first = await stable(talk, group, "a", protocols=["range", "sticky"])
    given = await (await talk.begin(join(group, protocols=["range"]), NEWEST, client="b"))
    second = given.member_id
    talk.know(second, "<b>")
    waiting = await talk.begin(join(group, second, protocols=["range"]), NEWEST, client="b")
    await talk.pass_time(200)
    talk.is_waiting("b, with its id", waiting)
    await talk.ask("a's heartbeat", heartbeat(group, first, 1), 4, client="a")
    await talk.ask(
        "a, again", join(group, first, protocols=["range", "sticky"]), NEWEST, client="a", unordered=True
    )
    await talk.hear("b", waiting, unordered=True)
    waiting = await talk.begin(sync(group, second, 2), 5, client="b")
    await talk.ask("a assigns", sync(group, first, 2, {first: b"0", second: b"1"}), 5, client="a")
    await talk.hear("b's share", waiting)


async def again(talk: Talk) -> None:
    talk.title("Joining again")
    group = talk.name("again")
    member = await seat(talk, group)
    await talk.ask("before the assignment", join(group, member), NEWEST)
    await (await talk.begin(sync(group, member, 1, {member: b"all"}), 5))
    await talk.ask("the leader of a stable group", join(group, member), NEWEST)
    await talk.ask("its next assignment", sync(group, member, 2, {member: b"all"}), 5)
    await talk.ask("leave", leave(group, member), 5)
    await talk.ask("after it left", join(group, member), NEWEST)


async def static(talk: Talk) -> None:
    talk.title("Static members")
    group = talk.name("static")
    for version in (STATIC, NEWEST):
        reply = await talk.ask(f"v{version}, first", join(group, instance="i"), version)
        old, generation = reply.member_id, reply.generation_id
        await talk.ask("assign", sync(group, old, generation, {old: b"all"}), 5)
        reply = await talk.ask(f"v{version}, back again", join(group, instance="i"), version)
        await talk.ask("its share", sync(group, reply.member_id, generation, instance="i"), 5)
        await talk.ask("the old id", heartbeat(group, old, generation, "i"), 4)
        await talk.ask("the old id joins", join(group, old, instance="i"), version)
        await talk.ask("the new id joins", join(group, reply.member_id, instance="i"), version)
        await talk.ask("assign", sync(group, reply.member_id, generation + 1, {reply.member_id: b"x"}), 5)
        reply = await talk.ask(
            "back with other protocols", join(group, instance="i", protocols=["sticky"]), version
        )
        renewed = sync(group, reply.member_id, reply.generation_id, {}, protocol="sticky")
        await talk.ask("assign", renewed, 5)
        await talk.ask("leave", leave(group, ("", "i")), 5)


async def full(talk: Talk) -> None:
    talk.title("A group of three at most")
    group = talk.name("full")
    waiting = []
    for number in range(5):
        client = f"f{number}"
        waiting.append(await talk.begin(join(group), NO_ID_NEEDED, client=client))
        await talk.pass_time(100)
    first = (await waiting[0]).member_id
    _show_codes(talk, "so far", waiting)
    waiting.append(await talk.begin(join(group, first), NO_ID_NEEDED, client="f0"))
    await waiting[-1]
    await talk.pass_time(100)
    _show_codes(talk, "after the first came again", waiting)
    for version in (NO_ID_NEEDED, NEWEST):
        await talk.ask(f"one more, v{version}", join(group), version)
    await talk.ask("one more, static", join(group, instance="i"), NEWEST)
    await talk.ask("one more, unknown", join(group, "nobody"), NEWEST)
    talk.title("Ids that were given count as members")
    group = talk.name("given")
    given = [await (await talk.begin(join(group), NEWEST, client=f"g{number}")) for number in range(5)]
    talk.lines.append(f"ids given: {[each.error_code for each in given]}")
    waiting = []
    for number, each in enumerate(given):
        waiting.append(await talk.begin(join(group, each.member_id), NEWEST, client=f"g{number}"))
        await talk.pass_time(100)
    _show_codes(talk, "joined", waiting)


def _show_codes(talk: Talk, label: str, waiting: "list[asyncio.Future[Any]]") -> None:
    """Only the error codes: who leads after a leader went is not the same every time."""
    codes = [ErrorCode(each.result().error_code).name if each.done() else "waits" for each in waiting]
    talk.lines.append(f"{label}: {codes}")
