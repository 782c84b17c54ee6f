"""Streams groups (KIP-1071): heartbeats right and wrong, topologies and their topics, tasks and offsets."""

from itertools import product
from typing import Any

from headrace.wire.schemas.consumer_group_describe import ConsumerGroupDescribeRequest
from headrace.wire.schemas.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from headrace.wire.schemas.delete_groups import DeleteGroupsRequest
from headrace.wire.schemas.describe_groups import DescribeGroupsRequest
from headrace.wire.schemas.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from headrace.wire.schemas.list_groups import ListGroupsRequest
from headrace.wire.schemas.metadata import MetadataRequest
from headrace.wire.schemas.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from headrace.wire.schemas.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from headrace.wire.schemas.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from headrace.wire.schemas.share_group_heartbeat import ShareGroupHeartbeatRequest
from headrace.wire.schemas.streams_group_describe import StreamsGroupDescribeRequest
from headrace.wire.schemas.streams_group_heartbeat import (
    CopartitionGroup,
    Endpoint,
    KeyValue,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    Subtopology,
    TaskIds,
    TaskOffset,
    TopicInfo,
    Topology,
)
from tests.compat.alike.scripts.states import BY_NAME, groups_ready
from tests.compat.alike.session import Session
from tests.server.group_requests import commit, join

SETTINGS = {
    "group.streams.assignment.interval.ms": "0",
    "group.streams.heartbeat.interval.ms": "5000",
    "group.streams.initial.rebalance.delay.ms": "0",
    "group.streams.max.size": "3",
}

GROUP_RESOURCE = 32


async def script(session: Session) -> None:
    await groups_ready(session)
    for partitions in (1, 2, 3):
        await session.topic(f"in{partitions}", partitions)
    await session.topic("three", 3)
    await first_requests(session)
    await topologies(session)
    await two_members(session)
    await epochs(session)
    await crowds(session)
    await standbys(session)
    await endpoints(session)
    await offsets(session)
    await other_kinds(session)
    await ends(session)


# --- what is asked ---


def part(
    session: Session,
    number: int | str,
    sources: str = "",
    *,
    sinks: str = "",
    repartition: str = "",
    kept: str = "",
    together: bool = False,
) -> Subtopology:
    """Names of topics with spaces between; `name:3` asks for so many partitions."""

    def names(text: str) -> list[str]:
        return [session.name(name.partition(":")[0]) for name in text.split()]

    def infos(text: str) -> list[TopicInfo]:
        return [
            TopicInfo(session.name(name.partition(":")[0]), int(name.partition(":")[2] or 0))
            for name in text.split()
        ]

    joined = CopartitionGroup(list(range(len(sources.split()))), [], list(range(len(repartition.split()))))
    return Subtopology(
        str(number),
        names(sources),
        state_changelog_topics=infos(kept),
        repartition_sink_topics=names(sinks),
        repartition_source_topics=infos(repartition),
        copartition_groups=[joined] if together else [],
    )


def joining(session: Session, group: str, member: str = "m", **fields: Any) -> StreamsGroupHeartbeatRequest:
    """A request that joins, with some of its fields changed."""
    usual: dict[str, Any] = {
        "rebalance_timeout_ms": 30_000,
        "topology": Topology(0, [part(session, 0, "in3")]),
        "active_tasks": [],
        "standby_tasks": [],
        "warmup_tasks": [],
        "process_id": f"process of {member}",
        "endpoint_information_epoch": -1,
    }
    return StreamsGroupHeartbeatRequest(session.name(group), member, 0, **usual | fields)


def beat(
    session: Session,
    group: str,
    member: str,
    epoch: int,
    active: Any = None,
    standby: Any = None,
    **fields: Any,
) -> StreamsGroupHeartbeatRequest:
    """A later one: lists of (subtopology, partitions), or no news."""
    tasks: dict[str, Any] = {}
    if active is not None:
        tasks = {
            "active_tasks": [TaskIds(*each) for each in active],
            "standby_tasks": [TaskIds(*each) for each in standby or ()],
            "warmup_tasks": [],
        }
    return StreamsGroupHeartbeatRequest(session.name(group), member, epoch, **tasks | fields)


def describe(session: Session, group: str) -> StreamsGroupDescribeRequest:
    return StreamsGroupDescribeRequest([session.name(group)])


