"""OffsetFetch: what groups have committed, and to which topic."""

from headrace.base.error_codes import ErrorCode
from tests.server.beside_kafka.compare import assert_answers_as_kafka
from tests.server.beside_kafka.find_coordinator import ask_for
from tests.server.group_requests import commit, fetch_offsets
from tests.server.node_world import NodeWorld, simulated
from tests.server.partition_states import two_replicas
from tests.server.test_delayed_follower_fetch import FOLLOWER, follow

BY_NAME, NEWEST = 9, 10


def test_answers_as_kafka_does() -> None:
    assert_answers_as_kafka("offset_fetch")


@simulated()
async def test_no_coordinator_yet(world: NodeWorld) -> None:
    client = await world.connect()
    old = await client.ask(fetch_offsets(1, "g", "t"), 1)
    assert old.topics[0].partitions[0].error_code == ErrorCode.NOT_COORDINATOR
    assert old.topics[0].partitions[0].committed_offset == -1
    for version in (2, 7):
        response = await client.ask(fetch_offsets(version, "g", "t"), version)
        assert (response.error_code, response.topics) == (ErrorCode.NOT_COORDINATOR, [])
    response = await client.ask(fetch_offsets(NEWEST, "g", "t"), NEWEST)
    assert (response.groups[0].error_code, response.groups[0].topics) == (ErrorCode.NOT_COORDINATOR, [])


@simulated()
async def test_everything_a_commit_says_is_remembered(world: NodeWorld) -> None:
    await world.create_topic("t")
    client = await world.connect()
    await client.ask(ask_for(6, "g"), 6)
    await client.ask(commit("g", "t", {0: 2**62}, epoch=7, metadata="a note"), BY_NAME)
    await world.stop()
    await world.start()
    client = await world.connect()
    found = (await client.ask(fetch_offsets(BY_NAME, "g", "t"), BY_NAME)).groups[0].topics[0].partitions[0]
    assert (found.committed_offset, found.committed_leader_epoch, found.metadata) == (2**62, 7, "a note")


@simulated()
async def test_what_was_committed_to_a_topic_of_the_same_name_is_not_this_ones(world: NodeWorld) -> None:
    """A topic that was deleted while its group's coordinator could not write that down."""
    await world.create_topic("t")
    client = await world.connect()
    await client.ask(ask_for(6, "g"), 6)
    await client.ask(commit("g", "t", {0: 5}), BY_NAME)
    groups = world.node.parts.groups
    shard = groups.partition_of("g")
    groups.runtime.unload(shard)
    await world.delete_topic("t")
    topic_id = await world.create_topic("t")
    groups.runtime.on_leadership_change(world.partition("__consumer_offsets", shard))
    assert [each.offset for each in groups.shard_for("g").offsets.of("g").values()] == [5]
    response = await client.ask(fetch_offsets(BY_NAME, "g", "t"), BY_NAME)
    assert response.groups[0].topics[0].partitions[0].committed_offset == -1
    response = await client.ask(fetch_offsets(NEWEST, "g", "t", topic_id=topic_id), NEWEST)
    assert response.groups[0].topics[0].partitions[0].committed_offset == -1
    for version in (BY_NAME, NEWEST):
        response = await client.ask(fetch_offsets(version, "g", None), version)
        assert response.groups[0].topics == []


@simulated()
async def test_a_coordinator_that_may_have_been_replaced_does_not_tell(world: NodeWorld) -> None:
    """Found by the simulator (cluster, seed 1121764): its disk was full, another took over, and it did not
    hear of that for seconds; it told a member of an older commit. Who took over would not follow it."""
    await world.create_topic("t")
    client = await world.connect()
    await client.ask(ask_for(6, "g"), 6)
    await client.ask(commit("g", "t", {0: 5}), BY_NAME)
    home = world.partition("__consumer_offsets", world.node.parts.groups.partition_of("g"))
    home.follow_metadata(two_replicas(1, FOLLOWER, epoch=1))
    refused = await client.ask(fetch_offsets(BY_NAME, "g", "t"), BY_NAME)
    assert refused.groups[0].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE

    waiting = client.ask(fetch_offsets(BY_NAME, "g", "t"), BY_NAME)
    follower = await world.connect()
    fetch = follow(home.topic_id, home.local_log().log_end_offset, leader_epoch=1)
    fetch.topics[0].partitions[0].partition = home.topic_partition.partition
    await follower.ask(fetch, 18)
    assert not waiting.done()
    await follower.ask(fetch, 18)
    assert (await waiting).groups[0].topics[0].partitions[0].committed_offset == 5
