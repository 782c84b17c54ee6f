"""One partition through everything that can happen to it: who is in sync, who may lead, who is remembered."""

from collections.abc import Sequence
from typing import Any

import pytest

from headrace.base.ids import TopicId
from headrace.controller.core import ControllerCore
from headrace.controller.partition_change_builder import Election, change_partition
from headrace.metadata.directory_id import LOST, UNASSIGNED
from headrace.metadata.topics import RECOVERED, RECOVERING, PartitionImage, record_of
from headrace.wire.schemas import metadata_records as wire
from tests.controller.building import directory_of, new_core

TOPIC = TopicId(b"t" * 16)


def core_with(
    partition: PartitionImage,
    *,
    min_isr: int = 1,
    unclean: bool = False,
    fenced: Sequence[int] = (),
    elr: bool = True,
) -> ControllerCore:
    """Brokers 1 to 4, one topic with one partition."""
    core = new_core(1, 2, 3, 4, elr=elr)
    core.replay([wire.TopicRecord(name="t", topic_id=TOPIC), record_of(TOPIC, 0, partition)])
    settings = {"min.insync.replicas": str(min_isr), "unclean.leader.election.enable": str(unclean).lower()}
    core.replay(
        [wire.ConfigRecord(resource_type=2, resource_name="t", name=n, value=v) for n, v in settings.items()]
    )
    core.replay(
        [wire.BrokerRegistrationChangeRecord(broker_id=b, broker_epoch=100 + b, fenced=1) for b in fenced]
    )
    return core


def image(replicas: Sequence[int] = (1, 2, 3), **more: Any) -> PartitionImage:
    given: dict[str, Any] = {
        "isr": tuple(replicas),
        "leader": replicas[0],
        "directories": tuple(map(directory_of, replicas)),
    }
    return PartitionImage(replicas=tuple(replicas), **(given | more))


def change(core: ControllerCore, **wanted: Any) -> dict[str, Any]:
    """What a change record says, without what it leaves as it is."""
    record = change_partition(core.cluster, core.image.topics_by_name["t"], 0, **wanted)
    nothing = wire.PartitionChangeRecord(partition_id=0, topic_id=TOPIC)
    if record is None:
        return {}
    assert record != nothing, "a record that changes nothing is not written"
    core.replay([record])
    return {
        name: getattr(record, name)
        for name in record.__match_args__
        if getattr(record, name) != getattr(nothing, name)
    }


def test_nothing_to_do_makes_no_record() -> None:
    assert change(core_with(image())) == {}


@pytest.mark.parametrize(
    ("partition", "wanted", "fenced", "expected"),
    [
        pytest.param(image(), {"isr": [1, 2]}, (), {"isr": [1, 2]}, id="a follower left"),
        pytest.param(
            image(),
            {"isr": [2, 3]},
            (1,),
            {"isr": [2, 3], "leader": 2},
            id="the leader left, the next one leads",
        ),
        pytest.param(
            image(isr=(1, 3)), {"isr": [3]}, (1, 2), {"isr": [3], "leader": 3}, id="only one in sync is left"
        ),
        pytest.param(image(leader=2), {}, (), {}, id="a leader that is not preferred stays"),
        pytest.param(
            image(leader=2),
            {"election": Election.PREFERRED},
            (),
            {"leader": 1},
            id="the preferred one is asked for",
        ),
        pytest.param(
            image(leader=2), {"election": Election.PREFERRED}, (1,), {}, id="the preferred one is not there"
        ),
        pytest.param(
            image(leader=2, isr=(2, 3)),
            {"election": Election.PREFERRED},
            (),
            {},
            id="the preferred one is not in sync",
        ),
        pytest.param(image(leader=-1), {}, (), {"leader": 1}, id="a leader is found again"),
    ],
)
def test_clean_elections(
    partition: PartitionImage, wanted: dict[str, Any], fenced: Sequence[int], expected: dict[str, Any]
) -> None:
    assert change(core_with(partition, fenced=fenced), **wanted) == expected