class Member:
    """One that does what it is told."""

    def __init__(self, session: Session, group: str, name: str, **fields: Any) -> None:
        self.session, self.group, self.name, self.fields = session, group, name, fields
        self.epoch = 0
        self.active: list[TaskIds] = []
        self.standby: list[TaskIds] = []

    async def join(self) -> None:
        request = joining(self.session, self.group, self.name, **self.fields)
        self.take(await self.session.ask(f"{self.name} joins", request))

    async def beat(self, **fields: Any) -> None:
        tasks = {"active_tasks": self.active, "standby_tasks": self.standby, "warmup_tasks": []}
        request = StreamsGroupHeartbeatRequest(
            self.session.name(self.group), self.name, self.epoch, **tasks | fields
        )
        self.take(await self.session.ask(f"{self.name} goes on", request))

    def take(self, reply: StreamsGroupHeartbeatResponse | None) -> None:
        if reply is None or reply.error_code:
            return
        self.epoch = reply.member_epoch
        if reply.active_tasks is not None:
            self.active, self.standby = reply.active_tasks, reply.standby_tasks or []


# --- the script ---


async def first_requests(session: Session) -> None:
    topology = Topology(0, [part(session, 0, "in3")])
    pattern = part(session, 0, "in3")
    pattern.source_topic_regex = ["in.*"]
    numbered = part(session, 0, "in3", kept="kept:3")
    wrong: dict[str, dict[str, Any]] = {
        "right": {},
        "no rebalance time-out": {"rebalance_timeout_ms": -1},
        "a rebalance time-out of nothing": {"rebalance_timeout_ms": 0},
        "no topology": {"topology": None},
        "an empty topology": {"topology": Topology(0, [])},
        "a topology before the first": {"topology": Topology(-1, topology.subtopologies)},
        "a later topology": {"topology": Topology(5, topology.subtopologies)},
        "a pattern": {"topology": Topology(0, [pattern])},
        "a changelog with partitions": {"topology": Topology(0, [numbered])},
        "a part twice": {"topology": Topology(0, [part(session, 0, "in3"), part(session, 0, "in2")])},
        "a topic of Kafka's own": {"topology": Topology(0, [Subtopology("0", ["__consumer_offsets"])])},
        "a bad name": {"topology": Topology(0, [Subtopology("0", ["a/b"])])},
        "no active tasks": {"active_tasks": None},
        "no standby tasks": {"standby_tasks": None},
        "no warm-up tasks": {"warmup_tasks": None},
        "active tasks": {"active_tasks": [TaskIds("0", [0])]},
        "standby tasks": {"standby_tasks": [TaskIds("0", [0])]},
        "warm-up tasks": {"warmup_tasks": [TaskIds("0", [0])]},
        "no process": {"process_id": None},
        "an instance": {"instance_id": "i"},
        "a rack": {"rack_id": "r"},
        "an empty rack": {"rack_id": ""},
        "tags": {"client_tags": [KeyValue("a", "b")]},
        "an endpoint": {"user_endpoint": Endpoint("h", 80)},
        "offsets": {"task_offsets": [TaskOffset("0", 0, 0)]},
        "end offsets": {"task_end_offsets": [TaskOffset("0", 0, 0)]},
        "no offsets": {"task_offsets": [], "task_end_offsets": []},
        "a shutdown": {"shutdown_application": True},
        "leaves": {"member_epoch": -1},
        "leaves for a while": {"member_epoch": -2},
        "leaves for a while with an instance": {"member_epoch": -2, "instance_id": "i"},
        "epoch -3": {"member_epoch": -3},
        "epoch 1": {"member_epoch": 1},
        "epoch 1 without a topology": {"member_epoch": 1, "topology": None},
    }
    for number, (label, fields) in enumerate(wrong.items()):
        request = joining(session, f"first{number}")
        for name, value in fields.items():
            setattr(request, name, value)
        await session.ask(label, request)
        await session.ask(f"after {label}", describe(session, f"first{number}"))
    for member, epoch in product(("", " ", "m" * 37), (0, -1, 1)):
        request = joining(session, "names", member)
        request.member_epoch = epoch
        if epoch:
            request.topology = None
        await session.ask(f"member {member[:4]!r}, epoch {epoch}", request)
    for group in ("", " "):
        request = joining(session, "x")
        request.group_id = group
        await session.ask(f"group {group!r}", request)
    await session.ask("none", StreamsGroupDescribeRequest([]))
    await session.ask("unnamed", StreamsGroupDescribeRequest([""]))
    await session.ask("rights", StreamsGroupDescribeRequest([session.name("first0")], True))


