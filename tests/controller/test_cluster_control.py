"""A broker's life as the controller sees it: registration, heartbeats, sessions, shutdown, and what leaders
do then.
"""

import logging
from typing import Any

import pytest

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.base.ids import TopicId
from headrace.controller.cluster_control import (
    fence_silent,
    heartbeat,
    register_broker,
    tell_of_brokers,
    unregister_broker,
)
from headrace.controller.core import ControllerCore
from headrace.metadata.features import SUPPORTED
from headrace.metadata.topics import PartitionImage, record_of
from headrace.wire.schemas import metadata_records as wire
from headrace.wire.schemas.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from headrace.wire.schemas.broker_registration import BrokerRegistrationRequest, Feature, Listener
from headrace.wire.schemas.unregister_broker import UnregisterBrokerRequest
from tests.controller.building import CLUSTER_ID, apply, directory_of, new_core

TOPIC = TopicId(b"t" * 16)


def request(broker_id: int = 1, incarnation: int = 1, **more: Any) -> BrokerRegistrationRequest:
    fields: dict[str, Any] = {
        "cluster_id": CLUSTER_ID,
        "log_dirs": [directory_of(broker_id)],
        "rack": "r1",
        "features": [Feature(name, levels.min, levels.max) for name, levels in SUPPORTED.items()],
    }
    return BrokerRegistrationRequest(
        broker_id=broker_id,
        incarnation_id=bytes([incarnation]) * 16,
        listeners=[Listener("PLAINTEXT", "h", 9092)],
        **(fields | more),
    )


def register(
    core: ControllerCore, asked: BrokerRegistrationRequest, *, offset: int = 50, now_ms: int = 0
) -> int:
    epoch: int = apply(
        core, register_broker(core.cluster, core.sessions, asked, next_offset=offset, now_ms=now_ms)
    ).broker_epoch
    return epoch


def beat(
    core: ControllerCore, broker_id: int = 1, *, now_ms: int = 0, **more: Any
) -> BrokerHeartbeatResponse:
    asked = BrokerHeartbeatRequest(
        broker_id=broker_id,
        broker_epoch=core.image.brokers[broker_id].epoch,
        current_metadata_offset=more.pop("at", 1_000_000),
        **more,
    )
    reply: BrokerHeartbeatResponse = apply(
        core, heartbeat(core.cluster, core.sessions, asked, next_offset=200, now_ms=now_ms)
    )
    return reply


def with_partition(core: ControllerCore, *replicas: int, **more: Any) -> ControllerCore:
    partition = PartitionImage(
        **({"replicas": replicas, "isr": replicas, "leader": replicas[0]} | more),
        directories=tuple(map(directory_of, replicas)),
    )
    core.replay([wire.TopicRecord(name="t", topic_id=TOPIC), record_of(TOPIC, 0, partition)])
    return core


def partition_of(core: ControllerCore) -> PartitionImage:
    found = core.image.partition("t", 0)
    assert found is not None
    return found


def test_a_broker_registers_fenced_and_is_unfenced_once_it_has_caught_up() -> None:
    core = new_core()
    assert register(core, request(), offset=50) == 50
    broker = core.image.brokers[1]
    assert (broker.fenced, broker.rack, broker.epoch) == (True, "r1", 50)
    early = beat(core, at=49)
    assert (early.is_caught_up, early.is_fenced) == (False, True)
    assert beat(core, at=50, want_fence=True).is_fenced, "as long as it wants to be"
    ready = beat(core, at=50)
    assert (ready.is_caught_up, ready.is_fenced, ready.should_shut_down) == (True, False, False)
    assert core.image.brokers[1].is_active
    assert beat(core, want_fence=True).is_fenced
    assert core.image.brokers[1].fenced


@pytest.mark.parametrize(
    ("more", "code", "message"),
    [
        ({"cluster_id": "other"}, ErrorCode.INCONSISTENT_CLUSTER_ID, "belongs to cluster other"),
        ({"is_migrating_zk_broker": True}, ErrorCode.BROKER_ID_NOT_REGISTERED, "migrate from ZooKeeper"),
        ({"log_dirs": []}, ErrorCode.INVALID_REGISTRATION, "names no log directories"),
        ({"log_dirs": [bytes(16)]}, ErrorCode.INVALID_REGISTRATION, "whose id is reserved"),
        ({"log_dirs": [b"d" * 16] * 2}, ErrorCode.INVALID_REGISTRATION, "two directories of one id"),
        ({"log_dirs": [directory_of(2)]}, ErrorCode.INVALID_REGISTRATION, "registered as broker 2's"),
        (
            {"features": []},
            ErrorCode.UNSUPPORTED_VERSION,
            "the cluster runs metadata.version at 30",
        ),
    ],
)
def test_who_may_not_register(more: dict[str, Any], code: ErrorCode, message: str) -> None:
    core = new_core(2)
    with pytest.raises(ApiError, match=message) as refused:
        register(core, request(**more))
    assert refused.value.code == code
    assert 1 not in core.image.brokers


