"""Every way in which the epoch of a KIP-848 group may move, and some in which it must not.

Each case has a group and topics of its own. Members settle in, something happens, and all of them send
heartbeats until nothing changes any more; then it is told whether the epoch moved and who has how much. Kafka
looks for the topics of patterns in the background and at most once in ten seconds, and finds out about
changed topics by itself, so neither the number of epochs nor the time is compared. `docs/paths/heartbeat.md`
has the same table.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from headrace.base.error_codes import ErrorCode
from headrace.wire.schemas.consumer_group_describe import ConsumerGroupDescribeRequest, DescribedGroup
from headrace.wire.schemas.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from headrace.wire.schemas.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from tests.compat.alike.scripts.states import groups_ready
from tests.compat.alike.session import Session
from tests.server.group_requests import heartbeat, join, leave, subscription, sync

CALM_MS = 1_500
"""How long a group must stay as it is: longer than a broker takes to see topics that changed."""
PATTERN_MS = 13_000
"""The same where patterns are to be resolved: Kafka does that once in ten seconds."""
BEATS = 6
"""Heartbeats that find nothing new before a group counts as settled."""
PARTITIONS = 4


@dataclass
class Member:
    """A well-behaved member: it takes what it is given and lets go of what it must."""

    case: "Case"
    id: str
    instance: str | None = None
    epoch: int = 0
    owned: dict[bytes, list[int]] = field(default_factory=dict)
    lets_go: bool = True
    client: str = "c"

    async def join(
        self, *topics: str, pattern: str | None = None, timeout_ms: int = 30_000, **fields: Any
    ) -> None:
        """Topics by name, with the case's prefix left out, and a pattern of what comes behind it."""
        self.epoch, self.owned = 0, {}
        await self.beat(
            topic_partitions=[],
            rebalance_timeout_ms=timeout_ms,
            **self.subscription(*topics, pattern=pattern),
            **fields,
        )
        self.case.members.append(self)

    def subscription(self, *topics: str, pattern: str | None = None) -> dict[str, Any]:
        prefix = self.case.prefix
        return {
            "subscribed_topic_names": [prefix + each for each in topics],
            "subscribed_topic_regex": None if pattern is None else pattern and f"{prefix}({pattern})",
        }

    async def beat(self, epoch: int | None = None, **fields: Any) -> None:
        said = self.epoch if epoch is None else epoch
        owned = [TopicPartitions(topic, indexes) for topic, indexes in self.owned.items() if indexes]
        request = ConsumerGroupHeartbeatRequest(
            self.case.group, self.id, said, self.instance, **{"topic_partitions": owned} | fields
        )
        reply = await self.case.get(request, self.client)
        if reply.error_code:
            assert epoch is None, reply
            assert self in self.case.members, reply
            self.case.members.remove(self)  # it was put out
            return
        self.epoch = reply.member_epoch
        if reply.assignment is not None:
            given = {each.topic_id: list(each.partitions) for each in reply.assignment.topic_partitions}
            if self.lets_go:
                self.owned = given

    async def leave(self, epoch: int = -1) -> None:
        await self.beat(epoch)
        self.case.members.remove(self)


@dataclass
class Classic:
    """A member of the classic protocol, which lets go of everything when it joins again."""

    case: "Case"
    instance: str | None = None
    id: str = ""
    generation: int = -1
    topics: tuple[str, ...] = ()

    async def join(self, *topics: str) -> None:
        self.topics = tuple(self.case.prefix + each for each in topics)
        await self._join()
        if self not in self.case.members:
            self.case.members.append(self)

    async def _join(self) -> None:
        options: dict[str, Any] = {
            "instance": self.instance,
            "protocols": {"range": subscription(*self.topics)},
        }
        case, group = self.case, self.case.group
        reply = await case.get(join(group, self.id, **options))
        if reply.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            reply = await case.get(join(group, reply.member_id, **options))
        assert reply.error_code == 0, reply
        self.id, self.generation = reply.member_id, reply.generation_id
        await case.get(sync(group, self.id, self.generation, instance=self.instance))

    async def beat(self) -> None:
        reply = await self.case.get(heartbeat(self.case.group, self.id, self.generation, self.instance))
        if reply.error_code == ErrorCode.REBALANCE_IN_PROGRESS:
            await self._join()
        else:
            assert reply.error_code == 0, reply

    async def leave(self) -> None:
        await self.case.get(leave(self.case.group, (self.id, self.instance)))
        self.case.members.remove(self)