def _topologies(session: Session) -> dict[str, list[Subtopology]]:
    return {
        "two topics": [part(session, 0, "in1 in3")],
        "joined and alike": [part(session, 0, "in3 three", together=True)],
        "joined and unlike": [part(session, 0, "in1 in3", together=True)],
        "missing": [part(session, 0, "none")],
        "many missing": [part(session, 0, "none1 none2 none3 none4 none5")],
        "no sources": [part(session, 0, kept="kept0")],
        "a changelog that is there": [part(session, 0, "in3", kept="three")],
        "a changelog that does not fit": [part(session, 0, "in3", kept="in2")],
        "a loop": [part(session, 0, "in1"), part(session, 1, repartition="r0", sinks="r0")],
        "never written": [part(session, 0, "in1"), part(session, 1, repartition="r0")],
        "written and never read": [part(session, 0, "in1", sinks="r0")],
        "a repartition topic that is there": [
            part(session, 0, "in2", sinks="three"),
            part(session, 1, repartition="three"),
        ],
        "a number that does not fit": [
            part(session, 0, "in2", sinks="r1"),
            part(session, 1, "in3", repartition="r1:2", together=True),
        ],
        "an own number": [
            part(session, 0, "in2", sinks="r2"),
            part(session, 1, repartition="r2:4", kept="k2"),
        ],
        "a chain": [
            part(session, 0, "in2", sinks="r3"),
            part(session, 1, repartition="r3", sinks="r4", kept="k3"),
            part(session, 2, repartition="r4", kept="k4"),
        ],
        "a chain backwards": [
            part(session, 2, "in2", sinks="r5"),
            part(session, 1, repartition="r5", sinks="r6"),
            part(session, 0, repartition="r6", kept="k6"),
        ],
        "joined with what is smaller": [
            part(session, 0, "in3", sinks="r7"),
            part(session, 1, "in2", repartition="r7", together=True, kept="k7"),
        ],
        "the larger of two": [
            part(session, 0, "in3", sinks="r8"),
            part(session, 1, "in2", sinks="r9"),
            part(session, 2, repartition="r8 r9", together=True),
        ],
    }


async def topologies(session: Session) -> None:
    """What is missing is made meanwhile: no status of it is compared twice."""
    for number, (label, parts) in enumerate(_topologies(session).items()):
        group = f"topology{number}"
        reply = await session.ask(label, joining(session, group, topology=Topology(0, parts)))
        await session.ask(f"after {label}", describe(session, group))
        if reply is None or not any(each.status_code == 3 for each in reply.status or ()):
            continue
        wanted = {
            topic.name
            for each in parts
            for topic in (*each.repartition_source_topics, *each.state_changelog_topics)
        }
        made = await session.until(
            MetadataRequest(topics=None),
            lambda reply, wanted=wanted: wanted <= {each.name for each in reply.topics},
        )
        sizes = {each.name: len(each.partitions) for each in made.topics if each.name in wanted}
        session.write(
            f"made for {label}", [[session.names.in_text(name), sizes[name]] for name in sorted(sizes)]
        )
        epoch = reply.member_epoch
        told = await session.until(
            beat(session, group, "m", epoch),
            lambda reply: not reply.status and reply.active_tasks is not None,
        )
        session.write(f"tasks for {label}", session.names.plain(told, 0))
        await session.ask(f"in the end, {label}", describe(session, group))