def test_a_second_process_of_a_live_broker_is_refused_until_the_first_falls_silent() -> None:
    core = new_core()
    register(core, request(incarnation=1))
    beat(core, now_ms=1000)
    with pytest.raises(ApiError) as refused:
        register(core, request(incarnation=2, log_dirs=[b"other" + bytes(11)]), now_ms=9000)
    assert refused.value.code == ErrorCode.DUPLICATE_BROKER_REGISTRATION
    assert register(core, request(incarnation=2), offset=70, now_ms=10_001) == 70
    again = register(core, request(incarnation=2, rack="r2"), offset=99, now_ms=10_002)
    assert again == 70, "the same process only amends its registration"
    assert core.image.brokers[1].rack == "r2"


def test_a_process_with_the_folders_and_ports_of_the_last_one_need_not_wait_for_it() -> None:
    core = new_core()
    register(core, request(incarnation=1))
    beat(core, now_ms=1000)
    assert register(core, request(incarnation=2), offset=70, now_ms=1001) == 70
    assert core.image.brokers[1].fenced


def test_a_broker_without_proof_of_a_clean_stop_leaves_every_set_first() -> None:
    core = with_partition(new_core(1, 2), 1, 2)
    core.sessions.end(1)
    decision = register_broker(
        core.cluster,
        core.sessions,
        request(incarnation=9, previous_broker_epoch=-1),
        next_offset=60,
        now_ms=0,
    )
    assert [type(record).__name__ for record in decision.records] == [
        "PartitionChangeRecord",
        "RegisterBrokerRecord",
    ]
    apply(core, decision)
    assert (partition_of(core).isr, partition_of(core).leader) == ((2,), 2)


def test_a_broker_that_proves_it_keeps_its_place() -> None:
    core = with_partition(new_core(1), 1, isr=(), leader=-1, elr=(1,), last_known_elr=(1,))
    register(core, request(incarnation=9, previous_broker_epoch=101))
    assert partition_of(core).elr == (1,)
    beat(core)
    assert (partition_of(core).isr, partition_of(core).leader, partition_of(core).elr) == ((1,), 1, ())


def test_one_that_was_killed_and_proves_that_it_lost_nothing_leads_no_more_but_may_again() -> None:
    core = with_partition(new_core(1), 1)
    assert register(core, request(incarnation=9, previous_broker_epoch=101), offset=60) == 60
    assert (partition_of(core).leader, partition_of(core).isr, partition_of(core).elr) == (-1, (), (1,))
    beat(core)
    assert (partition_of(core).isr, partition_of(core).leader) == ((1,), 1)


def test_the_last_in_sync_is_remembered_where_nobody_led() -> None:
    """Its directory could not be used, so it did not lead. Without a memory of it nobody ever would."""
    core = with_partition(new_core(1), 1, isr=(1,), leader=-1)
    register(core, request(incarnation=9, previous_broker_epoch=-1), offset=60)
    assert (partition_of(core).isr, partition_of(core).last_known_elr) == ((), (1,))
    beat(core)
    assert (partition_of(core).isr, partition_of(core).leader) == ((1,), 1)


def test_one_that_ended_between_registering_and_being_let_in_keeps_its_proof() -> None:
    """It had no time to leave one of its own, and nobody counted on anything since the last one."""
    core = with_partition(new_core(1), 1, isr=(), leader=-1, elr=(1,), last_known_elr=(1,))
    for incarnation, proven in ((8, 101), (9, 101), (10, 159), (11, 159), (12, 158)):
        asked = request(incarnation=incarnation, previous_broker_epoch=proven)
        register(core, asked, offset=150 + incarnation)
        assert partition_of(core).elr == (1,)
    beat(core)
    assert (partition_of(core).isr, partition_of(core).leader) == ((1,), 1)


def test_an_old_proof_is_none_once_a_newer_process_was_let_in() -> None:
    core = with_partition(new_core(1), 1, isr=(), leader=-1, elr=(1,), last_known_elr=(1,))
    register(core, request(incarnation=8, previous_broker_epoch=101), offset=158)
    beat(core)
    core.sessions.end(1)
    register(core, request(incarnation=9, previous_broker_epoch=101), offset=170)
    assert (partition_of(core).isr, partition_of(core).elr) == ((), ())


