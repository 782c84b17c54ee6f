"""Members that are put out of their group, and commits that come late: on virtual time, with the real node.

An administrator's request takes the member out, which is what a session that ends does, too.
"""

import threading
from collections.abc import Mapping
from typing import Any

import pytest

from headrace.base.ids import TopicPartition
from headrace.clients import AsyncConsumer, Consumer, ConsumerRecord, OffsetAndMetadata
from headrace.clients.assignors.consumer_partition_assignor import encode_assignment
from headrace.clients.errors import ClientError, CommitFailedError
from headrace.wire.schemas.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from headrace.wire.schemas.delete_groups import DeleteGroupsRequest
from headrace.wire.schemas.find_coordinator import Coordinator as Found
from headrace.wire.schemas.find_coordinator import FindCoordinatorResponse
from headrace.wire.schemas.heartbeat import HeartbeatResponse
from headrace.wire.schemas.join_group import JoinGroupResponse
from headrace.wire.schemas.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from headrace.wire.schemas.offset_commit import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from headrace.wire.schemas.offset_fetch import OffsetFetchResponse
from headrace.wire.schemas.sync_group import SyncGroupResponse
from tests.clients.scripted import TOPIC_ID, ScriptedCluster
from tests.clients.test_consumer import fill
from tests.clients.test_groups import BROKER, WAYS, Notes, member, shared
from tests.clients.test_producer import play
from tests.clients.worlds import ClientWorld, partitions, read_until

T0 = TopicPartition("t", 0)


async def put_out(world: ClientWorld, consumer: AsyncConsumer, group_id: str = "g") -> None:
    """Take a member out of its group behind its back."""
    outsider = await world.connect("admin")
    identity = consumer.core.identity
    if consumer.core.config.str("group.protocol") == "consumer":
        beat = ConsumerGroupHeartbeatRequest(group_id=group_id, member_id=identity.member_id, member_epoch=-1)
        assert (await outsider.ask(beat, 1)).error_code == 0
    else:
        leave = LeaveGroupRequest(
            group_id=group_id, members=[MemberIdentity(member_id=identity.member_id, reason="")]
        )
        assert (await outsider.ask(leave, 4)).members[0].error_code == 0
    outsider.close()


async def committed(world: ClientWorld) -> int:
    reader = world.consumer(group_id="g")
    found = await reader.committed([T0])
    await reader.close()
    return found[T0].offset


@pytest.mark.parametrize("way", ["range", "cooperative-sticky", "kip-848"])
def test_who_was_put_out_cannot_commit_to_the_group_it_left_empty(way: str) -> None:
    async def script(world: ClientWorld) -> None:
        await fill(world, 10)
        consumer, notes = member(world, enable_auto_commit="false", **WAYS[way])
        await read_until([consumer], [], 10)
        await consumer.commit({T0: 9})
        await put_out(world, consumer)
        await world.pass_time(5_000)  # a heartbeat has told it
        with pytest.raises(CommitFailedError, match="not a member"):
            await consumer.commit({T0: 3})
        assert await committed(world) == 9
        await shared([consumer], [1], [])
        assert notes.lost == [T0]
        await consumer.commit({T0: 10})
        await consumer.close()

    play(script, **BROKER)


def test_a_new_membership_is_no_good_for_commits_to_what_the_old_one_owned() -> None:
    async def script(world: ClientWorld) -> None:
        await fill(world, 10)
        slow, notes = member(world, enable_auto_commit="false", **WAYS["kip-848"])
        await read_until([slow], [], 10)
        await put_out(world, slow)
        other, _ = member(world, **WAYS["kip-848"])
        await read_until([other], [], 10)
        await other.commit()
        # All the while its heartbeats go on. It must not become a member again before a poll has told its
        # user what was lost: until then a commit is one to partitions that others own.
        with pytest.raises(CommitFailedError):
            await slow.commit({T0: 3})
        assert await committed(world) == 10
        await slow.poll(0.1)
        assert notes.lost == [T0]
        await slow.close()
        await other.close()

    play(script, **BROKER)


@pytest.mark.parametrize("way", ["range", "kip-848"])
def test_what_was_fetched_before_a_partition_was_lost_is_not_taken_for_what_comes_after(way: str) -> None:
    async def script(world: ClientWorld) -> None:
        await fill(world, 100)
        async with world.consumer(group_id="g") as outsider:
            await outsider.commit({T0: 0})
        consumer, notes = member(world, enable_auto_commit="false", fetch_max_wait_ms=20_000, **WAYS[way])
        await read_until([consumer], [], 100)
        await consumer.commit({T0: 10})
        await put_out(world, consumer)
        seen: list[ConsumerRecord] = []
        while not notes.lost or consumer.positions() != {T0: 10}:
            seen += await consumer.poll(0.05)
        # All the while a fetch at offset 100 waits at the broker. Now it is answered.
        async with world.producer() as producer:
            await producer.send("t", b"100", partition=0)
        await read_until([consumer], seen, 91)
        assert [row.offset for row in seen] == list(range(10, 101))
        await consumer.close()

    play(script, **BROKER)


