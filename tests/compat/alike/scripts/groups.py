"""Classic groups: finding coordinators, joining, syncing, heartbeats, leaving, and administration.

The heart is a table: groups in every state × identities that are right and wrong in each way × requests.
"""

import random
from collections.abc import Iterator
from itertools import cycle, product
from typing import Any

from headrace.wire.schemas.consumer_group_describe import ConsumerGroupDescribeRequest
from headrace.wire.schemas.delete_groups import DeleteGroupsRequest
from headrace.wire.schemas.describe_groups import DescribeGroupsRequest
from headrace.wire.schemas.find_coordinator import FindCoordinatorRequest
from headrace.wire.schemas.leave_group import LeaveGroupRequest
from headrace.wire.schemas.list_groups import ListGroupsRequest
from tests.compat.alike.scripts.states import Group, every_state, groups_ready, stable, transactions_ready
from tests.compat.alike.session import PAUSE_MS, Session, versions
from tests.server.beside_kafka.group_admin import forget
from tests.server.group_requests import commit, heartbeat, join, leave, sync

ONE_KEY = 3
WAITS_MS = 800
"""After which a request that is not answered waits for somebody."""


async def script(session: Session) -> None:
    await groups_ready(session)
    await transactions_ready(session)
    await session.get(DeleteGroupsRequest([""]))  # another conversation may have made it, with a commit
    await session.topic("topic", 2)
    await coordinators(session)
    await joining(session)
    groups = await every_state(session)
    await listing(session, groups)
    for group in groups:
        await identities(session, group)
    await leaving(session)
    await forgetting(session)


def find(version: int, key_type: int, *keys: str) -> FindCoordinatorRequest:
    if version <= ONE_KEY:
        return FindCoordinatorRequest(keys[0], key_type)
    return FindCoordinatorRequest(key_type=key_type, coordinator_keys=list(keys))


async def coordinators(session: Session) -> None:
    for kind, key in product((0, 1, 2, 3, -1), ("g", "", "g:AAAAAAAAAAAAAAAAAAAAAQ:0", "g:?:0", "a" * 300)):
        await session.every(
            f"key type {kind}, {key[:9]!r}", lambda version, kind=kind, key=key: find(version, kind, key)
        )
    many = versions("FindCoordinator")[ONE_KEY + 1 :]
    await session.every("many", lambda version: find(version, 0, "a", "b", "a", "", "c"), many)
    await session.every("none", lambda version: find(version, 0), many)


async def joining(session: Session) -> None:
    for version in versions("JoinGroup"):
        group = session.name(f"joined{version}")
        given = await session.ask("without an id", join(group), version)
        if given.error_code:
            given = await session.ask("with the id", join(group, given.member_id), version)
        await session.ask("again, before the assignment", join(group, given.member_id), version)
        wrong = session.name(f"wrong{version}")
        for label, request in {
            "no group": join(""),
            "no protocols": join(wrong, protocols=()),
            "no type": join(wrong, protocol_type=""),
            "neither": join(wrong, protocol_type="", protocols=()),
            "an unnamed protocol": join(wrong + "1", protocols={"": b""}, protocol_type="t"),
            "one protocol twice": join(wrong + "2", protocols=["range", "range"]),
            "no session": join(wrong, session_ms=0),
            "a negative session": join(wrong, session_ms=-1),
            "a long session": join(wrong, session_ms=1_800_001),
            "the longest": join(wrong + "3", session_ms=1_800_000),
            "a rebalance of no time": join(wrong + "4", rebalance_ms=0),
            "an id": join(wrong, "nobody"),
            "an instance": join(wrong + "5", instance="i"),
            "an instance without a name": join(wrong + "6", instance=""),
            "an instance and an id": join(wrong + "7", "nobody", instance="i"),
            "an instance with a bad name": join(wrong + "8", instance="a b/c"),
            "an instance with a long name": join(wrong + "9", instance="i" * 250),
        }.items():
            await session.ask(label, request, version)


def _wrong_ways(group: Group) -> Iterator[tuple[str, str, int, str | None]]:
    """Identities of which parts are right; the one that is right in all comes last."""
    members = {"": "", "nobody": "nobody", "itself": group.member or "somebody"}
    generations = [group.generation + 1, group.generation - 1, -1, group.generation]
    instances = ["other", None] if group.instance is None else ["other", None, group.instance]
    for instance, generation, (label, member) in product(
        instances, dict.fromkeys(generations), members.items()
    ):
        yield f"{label or 'no member'}, {generation}, {instance}", member, generation, instance


