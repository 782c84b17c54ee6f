"""Groups by kind and state, and share groups at work, as a node tells them."""

from headrace.base.error_codes import ErrorCode
from headrace.telemetry.metrics.share_group_metrics import ShareGroupMetrics
from headrace.wire.schemas.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from headrace.wire.schemas.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from headrace.wire.schemas.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.node.test_metrics import LISTENER, scrape
from tests.server.node_world import NodeWorld, simulated
from tests.server.share_members import ACCEPT, REJECT, ShareMember, acquired, produce
from tests.server.streams_members import StreamsMember
from tests.server.test_share_fetch import set_group
from tests.telemetry.scraping import labels

SHARE = "kafka_server_share"
GROUPS = "kafka_server_group_coordinator_metrics_"


@simulated(**LISTENER)
async def test_what_members_of_a_share_group_do(world: NodeWorld) -> None:
    topic = (await world.create_topic("t"), 0)
    await set_group(world, "share.auto.offset.reset", "earliest")
    await produce(world, "t", b"a", b"b", b"c")
    member = await ShareMember.connect(world)
    await member.join("t")
    assert acquired(await member.fetch()) == [(0, 2, 1)]
    here, of_t = labels(group="g", topic="t", partition=0), labels(topic="t")
    found = await scrape(world)
    assert found[f"{SHARE}partitionmetrics_inflightmessagecount"] == {here: 3}
    assert found[f"{SHARE}partitionmetrics_inflightbatchcount"] == {here: 1}
    assert found["headrace_share_partitions"] == {labels(state="active"): 1, labels(state="loading"): 0}
    assert found[f"{SHARE}sessioncache_sharesessionscount"] == {(): 1}
    assert found[f"{SHARE}sessioncache_sharepartitionscount"] == {(): 1}
    assert found[f"{SHARE}groupmetrics_partitionloadtimems_count"] == {(): 1}
    assert found["kafka_server_brokertopicmetrics_totalsharefetchrequests_total"][of_t] >= 1

    reply = await member.acknowledge({topic: [(0, 1, [ACCEPT]), (2, 2, [REJECT])]})
    assert reply.responses[0].partitions[0].error_code == 0
    reply = await member.acknowledge({topic: [(3, 3, [ACCEPT])]})
    assert reply.responses[0].partitions[0].error_code == ErrorCode.INVALID_RECORD_STATE
    found = await scrape(world)
    answers = found[f"{SHARE}groupmetrics_recordacknowledgements_total"]
    assert {dict(each)["ack_type"]: count for each, count in answers.items() if count} == {
        "Accept": 2,
        "Reject": 1,
    }
    prefix = "kafka_server_brokertopicmetrics_"
    assert found[f"{prefix}totalshareacknowledgementrequests_total"][of_t] == 2
    assert found[f"{prefix}failedshareacknowledgementrequests_total"][of_t] == 1
    assert found[f"{SHARE}partitionmetrics_inflightmessagecount"] == {here: 0}
    coordinator = f"{SHARE}_coordinator_metrics_"
    assert found[f"{coordinator}write_total"][()] >= 2  # where it begins, and the answers
    assert found[f"{coordinator}write_rate"][()] >= 0
    assert found[f"{coordinator}num_partitions"] == {labels(state="active"): 2, labels(state="loading"): 0}
    assert found[f"{GROUPS}share_group_count"][labels(state="Stable")] == 1


@simulated(**LISTENER)
async def test_locks_that_end_without_an_answer(world: NodeWorld) -> None:
    await world.create_topic("t")
    await set_group(world, "share.auto.offset.reset", "earliest")
    await produce(world, "t", b"a", b"b")
    member = await ShareMember.connect(world)
    await member.join("t")
    assert acquired(await member.fetch()) == [(0, 1, 1)]
    await world.pass_time(31_000)
    found = await scrape(world)
    timeouts = found[f"{SHARE}partitionmetrics_acquisitionlocktimeout_total"]
    assert timeouts == {labels(group="g", topic="t", partition=0): 2}


@simulated(**LISTENER)
async def test_groups_by_kind_and_state(world: NodeWorld) -> None:
    await world.create_topic("t")
    await world.create_topic("__consumer_offsets", 2)
    await world.until(lambda: len(world.node.parts.groups.runtime.shards()) == 2)
    classic, modern = await world.connect(), await world.connect()
    join = JoinGroupRequest(
        group_id="classic",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol("range", b"")],
    )
    joined = await classic.ask(join, 3)
    found = await scrape(world)
    assert found["kafka_coordinator_group_groupmetadatamanager_numgroupscompletingrebalance"] == {(): 1}
    sync = SyncGroupRequest(
        group_id="classic",
        generation_id=joined.generation_id,
        member_id=joined.member_id,
        assignments=[SyncGroupRequestAssignment(joined.member_id, b"")],
    )
    assert (await classic.ask(sync, 1)).error_code == 0
    heartbeat = ConsumerGroupHeartbeatRequest(
        group_id="modern",
        member_id="m",
        member_epoch=0,
        rebalance_timeout_ms=10_000,
        subscribed_topic_names=["t"],
        topic_partitions=[],
    )
    assert (await modern.ask(heartbeat, 1)).error_code == 0
    streams = await StreamsMember.connect(world, "streams")
    assert (await streams.join("t")).error_code == 0
    found = await scrape(world)
    assert found[f"{GROUPS}group_count"] == {
        labels(protocol="classic"): 1,
        labels(protocol="consumer"): 1,
        labels(protocol="share"): 0,
        labels(protocol="streams"): 1,
    }
    assert found[f"{GROUPS}classic_group_count"][labels(state="Stable")] == 1
    assert sum(found[f"{GROUPS}consumer_group_count"].values()) == 1
    assert sum(found[f"{GROUPS}streams_group_count"].values()) == 1
    members = found["kafka_consumergroup_members"]
    assert members[labels(consumergroup="streams")] == 1
    assert found["kafka_coordinator_group_groupmetadatamanager_numgroupsstable"] == {(): 1}
    assert found["kafka_coordinator_group_groupmetadatamanager_numgroups"] == {(): 3}
    assert found[f"{GROUPS}num_partitions"] == {labels(state="active"): 2, labels(state="loading"): 0}


def test_answers_are_counted_by_record() -> None:
    metrics = ShareGroupMetrics()
    metrics.note_acknowledged(10, 14, [ACCEPT])
    metrics.note_acknowledged(15, 17, [ACCEPT, REJECT, ACCEPT])
    assert metrics.acknowledged == {ACCEPT: 7, REJECT: 1}