def test_below_the_minimum_those_who_leave_stay_eligible_and_one_of_them_leads_again() -> None:
    core = core_with(image(), min_isr=2)
    assert change(core, isr=[1, 2]) == {"isr": [1, 2]}, "two are enough"
    assert change(core, isr=[1]) == {"isr": [1], "eligible_leader_replicas": [2]}
    gone = change(core, isr=[], may_lead=lambda replica: False)
    assert gone == {"isr": [], "leader": -1, "eligible_leader_replicas": [1, 2], "last_known_elr": [1]}
    back = change(core, may_lead=lambda replica: replica == 2)
    assert back == {"isr": [2], "leader": 2, "eligible_leader_replicas": [1], "last_known_elr": []}
    assert change(core, isr=[2, 3]) == {"isr": [2, 3], "eligible_leader_replicas": []}


def test_who_lost_its_disk_is_no_longer_eligible_and_the_last_leader_comes_back_to_recover() -> None:
    core = core_with(image((1,), isr=(), leader=-1, elr=(1,), last_known_elr=(1,)))
    assert change(core, lost=(1,), may_lead=lambda replica: False) == {"eligible_leader_replicas": []}
    assert change(core, may_lead=lambda replica: False) == {}, "nobody is there"
    assert change(core) == {
        "isr": [1],
        "leader": 1,
        "leader_recovery_state": RECOVERING,
        "last_known_elr": [],
    }
    assert change(core, recovery_state=RECOVERED) == {"leader_recovery_state": RECOVERED}


def test_without_eligible_leaders_the_last_in_sync_set_is_kept() -> None:
    core = core_with(image((1,)), elr=False)
    assert change(core, isr=[], may_lead=lambda replica: False) == {"leader": -1}
    assert change(core) == {"leader": 1}


def test_an_unclean_election_takes_any_live_replica_and_forgets_the_rest() -> None:
    partition = image(isr=(1,), elr=(2,))
    careful = core_with(partition, fenced=(1, 2), min_isr=2)
    assert change(careful, isr=[])["leader"] == -1
    bold = core_with(partition, fenced=(1, 2), min_isr=2, unclean=True)
    assert change(bold, isr=[]) == {
        "isr": [3],
        "leader": 3,
        "leader_recovery_state": RECOVERING,
        "eligible_leader_replicas": [],
    }
    asked = core_with(image(isr=(), leader=-1, leader_recovery_state=RECOVERING), fenced=(1, 2))
    assert change(asked, election=Election.UNCLEAN) == {"isr": [3], "leader": 3}


def test_a_replica_in_a_lost_directory_does_not_lead() -> None:
    partition = image(directories=(LOST, UNASSIGNED, directory_of(3)))
    assert change(core_with(partition, fenced=()), isr=[1, 2, 3]) == {"leader": 2}
    elsewhere = image(directories=(b"x" * 16, b"y" * 16, directory_of(3)))
    assert change(core_with(elsewhere), isr=[1, 2, 3]) == {"leader": 3}


def test_a_reassignment_adds_waits_and_completes_with_a_new_epoch() -> None:
    core = core_with(image((1, 2)))
    begun = change(core, replicas=[3, 4, 1, 2], adding=[3, 4], removing=[1, 2])
    assert begun == {
        "replicas": [3, 4, 1, 2],
        "adding_replicas": [3, 4],
        "removing_replicas": [1, 2],
        "directories": [directory_of(b) for b in (3, 4, 1, 2)],
    }
    assert change(core, isr=[1, 2, 3]) == {"isr": [1, 2, 3]}, "not all that stay are in sync"
    done = change(core, isr=[1, 2, 3, 4])
    assert done == {
        "isr": [3, 4],
        "leader": 3,
        "replicas": [3, 4],
        "adding_replicas": [],
        "removing_replicas": [],
        "directories": [directory_of(3), directory_of(4)],
    }


def test_a_leader_that_stays_gets_a_new_epoch_when_a_replica_is_taken_out() -> None:
    core = core_with(image((1, 2)))
    done = change(core, replicas=[1, 2], removing=[2])
    assert done == {"isr": [1], "leader": 1, "replicas": [1], "directories": [directory_of(1)]}
    changed = core.image.partition("t", 0)
    assert changed is not None
    assert changed.leader_epoch == 1


def test_a_replica_moves_to_another_directory() -> None:
    core = core_with(image((1, 2)))
    assert change(core, directories={2: b"n" * 16}) == {"directories": [directory_of(1), b"n" * 16]}