async def identities(session: Session, group: Group) -> None:
    beats, syncs = cycle(versions("Heartbeat")), cycle(versions("SyncGroup"))
    static_from = 3
    for who, member, generation, instance in _wrong_ways(group):
        label = f"{group.state}: {who}"
        for _ in range(2):
            beat = next(beats)
            if instance is None or beat >= static_from:
                await session.ask(label, heartbeat(group.id, member, generation, instance), beat)
        version = next(syncs)
        if instance is None or version >= static_from:
            share = {group.member: b"all"}
            await session.ask(label, sync(group.id, member, generation, share, instance=instance), version)
    for protocol_type, protocol in product(("consumer", "connect", None), ("range", "other", None)):
        request = sync(
            group.id, group.member, group.generation, protocol_type=protocol_type, protocol=protocol
        )
        await session.ask(f"{group.state}: {protocol_type} by {protocol}", request)
    if group.state not in ("none", "offsets", "given", "empty", "gone"):
        for label, request in {
            "another type": join(group.id, group.member, protocol_type="other", instance=group.instance),
            "another protocol": join(group.id, protocols=["other"]),
            "another instance": join(group.id, group.member, instance="other"),
            "nobody": join(group.id, "nobody"),
            "nobody, static": join(group.id, "nobody", instance="i"),
        }.items():
            await session.ask(f"{group.state}: joins with {label}", request)


async def listing(session: Session, groups: list[Group]) -> None:
    for group in groups:
        await session.every(group.state, lambda version, name=group.id: DescribeGroupsRequest([name], True))
        await session.every(
            group.state, lambda version, name=group.id: ConsumerGroupDescribeRequest([name], True)
        )
    names = [group.id for group in groups]
    await session.every("all of them", lambda version: DescribeGroupsRequest([*names, "", names[0]]))
    await session.every("no groups", lambda version: DescribeGroupsRequest([]))
    await session.every("all of them", lambda version: ConsumerGroupDescribeRequest([*names, "", names[0]]))
    await session.every("no groups", lambda version: ConsumerGroupDescribeRequest([]))
    states = ("Empty", "stable", "PREPARINGREBALANCE", "CompletingRebalance", "Dead", "Assigning")
    states += ("Reconciling", "NotReady", "none", "")
    for state in ("", *states):
        await list_groups(session, [state] if state else [], [], names)
    for kind in ("classic", "CLASSIC", "consumer", "share", "streams", "unknown", "none", ""):
        await list_groups(session, [], [kind], names)
        await list_groups(session, ["Stable", "Empty"], [kind, "classic"], names)


async def list_groups(session: Session, states: list[str], kinds: list[str], names: list[str]) -> None:
    """Other conversations have groups too, which are left out; the order is that of hashes."""
    for version in versions("ListGroups") if not states and not kinds else (4, 5):
        if version < 5 and kinds:
            continue
        reply = await session.get(ListGroupsRequest(states, kinds), version)
        reply.groups = sorted(
            (each for each in reply.groups if each.group_id in names), key=lambda each: each.group_id
        )
        session.write(f"ListGroups v{version} {states} {kinds}", session.names.plain(reply, version))


async def leaving(session: Session) -> None:
    for version in versions("LeaveGroup"):
        one = await stable(session, f"leaving{version}")
        static = await stable(session, f"leaving-static{version}", instance="i")
        if version < 3:
            for member in ("", "nobody", one.member, one.member):
                await session.ask("leaves", LeaveGroupRequest(one.id, member), version)
            await session.ask("leaves", LeaveGroupRequest(static.id, static.member), version)
            await session.ask("no group", LeaveGroupRequest("", "nobody"), version)
            continue
        await session.ask("nobody leaves", leave(one.id), version)
        await session.ask("an unknown group", leave(session.name("none"), "a", ("", "i")), version)
        await session.ask("no group", leave("", "a"), version)
        await session.ask("several leave", leave(one.id, "", "nobody", one.member, ("", "i")), version)
        await session.ask("it is gone", leave(one.id, one.member), version)
        for who in (("nobody", "i"), ("", "other"), (static.member, "other"), (static.member, None)):
            await session.ask(f"static: {bool(who[0])} {who[1]}", leave(static.id, who), version)
        await session.ask("by its instance", leave(static.id, ("", "i"), ("", "i")), version)
        await session.ask("what is left", DescribeGroupsRequest([one.id, static.id]))
    group = await stable(session, "leaving-new")
    await session.every("a consumer leaves", lambda version: LeaveGroupRequest(group.id, "nobody"), range(3))