async def two_members(session: Session) -> None:
    """Tasks that move, step by step."""
    one, two = (Member(session, "two", name) for name in ("m1", "m2"))
    await one.join()
    await session.ask("m1 alone", describe(session, "two"))
    await two.join()
    await session.ask("m2 waits", describe(session, "two"))
    await session.ask("m1 has no news", beat(session, "two", "m1", one.epoch))
    await session.ask("m1 has not heard", beat(session, "two", "m1", one.epoch, [("0", [0, 1, 2])]))
    await session.ask("m1 is closing", describe(session, "two"))
    kept = await session.ask("m1 has closed one", beat(session, "two", "m1", one.epoch, [("0", [0, 1])]))
    one.take(kept)
    await session.ask("m1 is done", describe(session, "two"))
    await two.beat()
    await session.ask("m2 has its own", describe(session, "two"))
    for _ in range(2):
        await one.beat()
        await two.beat()
    await session.ask("stable", describe(session, "two"))
    await session.ask("listed", ListGroupsRequest(types_filter=["streams"], states_filter=["Stable"]))
    await session.ask("m1 leaves", beat(session, "two", "m1", -1))
    await session.ask("m1 is gone", describe(session, "two"))
    await two.beat()
    await two.beat()
    await session.ask("m2 alone", describe(session, "two"))
    await session.ask("m2 joins again", joining(session, "two", "m2"))
    await session.ask("m2 in another process", joining(session, "two", "m2", process_id="another"))
    other = Topology(1, [part(session, 0, "in2")])
    await session.ask("another topology", joining(session, "two", "m3", topology=other))
    await session.ask("m2 leaves", beat(session, "two", "m2", -1))
    await session.ask("nobody", describe(session, "two"))
    await session.ask("another topology for nobody", joining(session, "two", "m3", topology=other))
    await session.ask("the same as ever", joining(session, "two", "m3"))
    await session.ask("somebody", describe(session, "two"))


async def epochs(session: Session) -> None:
    member = Member(session, "epochs", "m")
    await member.join()
    epoch = member.epoch
    for said in (epoch + 1, epoch - 1, 99):
        await session.ask(f"{said - epoch} beside its own", beat(session, "epochs", "m", said))
        await session.ask(
            f"{said - epoch} beside its own, with tasks", beat(session, "epochs", "m", said, [("0", [0])])
        )
    await session.ask("another member", beat(session, "epochs", "x", epoch))
    await session.ask("another member leaves", beat(session, "epochs", "x", -1))
    await session.ask("a part that is not there", beat(session, "epochs", "m", epoch, [("7", [0])]))
    await session.ask("a task that is not there", beat(session, "epochs", "m", epoch, [("0", [3])]))
    await session.ask("a copy that is not there", beat(session, "epochs", "m", epoch, [], [("0", [9])]))
    topology = Topology(0, [part(session, 0, "in3")])
    await session.ask("a topology later on", beat(session, "epochs", "m", epoch, topology=topology))
    await session.ask("news of itself", beat(session, "epochs", "m", epoch, rack_id="r"))
    await session.ask("it moved", beat(session, "epochs", "m", epoch, [("0", [0])]))
    await session.ask("it moved, and says nothing", beat(session, "epochs", "m", epoch))
    await session.ask("it moved, and has more", beat(session, "epochs", "m", epoch, [("0", [0, 1, 2, 7])]))
    await session.ask("another rack", describe(session, "epochs"))
    stale = Topology(-1, topology.subtopologies)
    await session.ask("joins with a topology of before", joining(session, "epochs", "n", topology=stale))


async def crowds(session: Session) -> None:
    for number in range(4):
        await session.ask(f"member {number} of 3", joining(session, "full", f"m{number}"))
    await session.ask("the first again", joining(session, "full", "m0"))
    await session.ask("all of them", describe(session, "full"))
    await session.ask("one asks for a shutdown", beat(session, "full", "m0", -1, shutdown_application=True))
    await session.ask("the others hear of it", beat(session, "full", "m1", 3))


async def standbys(session: Session) -> None:
    group = "standbys"
    parts = [part(session, 0, "in3", kept="kept3"), part(session, 1, "in2")]
    one, two = (
        Member(session, group, name, topology=Topology(0, parts), user_endpoint=Endpoint(name, 1))
        for name in ("m1", "m2")
    )
    await session.until(
        joining(session, group, "m0", topology=Topology(0, parts)), lambda reply: bool(reply.active_tasks)
    )
    await session.get(beat(session, group, "m0", -1))
    await one.join()
    await two.join()
    asked = [AlterableConfig("streams.num.standby.replicas", 0, "1")]
    resource = AlterConfigsResource(GROUP_RESOURCE, session.name(group), asked)
    await session.ask("a copy of each", IncrementalAlterConfigsRequest([resource]))
    for _ in range(4):
        await one.beat()
        await two.beat()
    await session.ask("with copies", describe(session, group))
    await session.ask("m1 leaves", beat(session, group, "m1", -1))
    for _ in range(3):
        await two.beat()
    await session.ask("without", describe(session, group))