def test_who_speaks_with_an_old_epoch_is_told_so() -> None:
    core = new_core(1)
    stale = BrokerHeartbeatRequest(broker_id=1, broker_epoch=5)
    with pytest.raises(ApiError, match="speaks with epoch 5 but was registered again since, with epoch 101"):
        heartbeat(core.cluster, core.sessions, stale, next_offset=0, now_ms=0)
    stranger = BrokerHeartbeatRequest(broker_id=8)
    with pytest.raises(ApiError, match="broker 8 is not registered") as refused:
        heartbeat(core.cluster, core.sessions, stranger, next_offset=0, now_ms=0)
    assert refused.value.code == ErrorCode.STALE_BROKER_EPOCH


def test_shutting_down_hands_leaders_over_and_waits_until_all_have_heard() -> None:
    core = with_partition(new_core(1, 2), 1, 2)
    beat(core, 2, at=100)
    first = beat(core, 1, want_shut_down=True)
    assert (first.should_shut_down, first.is_fenced) == (False, False)
    assert (partition_of(core).leader, partition_of(core).isr) == (2, (2,))
    assert core.image.brokers[1].in_controlled_shutdown
    assert not beat(core, 1, want_shut_down=True).should_shut_down, "2 has not replayed it yet"
    beat(core, 2, at=201)
    last = beat(core, 1, want_shut_down=True)
    assert (last.should_shut_down, last.is_fenced) == (True, True)
    assert core.image.brokers[1].fenced


def test_shutting_down_does_not_wait_for_ever_for_one_that_cannot_hear() -> None:
    """Its disk may be full: it lives, and does not follow the metadata log."""
    core = with_partition(new_core(1, 2), 1, 2)
    beat(core, 1, want_shut_down=True)
    session_ms = core.sessions.timeout_ms
    beat(core, 2, at=100, now_ms=session_ms)
    assert not beat(core, 1, want_shut_down=True, now_ms=session_ms).should_shut_down
    assert beat(core, 1, want_shut_down=True, now_ms=session_ms + 1).should_shut_down


def test_a_broker_that_leads_while_it_shuts_down_hands_over_again() -> None:
    """Else it could never go, and nobody could come into sync with it."""
    core = with_partition(new_core(1, 2), 1, 2)
    beat(core, 1, want_shut_down=True)
    core.replay([wire.PartitionChangeRecord(partition_id=0, topic_id=TOPIC, isr=[1], leader=1)])
    assert not beat(core, 1, want_shut_down=True).should_shut_down
    assert partition_of(core).leader == -1
    beat(core, 2, at=1_000)
    assert beat(core, 1, want_shut_down=True).should_shut_down


def test_a_lone_broker_leaves_its_partitions_eligible() -> None:
    core = with_partition(new_core(1), 1)
    assert not beat(core, want_shut_down=True).should_shut_down
    assert beat(core, want_shut_down=True).should_shut_down
    assert (partition_of(core).leader, partition_of(core).isr, partition_of(core).elr) == (-1, (), (1,))
    assert beat(core, want_shut_down=True).should_shut_down, "a fenced broker may go at once"


def test_without_leaders_a_broker_may_go_at_once() -> None:
    core = new_core(1)
    assert beat(core, want_shut_down=True).should_shut_down
    core = new_core(1)
    assert beat(core, want_shut_down=True, want_fence=True).should_shut_down


def test_a_broker_that_only_follows_and_stops_is_no_warning(caplog: pytest.LogCaptureFixture) -> None:
    """One that is gone is."""
    core = with_partition(new_core(1, 2), 1, 2)
    with caplog.at_level(logging.INFO, "headrace"):
        leave = BrokerHeartbeatRequest(2, core.image.brokers[2].epoch, want_shut_down=True)
        tell_of_brokers(heartbeat(core.cluster, core.sessions, leave, next_offset=200, now_ms=0))
        beat(core, 2)
        gone_ms = core.sessions.timeout_ms + 1
        tell_of_brokers(fence_silent(core.cluster, core.sessions, gone_ms, spare=1))
    told = [(record.levelname, record.getMessage()) for record in caplog.records]
    line = "broker 2 is fenced, 1 partitions change"
    assert told == [("INFO", line), ("WARNING", line)]


def test_a_silent_broker_is_fenced_one_at_a_time_and_the_controllers_own_is_spared() -> None:
    core = with_partition(new_core(1, 2, 3), 2, 3)
    for broker_id in (1, 2, 3):
        beat(core, broker_id, now_ms=0)
    beat(core, 3, now_ms=5000)
    assert core.sessions.next_expiry_ms(spare=1) == 9001
    assert apply(core, fence_silent(core.cluster, core.sessions, 9000, spare=1)) is None
    assert apply(core, fence_silent(core.cluster, core.sessions, 20_000, spare=1)) == 2
    assert (partition_of(core).leader, partition_of(core).isr) == (3, (3,))
    assert apply(core, fence_silent(core.cluster, core.sessions, 20_000, spare=1)) == 3
    assert apply(core, fence_silent(core.cluster, core.sessions, 20_000, spare=1)) is None
    assert [broker.fenced for broker in core.image.brokers.values()] == [False, True, True]
    assert core.sessions.next_expiry_ms(spare=1) is None