async def forgetting(session: Session) -> None:
    topic = session.name("topic")
    groups = await every_state(session, "-again")
    for group in groups:
        await session.ask(group.state, forget(group.id, **{topic: [0, 1, 7], session.name("other"): [0]}))
        await session.ask(f"{group.state}, nothing", forget(group.id))
    for version in versions("DeleteGroups"):
        for group in groups if version == 2 else groups[:1]:
            await session.ask(group.state, DeleteGroupsRequest([group.id]), version)
        await session.ask("no name", DeleteGroupsRequest(["", session.name("none"), ""]), version)
        await session.ask("none", DeleteGroupsRequest([]), version)


async def walk(session: Session, rng: random.Random) -> None:
    """One group that single members come to and leave, asked all kinds of things by right and wrong ids."""
    await groups_ready(session)
    await session.topic("topic", 2)
    known = [Group("?", session.name("walk")), Group("nobody", session.name("walk"), "nobody", 1)]
    for number in range(120):
        group = rng.choice(known)
        generation = group.generation + rng.choice((0, 0, 0, 0, 1, -1))
        instance = rng.choice((group.instance, group.instance, None, "i"))
        kind = rng.choice(
            ("join", "join", "sync", "sync", "heartbeat", "leave", "commit", "describe", "delete")
        )
        label = f"{number} {group.state}"
        if kind == "join":
            await _join(session, rng, label, known, group.member, instance)
        elif kind == "sync":
            share = {group.member: b"%d" % number} if rng.random() < 0.7 else {}
            protocol = rng.choice(("range", "range", None, "x"))
            request = sync(group.id, group.member, generation, share, instance=instance, protocol=protocol)
            await session.ask(label, request, rng.choice((3, 4, 5)))
        elif kind == "heartbeat":
            request = heartbeat(group.id, group.member, generation, instance)
            await session.ask(label, request, rng.choice((3, 4)))
        elif kind == "leave":
            await session.ask(label, leave(group.id, (group.member, instance)), rng.choice((3, 4, 5)))
        elif kind == "commit":
            who: dict[str, Any] = {"member": group.member, "generation": generation, "instance": instance}
            request = commit(group.id, session.name("topic"), {0: number}, **who)
            await session.ask(label, request, rng.choice((7, 8, 9)))
        elif kind == "describe":
            await session.ask(label, DescribeGroupsRequest([group.id]))
        elif rng.random() < 0.3:
            await session.ask(label, DeleteGroupsRequest([group.id]))


async def _join(
    session: Session, rng: random.Random, label: str, known: list[Group], member: str, instance: str | None
) -> None:
    """A request that would wait for others is given up, and whoever sent it leaves."""
    protocols = rng.choice((["range"], ["range"], ["range", "x"], ["x"]))
    group, version = session.name("walk"), rng.choice((5, 7, 9))
    request = join(group, member, instance=instance, protocols=protocols, session_ms=60_000)
    asked = await session.begin(request, version, client=f"c#{label}", wait_ms=60_000)
    for _ in range(WAITS_MS // PAUSE_MS):
        if not asked.done():
            await session.pass_time(PAUSE_MS)
    if not asked.done():
        session.write(f"{label}, JoinGroup v{version}", "waits")
        members = await session.get(DescribeGroupsRequest([group]))
        # All at once: with one after the other it would matter who is first, and Kafka's order is by chance.
        everybody = [(each.member_id, each.group_instance_id) for each in members.groups[0].members]
        await session.get(leave(group, *everybody))
    reply = await session.hear(f"{label}, JoinGroup v{version}", asked, version)
    if reply is not None and reply.member_id:
        known.append(Group(f"m{len(known)}", group, reply.member_id, reply.generation_id, instance))
        del known[2:-3]
