"""Whatever a client sends gets one answer, and leaves a group that can be loaded again."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.wire.schemas.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from tests.coordinators.consumer.consumer_world import GROUP, World, topic_id

IDS = st.sampled_from(["", "a", "b", "c"])
PARTITIONS = st.builds(
    TopicPartitions,
    st.sampled_from([topic_id("t"), topic_id("u"), bytes(16)]),
    st.lists(st.integers(-2, 6), max_size=4),
)
REQUESTS = st.builds(
    ConsumerGroupHeartbeatRequest,
    group_id=st.just(GROUP),
    member_id=IDS,
    member_epoch=st.integers(-3, 8),
    instance_id=st.none() | st.sampled_from(["", "i", "j"]),
    rack_id=st.none() | st.just("r"),
    rebalance_timeout_ms=st.sampled_from([-1, 0, 1_000, 2**31 - 1]),
    subscribed_topic_names=st.none() | st.lists(st.sampled_from(["t", "u", "none", ""]), max_size=3),
    subscribed_topic_regex=st.none() | st.sampled_from(["", "t|u", ".*", "(", "(a*)*"]),
    server_assignor=st.none() | st.sampled_from(["uniform", "range", "none"]),
    topic_partitions=st.none() | st.lists(PARTITIONS, max_size=3),
)
JOINS = st.builds(
    ConsumerGroupHeartbeatRequest,
    group_id=st.just(GROUP),
    member_id=st.sampled_from("abc"),
    instance_id=st.none() | st.sampled_from("ij"),
    rebalance_timeout_ms=st.just(1_000),
    subscribed_topic_names=st.just(["t"]),
    subscribed_topic_regex=st.none() | st.just("t|u"),
    topic_partitions=st.just([]),
)
STEPS = st.lists(
    st.one_of(REQUESTS, JOINS, st.integers(1, 50_000), st.sampled_from(["restart", "grow"])), max_size=30
)


@settings(max_examples=150, deadline=None)
@given(STEPS)
def test_every_request_is_answered_once_and_the_log_tells_the_same_story(steps: list[Any]) -> None:
    world = World()
    world.topic("t", 3)
    world.topic("u", 1)
    for step in steps:
        if isinstance(step, int):
            world.pass_time(step)
        elif step == "restart":
            world.restart()
        elif step == "grow":
            world.topic("t", len(world.image.topics_by_name["t"].partitions) + 1)
        else:
            answers: list[Any] = []
            world.shard.group_metadata_manager.consumer_group_heartbeat(
                step, client_id="c", client_host="/h", api_version=1, answer=answers.append
            )
            assert len(answers) == 1
    before = world.protocol.groups
    world.restart()
    for group in (*before.values(), *world.protocol.groups.values()):
        group.assigned_at_ms, group.needs_metadata_refresh = None, False
    assert world.protocol.groups == before