@pytest.mark.parametrize("way", ["range", "cooperative-sticky", "kip-848"])
def test_a_listener_that_fails_keeps_no_partition(way: str) -> None:
    class Committing(Notes):
        """Commits whatever happens, as who does not tell lost from revoked."""

        async def on_lost(self, partitions: list[TopicPartition]) -> None:
            super().on_lost(partitions)
            await consumer.commit({T0: 10})

    async def script(world: ClientWorld) -> None:
        nonlocal consumer
        await fill(world, 10)
        options = {"group_id": "g", "auto_offset_reset": "earliest", "enable_auto_commit": "false"}
        consumer, notes = world.consumer(heartbeat_interval_ms=300, **options, **WAYS[way]), Committing()
        consumer.subscribe(["t"], listener=notes)
        await read_until([consumer], [], 10)
        await consumer.commit({T0: 4})
        await put_out(world, consumer)
        with pytest.raises(CommitFailedError):
            await consumer.poll(10.0)
        assert consumer.assignment == set()
        again: list[ConsumerRecord] = []
        await read_until([consumer], again, 6)
        assert [row.offset for row in again] == [4, 5, 6, 7, 8, 9]
        await consumer.close()

    consumer: Any = None
    play(script, **BROKER)


def test_a_listener_that_fails_when_partitions_are_exchanged_costs_none() -> None:
    class Failing(Notes):
        is_failing = True

        def on_revoked(self, partitions: list[TopicPartition]) -> None:
            super().on_revoked(partitions)
            if self.is_failing:
                self.is_failing = False
                raise ValueError("the listener failed")

    async def script(world: ClientWorld) -> None:
        await fill(world, 40, partitions=4)
        first = world.consumer(group_id="g", heartbeat_interval_ms=300, **WAYS["cooperative-sticky"])
        first.subscribe(["t"], listener=Failing())
        await shared([first], [4], [])
        second, _ = member(world, **WAYS["cooperative-sticky"])
        with pytest.raises(ValueError, match="the listener failed"):
            await shared([first, second], [2, 2], [])
        await shared([first, second], [2, 2], [])
        await first.close()
        await second.close()

    play(script, **BROKER)


@pytest.mark.parametrize("way", ["range", "kip-848"])
def test_a_refused_commit_makes_a_member_ask_how_things_stand(way: str) -> None:
    async def script(world: ClientWorld) -> None:
        await fill(world, 10)
        slow = {"heartbeat_interval_ms": 4_000, "session_timeout_ms": 45_000}
        consumer, notes = member(world, enable_auto_commit="false", **slow, **WAYS[way])
        await read_until([consumer], [], 10)
        await world.pass_time(4_500)  # the group is calm, and the next heartbeat seconds away
        await put_out(world, consumer)
        with pytest.raises(CommitFailedError):
            await consumer.commit({T0: 10})
        await consumer.poll(0.5)
        assert notes.lost == [T0]
        await consumer.close()

    play(script, group_consumer_heartbeat_interval_ms="5000")


def test_cooperation_ends_where_the_group_went_on_without_the_member() -> None:
    async def script(world: ClientWorld) -> None:
        await fill(world, 40, partitions=4)
        first, notes = member(world, **WAYS["cooperative-sticky"])
        second, _ = member(world, **WAYS["cooperative-sticky"])
        await shared([first, second], [2, 2], [])
        third, _ = member(world, **WAYS["cooperative-sticky"])
        for _ in range(100):  # the first waits in its join for the second, which does not poll
            for consumer in (first, third):
                await consumer.poll(0.02)
        assert first.assignment
        await put_out(world, first)
        for _ in range(50):
            await first.poll(0.02)
        assert len(notes.lost) == 2
        assert not first.assignment
        await shared([first, second, third], [1, 1, 2], [])
        for consumer in (first, second, third):
            await consumer.close()

    play(script, **BROKER)


def test_a_member_whose_group_is_gone_founds_it_anew() -> None:
    async def script(world: ClientWorld) -> None:
        await fill(world, 10)
        consumer, notes = member(world, **WAYS["kip-848"])
        await read_until([consumer], [], 10)
        await put_out(world, consumer)
        outsider = await world.connect("admin")
        deleted = await outsider.ask(DeleteGroupsRequest(groups_names=["g"]), 2)
        assert deleted.results[0].error_code == 0
        await world.pass_time(5_000)
        await shared([consumer], [1], [])
        assert notes.lost == [T0]
        await consumer.close()

    play(script, **BROKER)