class Case:
    """One group, its topics `a` and `b` of 4 and 2 partitions, and what happens to it."""

    def __init__(self, session: Session, number: int) -> None:
        self.session = session
        self.name = f"e{number}-"
        self.prefix = session.name(self.name)
        self.group = self.prefix + "group"
        self.members: list[Member | Classic] = []
        self.calm_ms = CALM_MS

    async def get(self, message: Any, client: str = "c") -> Any:
        """Cases are played at the same time, over connections of their own."""
        return await self.session.get(message, client=f"{client}#{self.name}")

    def member(self, name: str = "m1", **options: Any) -> Member:
        return Member(self, name, **options)

    async def topic(self, name: str, partitions: int = PARTITIONS) -> None:
        await self.session.topic(self.name + name, partitions)

    async def add_partitions(self, name: str, count: int) -> None:
        topic = CreatePartitionsTopic(self.prefix + name, count, None)
        await self.get(CreatePartitionsRequest([topic], timeout_ms=10_000))

    async def delete_topic(self, name: str) -> None:
        await self.session.delete_topic(self.name + name)

    async def described(self) -> DescribedGroup:
        reply = await self.get(ConsumerGroupDescribeRequest([self.group]))
        group: DescribedGroup = reply.groups[0]
        return group

    async def settled(self) -> DescribedGroup:
        """Heartbeats of everybody until the group has not changed for a while."""
        calm, seen = 0, None
        while calm < BEATS:
            for member in list(self.members):
                await member.beat()
            group = await self.described()
            shown = self.session.names.plain(group, 1)
            calm = calm + 1 if shown == seen else 0
            seen = shown
            await self.session.pass_time(self.calm_ms // BEATS)
        return group


Step = Callable[[Case], Awaitable[None]]
CASES: dict[str, tuple[Step, Step, bool]] = {}
"""What happens: first, then, and whether a pattern is resolved by it."""


def case(label: str, first: Step, *, pattern: bool = False) -> Callable[[Step], Step]:
    def add(then: Step) -> Step:
        CASES[label] = first, then, pattern
        return then

    return add


async def nobody(case: Case) -> None: ...


async def by_name(case: Case) -> None:
    await case.member().join("a")


async def by_pattern(case: Case) -> None:
    await case.member().join(pattern="a.*")


async def both_ways(case: Case) -> None:
    await case.member().join("a")
    await case.member("m2").join(pattern="a.*")


async def two(case: Case) -> None:
    await case.member().join("a")
    await case.member("m2").join("a")


async def static(case: Case) -> None:
    await case.member(instance="i").join("a")


async def away(case: Case) -> None:
    await static(case)
    await case.members[0].leave(-2)  # type: ignore[call-arg]


# --- members come ---


@case("the first member joins", nobody)
async def _(case: Case) -> None:
    await case.member().join("a")


@case("a first member that wants nothing joins", nobody)
async def _(case: Case) -> None:
    await case.member().join()


@case("a member joins", by_name)
async def _(case: Case) -> None:
    await case.member("m2").join("a")


@case("a member that wants nothing joins", by_name)
async def _(case: Case) -> None:
    await case.member("m2").join()


@case("a member that wants a topic that is not there joins", by_name)
async def _(case: Case) -> None:
    await case.member("m2").join("none")


@case("the first member joins with a pattern", nobody, pattern=True)
async def _(case: Case) -> None:
    await case.member().join(pattern="a.*")


@case("a member joins with a pattern that the group has", by_pattern, pattern=True)
async def _(case: Case) -> None:
    await case.member("m2").join(pattern="a.*")


@case("a member joins with another pattern for the same topics", by_pattern, pattern=True)
async def _(case: Case) -> None:
    await case.member("m2").join(pattern="a|x")


@case("a member joins with a pattern for topics that the group has by name", by_name, pattern=True)
async def _(case: Case) -> None:
    await case.member("m2").join(pattern="a.*")


@case("a member joins by name for topics that the group has by a pattern", by_pattern, pattern=True)
async def _(case: Case) -> None:
    await case.member("m2").join("a")


@case("a member joins with a pattern for other topics", by_name, pattern=True)
async def _(case: Case) -> None:
    await case.member("m2").join(pattern="b")


@case("a member joins with a pattern that matches nothing", by_name, pattern=True)
async def _(case: Case) -> None:
    await case.member("m2").join(pattern="none.*")


@case("a member joins again with epoch 0", two)
async def _(case: Case) -> None:
    member = case.members.pop(0)
    assert isinstance(member, Member)
    await member.join("a")


# --- members change ---


@case("a member wants one topic more", by_name)
async def _(case: Case) -> None:
    await _changes(case, "a", "b")


@case("a member wants another topic", two)
async def _(case: Case) -> None:
    await _changes(case, "b")


@case("a member wants nothing any more", two)
async def _(case: Case) -> None:
    await _changes(case)


@case("a member says the same again", by_name)
async def _(case: Case) -> None:
    await _changes(case, "a")


@case("a member goes from names to a pattern for them", by_name, pattern=True)
async def _(case: Case) -> None:
    await _changes(case, pattern="a.*")


@case("a member goes from names to a pattern that the group has", both_ways, pattern=True)
async def _(case: Case) -> None:
    await _changes(case, pattern="a.*")


@case("a member adds a pattern", by_name, pattern=True)
async def _(case: Case) -> None:
    await _changes(case, "a", pattern="b")


@case("a member goes from a pattern to names of the same topics", by_pattern, pattern=True)
async def _(case: Case) -> None:
    await _changes(case, "a", pattern="")


@case("a member takes another pattern", by_pattern, pattern=True)
async def _(case: Case) -> None:
    await _changes(case, pattern="b")


@case("a member asks for another assignor", two)
async def _(case: Case) -> None:
    await _beats(case, server_assignor="range")


@case("a member says another rack", two)
async def _(case: Case) -> None:
    await _beats(case, rack_id="r")


@case("a member says another rebalance time-out", two)
async def _(case: Case) -> None:
    await _beats(case, rebalance_timeout_ms=40_000)


@case("a member comes from another client", two)
async def _(case: Case) -> None:
    member = case.members[0]
    assert isinstance(member, Member)
    member.client = "d"


async def _changes(case: Case, *topics: str, pattern: str | None = None) -> None:
    member = case.members[0]
    assert isinstance(member, Member)
    await member.beat(**member.subscription(*topics, pattern=pattern))


async def _beats(case: Case, **fields: Any) -> None:
    member = case.members[0]
    assert isinstance(member, Member)
    await member.beat(**fields)


# --- members go ---


@case("a member leaves", two)
async def _(case: Case) -> None:
    await case.members[0].leave()


@case("the last member leaves", by_name)
async def _(case: Case) -> None:
    await case.members[0].leave()


async def one_idle(case: Case) -> None:
    await by_name(case)
    await case.member("m2").join()


@case("a member that wants nothing leaves", one_idle)
async def _(case: Case) -> None:
    await case.members[1].leave()


@case("the last member with a pattern leaves", both_ways, pattern=True)
async def _(case: Case) -> None:
    await case.members[1].leave()


@case("an administrator takes a member out", two)
async def _(case: Case) -> None:
    member = case.members.pop(0)
    await case.get(leave(case.group, member.id))


async def stubborn(case: Case) -> None:
    """Two members, one of which has to let go of half and keeps all."""
    first = case.member()
    await first.join("a", timeout_ms=2_000)
    await case.settled()
    first.lets_go = False
    case.calm_ms = 250
    await case.member("m2").join("a")


@case("a member does not let go in its rebalance time-out", stubborn)
async def _(case: Case) -> None:
    case.calm_ms = 4_000


@case("a static member leaves for a while", static)
async def _(case: Case) -> None:
    member = case.members[0]
    assert isinstance(member, Member)
    await member.leave(-2)


@case("a static member comes back", away)
async def _(case: Case) -> None:
    await case.member("m2", instance="i").join("a")


@case("a static member comes back for another topic", away)
async def _(case: Case) -> None:
    await case.member("m2", instance="i").join("b")


@case("a static member comes back with a pattern", away, pattern=True)
async def _(case: Case) -> None:
    await case.member("m2", instance="i").join(pattern="a.*")


# --- topics change ---


@case("a topic gets more partitions", by_name)
async def _(case: Case) -> None:
    await case.add_partitions("a", PARTITIONS + 2)


async def of_two_topics(case: Case) -> None:
    await case.member().join("a", "b", "later")


@case("a topic is deleted", of_two_topics)
async def _(case: Case) -> None:
    await case.delete_topic("a")


@case("a topic that is waited for is made", of_two_topics)
async def _(case: Case) -> None:
    await case.topic("later")


@case("a topic of a pattern is made", by_pattern, pattern=True)
async def _(case: Case) -> None:
    await case.topic("a-2")


@case("a topic of a pattern is deleted", by_pattern, pattern=True)
async def _(case: Case) -> None:
    await case.delete_topic("a")


@case("a topic that nobody wants is made", by_name)
async def _(case: Case) -> None:
    await case.topic("c")


# --- members of the classic protocol ---


@case("a classic member joins", by_name)
async def _(case: Case) -> None:
    await Classic(case).join("a")


@case("a classic member joins for topics of a pattern", by_pattern, pattern=True)
async def _(case: Case) -> None:
    await Classic(case).join("a")


async def mixed(case: Case) -> None:
    await two(case)
    await Classic(case).join("a")


@case("a classic member wants another topic", mixed)
async def _(case: Case) -> None:
    other = case.members[2]
    assert isinstance(other, Classic)
    await other.join("b")


@case("a classic member leaves", mixed)
async def _(case: Case) -> None:
    await case.members[2].leave()


async def script(session: Session) -> None:
    await groups_ready(session)
    for number in range(len(CASES)):
        for topic, partitions in (("a", PARTITIONS), ("b", 2)):
            await Case(session, number).topic(topic, partitions)
    outcomes = await asyncio.gather(
        *(outcome(Case(session, number), *steps) for number, steps in enumerate(CASES.values()))
    )
    for label, content in zip(CASES, outcomes, strict=True):
        session.write(label, content)


async def outcome(case: Case, first: Step, then: Step, pattern: bool) -> dict[str, Any]:
    if pattern:
        case.calm_ms = PATTERN_MS
    await first(case)
    before = 0 if first is nobody else (await case.settled()).group_epoch
    await then(case)
    after = await case.settled()
    given = (
        sum(len(topic.partitions) for topic in each.assignment.topic_partitions) for each in after.members
    )
    return {"moves": after.group_epoch > before, "state": after.group_state, "partitions": sorted(given)}