async def endpoints(session: Session) -> None:
    group = "endpoints"
    one = Member(session, group, "m1", user_endpoint=Endpoint("one", 1))
    two = Member(session, group, "m2")
    await one.join()
    await two.join()
    for epoch in (-1, 0, 1, 2):
        await one.beat(endpoint_information_epoch=epoch)
        await two.beat(endpoint_information_epoch=epoch)


async def offsets(session: Session) -> None:
    group, topic = session.name("offsets"), session.name("in3")
    member = Member(session, "offsets", "m")
    await member.join()

    def say(name: str, epoch: int, partition: int = 0) -> OffsetCommitRequest:
        partitions = [OffsetCommitRequestPartition(partition, 5)]
        return OffsetCommitRequest(
            group, epoch, name, topics=[OffsetCommitRequestTopic(topic, partitions=partitions)]
        )

    for name, epoch in product(("", "m", "x"), (-1, 0, member.epoch, member.epoch + 1, member.epoch - 1)):
        for version in (8, BY_NAME):
            await session.ask(f"{name!r} with {epoch}", say(name, epoch), version)
    for name, epoch in ((None, -1), ("m", member.epoch), ("m", member.epoch + 1), ("x", 1), ("m", -1)):
        asked = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group, name, epoch)])
        await session.ask(f"{name!r} with {epoch}", asked, 9)
    await session.ask("news of itself", beat(session, "offsets", "m", member.epoch, rack_id="r"))
    await session.ask("with the epoch before", say("m", member.epoch), BY_NAME)
    deletion = OffsetDeleteRequest(
        group,
        [
            OffsetDeleteRequestTopic(session.name(name), [OffsetDeleteRequestPartition(0)])
            for name in ("in3", "in2")
        ],
    )
    await session.ask("somebody is in it", deletion)
    await session.ask("somebody is in it", DeleteGroupsRequest([group]))
    await session.ask("leaves", beat(session, "offsets", "m", -1))
    await session.ask("from outside", say("", -1), BY_NAME)
    await session.ask("nobody is in it", deletion)


async def other_kinds(session: Session) -> None:
    """Streams requests about a group of another kind, and requests of other kinds about a streams group."""
    topic, classic, streams, empty = (session.name(each) for each in ("in3", "classic", "epochs", "offsets"))
    await session.get(commit(classic, topic, {0: 5}), BY_NAME)
    await session.ask("a group of offsets", describe(session, "classic"))
    await session.ask("a group of offsets", joining(session, "classic"))
    await session.ask("that was one of offsets", describe(session, "classic"))

    def consumer(group: str) -> ConsumerGroupHeartbeatRequest:
        return ConsumerGroupHeartbeatRequest(
            group, "c", 0, rebalance_timeout_ms=5_000, subscribed_topic_names=[topic], topic_partitions=[]
        )

    await session.get(consumer(session.name("consumers")))
    await session.ask("a consumer group", joining(session, "consumers"))
    await session.ask("a consumer group", describe(session, "consumers"))
    await session.ask("a consumer group", beat(session, "consumers", "m", 1))
    await session.ask("a consumer group", beat(session, "consumers", "m", -1))
    member = "AAAAAAAAAAAAAAAAAAAAAQ"
    for label, group in (("a streams group", streams), ("an empty streams group", empty)):
        await session.ask(label, consumer(group))
        await session.ask(label, ConsumerGroupDescribeRequest([group]))
        await session.ask(label, DescribeGroupsRequest([group]))
        await session.ask(label, ShareGroupHeartbeatRequest(group, member, 0, None, [topic]))
    await session.ask("a streams group", join(streams, ""))
    await session.ask("listed", ListGroupsRequest(types_filter=["streams"]))


async def ends(session: Session) -> None:
    group = session.name("ends")
    await session.get(joining(session, "ends"))
    await session.ask("a member", DeleteGroupsRequest([group]))
    await session.get(beat(session, "ends", "m", -1))
    await session.ask("nobody", DeleteGroupsRequest([group]))
    await session.ask("again", DeleteGroupsRequest([group]))
    await session.ask("deleted", describe(session, "ends"))