def test_a_failed_directory_takes_its_replicas_out_of_sync() -> None:
    core = with_partition(new_core(2), 1, 2, isr=(1, 2))
    register(core, request(1, log_dirs=[directory_of(1), b"e" * 16]))
    core.replay([wire.PartitionChangeRecord(partition_id=0, topic_id=TOPIC, isr=[1, 2], leader=1)])
    beat(core, 1)
    beat(core, 1, offline_log_dirs=[b"unknown".ljust(16)])
    assert partition_of(core).leader == 1
    beat(core, 1, offline_log_dirs=[directory_of(1)])
    assert (partition_of(core).leader, partition_of(core).isr) == (2, (2,))
    assert core.image.brokers[1].directories == (b"e" * 16,)


def test_cordoned_directories_are_noted_once() -> None:
    core = new_core(1)
    beat(core, cordoned_log_dirs=[])
    assert core.image.brokers[1].cordoned_directories == ()
    asked = BrokerHeartbeatRequest(1, 101, 10**6, cordoned_log_dirs=[])
    assert not heartbeat(core.cluster, core.sessions, asked, next_offset=0, now_ms=0).records


def test_unregistering_forgets_a_broker_and_frees_its_partitions() -> None:
    core = with_partition(new_core(1, 2), 1, 2)
    assert apply(core, unregister_broker(core.cluster, UnregisterBrokerRequest(1))).error_code == 0
    assert list(core.image.brokers) == [2]
    assert partition_of(core).leader == 2
    with pytest.raises(ApiError, match="Broker ID 77 is not currently registered") as refused:
        unregister_broker(core.cluster, UnregisterBrokerRequest(77))
    assert refused.value.code == ErrorCode.BROKER_ID_NOT_REGISTERED


def test_a_new_controller_gives_every_broker_but_its_own_a_session() -> None:
    core = new_core(1, 2)
    core.activate((), now_ms=100)
    assert core.sessions.is_alive(2, 9000)
    assert not core.sessions.is_alive(1, 100), "that process is gone: this one took its place"


def test_partitions_that_are_alike_fare_alike_under_the_rules_of_their_topics() -> None:
    core = new_core(1, 2, 3)
    alike = PartitionImage((1, 2), (1, 2), leader=1, directories=(directory_of(1), directory_of(2)))
    alone = PartitionImage((1,), (1,), leader=1, directories=(directory_of(1),))
    for name, partitions in {"a": [alike] * 3, "strict": [alike] * 2, "b": [alike, alone]}.items():
        topic_id = TopicId(name.encode().ljust(16))
        core.replay([wire.TopicRecord(name=name, topic_id=topic_id)])
        core.replay([record_of(topic_id, at, each) for at, each in enumerate(partitions)])
    strict = wire.ConfigRecord(resource_type=2, resource_name="strict", name="min.insync.replicas", value="2")
    core.replay([strict])
    beat(core, want_fence=True)
    after = {name: list(topic.partitions.values()) for name, topic in core.image.topics_by_name.items()}
    assert [(each.leader, each.isr, each.elr) for each in after["a"]] == [(2, (2,), ())] * 3
    assert [(each.leader, each.isr, each.elr) for each in after["strict"]] == [(2, (2,), (1,))] * 2
    assert [(each.leader, each.isr, each.elr) for each in after["b"]] == [(2, (2,), ()), (-1, (), (1,))]
    beat(core)
    assert [each.leader for each in core.image.topics_by_name["b"].partitions.values()] == [2, 1]


def test_a_broker_of_many_partitions_is_fenced_in_several_decisions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.controller.cluster_control.RECORDS_PER_REQUEST_MAX", 4)
    core = new_core(1, 2, 3)
    held = PartitionImage((2, 3), (2, 3), leader=2, directories=(directory_of(2), directory_of(3)))
    core.replay([wire.TopicRecord(name="t", topic_id=TOPIC)])
    core.replay([record_of(TOPIC, index, held) for index in range(10)])
    beat(core, 2, now_ms=0)
    sizes = []
    while not core.image.brokers[2].fenced:
        decision = fence_silent(core.cluster, core.sessions, 20_000, spare=1)
        assert core.sessions.next_expiry_ms(spare=1) == 9001 or len(decision.records) < 4
        sizes.append(len(decision.records))
        assert apply(core, decision) == 2
    assert sizes == [4, 4, 3], "ten partitions, and last the broker itself"
    partitions = core.image.topics_by_name["t"].partitions.values()
    assert {(each.leader, each.isr) for each in partitions} == {(3, (3,))}
    assert apply(core, fence_silent(core.cluster, core.sessions, 20_000, spare=1)) is None
    assert core.sessions.next_expiry_ms(spare=1) is None
