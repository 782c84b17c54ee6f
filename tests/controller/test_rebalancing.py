"""What the controller does about leaders by itself: first replicas lead again, and somebody rather than
nobody where that is allowed.
"""

from typing import Any

import pytest

from headrace.base.ids import NO_LEADER, TopicId
from headrace.controller import partition_control
from headrace.controller.core import ControllerCore
from headrace.controller.partition_control import LeaderBalance, elect_where_nobody_leads
from headrace.metadata.topics import PartitionImage, record_of
from headrace.wire.schemas import metadata_records as wire
from tests.controller.building import apply, directory_of, new_core

TOPIC = TopicId(b"t" * 16)


def core_with(
    *partitions: PartitionImage, unclean: bool = False, fenced: tuple[int, ...] = ()
) -> ControllerCore:
    core = new_core(1, 2, 3)
    core.replay([wire.TopicRecord(name="t", topic_id=TOPIC)])
    core.replay([record_of(TOPIC, index, each) for index, each in enumerate(partitions)])
    value = str(unclean).lower()
    core.replay(
        [
            wire.ConfigRecord(
                resource_type=2, resource_name="t", name="unclean.leader.election.enable", value=value
            )
        ]
    )
    core.replay(
        [wire.BrokerRegistrationChangeRecord(broker_id=b, broker_epoch=100 + b, fenced=1) for b in fenced]
    )
    return core


def partition(leader: int, isr: tuple[int, ...] = (1, 2, 3), **more: Any) -> PartitionImage:
    return PartitionImage(
        replicas=(1, 2, 3), isr=isr, leader=leader, directories=tuple(map(directory_of, (1, 2, 3))), **more
    )


def leaders(core: ControllerCore) -> list[int]:
    return [each.leader for each in core.image.topics_by_name["t"].partitions.values()]


def test_first_replicas_lead_again_where_they_can() -> None:
    core = core_with(partition(1), partition(2), partition(3, (2, 3)), partition(NO_LEADER, ()))
    assert apply(core, LeaderBalance().step(core.cluster)) is False
    assert leaders(core) == [1, 1, 3, NO_LEADER]
    assert core.image.topics_by_name["t"].partitions[1].leader_epoch == 1


def test_not_where_the_first_replica_is_away() -> None:
    core = core_with(partition(2), fenced=(1,))
    decision = LeaderBalance().step(core.cluster)
    assert not decision.records


def test_many_go_in_several_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition_control, "ELECTIONS_MAX", 2)
    monkeypatch.setattr(partition_control, "LOOKS_MAX", 4)
    core = core_with(*[partition(2)] * 3, *[partition(1)] * 5, partition(2))
    balance = LeaderBalance()
    steps = []
    for _ in range(10):
        decision = balance.step(core.cluster)
        apply(core, decision)
        steps.append(len(decision.records))
        if not decision.reply:
            break
    assert steps == [2, 1, 1]
    assert set(leaders(core)) == {1}
    assert not balance.step(core.cluster).records  # a round of its own


def test_a_topic_that_goes_during_a_round(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition_control, "LOOKS_MAX", 1)
    core = core_with(partition(2), partition(2))
    balance = LeaderBalance()
    assert balance.step(core.cluster).reply
    core.replay([wire.RemoveTopicRecord(topic_id=TOPIC)])
    assert not balance.step(core.cluster).records


@pytest.mark.parametrize("unclean", [True, False])
def test_somebody_leads_where_that_is_allowed(unclean: bool) -> None:
    core = core_with(partition(NO_LEADER, (), last_known_elr=()), unclean=unclean, fenced=(1,))
    apply(core, elect_where_nobody_leads(core.cluster))
    assert leaders(core) == [2 if unclean else NO_LEADER]