@pytest.mark.parametrize("way", ["range", "kip-848"])
def test_a_commit_under_way_is_made_before_the_consumer_ends(way: str) -> None:
    async def script(world: ClientWorld) -> None:
        await fill(world, 10)
        consumer, _ = member(world, enable_auto_commit="false", **WAYS[way])
        await read_until([consumer], [], 10)
        heard: list[ClientError | None] = []

        def note(_: Mapping[TopicPartition, OffsetAndMetadata], error: ClientError | None) -> None:
            heard.append(error)

        consumer.commit_async({T0: 10}, note)
        await consumer.close()
        assert heard == [None]
        assert await committed(world) == 10

    play(script, **BROKER)


@pytest.mark.parametrize("way", ["range", "cooperative-sticky", "kip-848"])
def test_a_commit_under_way_is_made_before_partitions_change_hands(way: str) -> None:
    async def script(world: ClientWorld) -> None:
        await fill(world, 40, partitions=4)
        first, _ = member(world, enable_auto_commit="false", **WAYS[way])
        await read_until([first], [], 40)
        heard: list[ClientError | None] = []
        second, _ = member(world, enable_auto_commit="false", **WAYS[way])
        ends = dict.fromkeys(partitions("t", 4), 10)
        for _ in range(3_000):
            await second.poll(0.02)
            first.commit_async(ends, lambda _, error: heard.append(error))
            await first.poll(0.02)
            if len(second.assignment) == 2 == len(first.assignment):
                break
        # A commit may be refused while the group has not agreed; none is made with a later membership.
        assert all(error is None or "group" in str(error) for error in heard)
        seen: list[Any] = []
        for _ in range(20):
            seen += await second.poll(0.05)
        assert not seen
        await first.close()
        await second.close()

    play(script, **BROKER)


def test_no_heartbeat_goes_out_for_a_generation_that_came_to_nothing() -> None:
    with ScriptedCluster() as scripted:
        beats: list[str] = []
        is_in = threading.Event()

        def join(request: Any, node: int) -> JoinGroupResponse:
            joins = len(scripted.asked("JoinGroup"))
            if joins > 1:
                scripted.closing.wait(0.5)  # for others, while heartbeats of the first would be due
            names = [each.name for each in request.protocols]
            return JoinGroupResponse(
                generation_id=joins, protocol_name=names[0], leader="another", member_id=f"m-{joins}"
            )

        def sync(request: Any, node: int) -> SyncGroupResponse:
            if request.generation_id == 1:
                return SyncGroupResponse(error_code=25)  # UNKNOWN_MEMBER_ID
            is_in.set()
            return SyncGroupResponse(assignment=encode_assignment([]))

        def beat(request: Any, node: int) -> HeartbeatResponse:
            beats.append(request.member_id)
            return HeartbeatResponse(error_code=0 if request.member_id == "m-2" else 82)

        scripted.handlers |= {"JoinGroup": join, "SyncGroup": sync, "Heartbeat": beat}
        scripted.handlers["OffsetFetch"] = lambda request, node: OffsetFetchResponse()
        scripted.handlers["LeaveGroup"] = lambda request, node: LeaveGroupResponse()
        scripted.handlers["FindCoordinator"] = coordinator_at(scripted)
        settings = {"group_id": "g", "group_instance_id": "i", "enable_auto_commit": "false"}
        with Consumer(
            bootstrap_servers=scripted.address, heartbeat_interval_ms=20, retry_backoff_ms=20, **settings
        ) as consumer:
            consumer.subscribe(["t"])
            for _ in range(200):
                consumer.poll(0.05)
                if is_in.is_set() and beats:
                    break
        assert set(beats) == {"m-2"}


def coordinator_at(scripted: ScriptedCluster) -> Any:
    return lambda request, node: FindCoordinatorResponse(
        coordinators=[Found(key="g", node_id=1, host="127.0.0.1", port=scripted.ports[1])]
    )


def test_commits_reach_the_coordinator_in_order_whatever_has_to_be_tried_again() -> None:
    with ScriptedCluster() as scripted:
        refusals = [14, 14]  # COORDINATOR_LOAD_IN_PROGRESS
        kept: list[int] = []

        def take(request: Any, node: int) -> OffsetCommitResponse:
            error = refusals.pop(0) if refusals else 0
            if not error:
                kept.append(request.topics[0].partitions[0].committed_offset)
            answer = OffsetCommitResponsePartition(partition_index=0, error_code=error)
            topic = OffsetCommitResponseTopic(name="t", topic_id=TOPIC_ID, partitions=[answer])
            return OffsetCommitResponse(topics=[topic])

        scripted.handlers["OffsetCommit"] = take
        scripted.handlers["FindCoordinator"] = coordinator_at(scripted)
        with Consumer(
            bootstrap_servers=scripted.address, group_id="g", enable_auto_commit="false", retry_backoff_ms=20
        ) as consumer:
            consumer.commit_async({T0: 5})
            consumer.commit({T0: 7})
        assert kept == [5, 7]
