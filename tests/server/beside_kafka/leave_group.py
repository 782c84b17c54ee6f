"""LeaveGroup: one member or many, by id or by instance, and those who are not there."""

from headrace.wire.schemas.describe_groups import DescribeGroupsRequest
from headrace.wire.schemas.leave_group import LeaveGroupRequest
from tests.server.beside_kafka.find_coordinator import ready
from tests.server.beside_kafka.join_group import stable
from tests.server.beside_kafka.talk import Talk
from tests.server.group_requests import join, leave

NEWEST, ONE_MEMBER = 5, 2


def leave_as(version: int, group: str, member: str) -> LeaveGroupRequest:
    return LeaveGroupRequest(group, member) if version <= ONE_MEMBER else leave(group, member)


async def script(talk: Talk) -> None:
    await ready(talk)
    talk.title("One member")
    for version in range(NEWEST + 1):
        group = talk.name(f"v{version}")
        member = await stable(talk, group)
        await talk.ask(f"v{version}", leave_as(version, group, member), version)
        await talk.ask(f"v{version}, again", leave_as(version, group, member), version)
        await talk.ask("the group", DescribeGroupsRequest([group]), 6)
    talk.title("Refused")
    group = talk.name("refusing")
    await talk.each_version("no group id", lambda version: leave_as(version, "", "nobody"))
    await talk.each_version("unknown group", lambda version: leave_as(version, group, "nobody"))
    member = await stable(talk, group)
    await talk.each_version("unknown member", lambda version: leave_as(version, group, "nobody"))
    await talk.each_version("no member", lambda version: leave_as(version, group, ""))
    await talk.ask("nobody", leave(group), NEWEST)
    await talk.ask("an unknown instance", leave(group, (member, "i")), NEWEST)
    await talk.ask("only an unknown instance", leave(group, ("", "i")), NEWEST)
    await talk.ask("unknown, itself, itself again", leave(group, "nobody", member, member), NEWEST)
    talk.title("Static members")
    group = talk.name("static")
    reply = await (await talk.begin(join(group, instance="i"), 9))
    member = reply.member_id
    talk.know(member, "<static>")
    await talk.ask("another id with its instance", leave(group, ("nobody", "i")), NEWEST)
    await talk.ask("its id with another instance", leave(group, (member, "j")), NEWEST)
    await talk.ask("its id without its instance", leave(group, member), NEWEST)
    await (await talk.begin(join(group, instance="i"), 9))
    await talk.ask("its instance", leave(group, ("", "i")), NEWEST)
    talk.title("An id that was given")
    given = await (await talk.begin(join(group), 9))
    talk.know(given.member_id, "<given>")
    await talk.ask("with an instance", leave(group, (given.member_id, "i")), NEWEST)
    await talk.ask("without", leave(group, given.member_id), NEWEST)
    await talk.ask("again", leave(group, given.member_id), NEWEST)
    await talk.ask("it joins", join(group, given.member_id), 9)
