"""Which quota binds a client, who shares it, and how much is remembered."""

import itertools

import pytest

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.base.rates import Windows
from headrace.metadata.client_quotas import Entity
from headrace.server.quotas.client_quota_manager import (
    ClientQuotaManager,
    ClientSensor,
    ControllerMutationQuota,
    MutationSensor,
    QuotaTable,
)

WINDOWS = Windows(11, 1000)

LEVELS: list[Entity] = [
    (("client-id", "app"), ("user", "alice")),
    (("client-id", None), ("user", "alice")),
    (("user", "alice"),),
    (("client-id", "app"), ("user", None)),
    (("client-id", None), ("user", None)),
    (("user", None),),
    (("client-id", "app"),),
    (("client-id", None),),
]
"""Kafka's, the most specific first: `beside_kafka/client_quotas.kafka.txt` is how it was seen to choose."""


def test_the_most_specific_counts_of_all_256_sets() -> None:
    for chosen in itertools.product([False, True], repeat=len(LEVELS)):
        quotas = {entity: float(at) for at, entity in enumerate(LEVELS) if chosen[at]}
        bound = QuotaTable(quotas).find("alice", "app")
        assert (None if bound is None else bound.limit) == min(quotas.values(), default=None)


@pytest.mark.parametrize(
    ("at", "user", "client_id"),
    [
        (0, "alice", "app"),
        (1, "alice", "app"),
        (2, "alice", ""),
        (3, "alice", "app"),
        (4, "alice", "app"),
        (5, "alice", ""),
        (6, "", "app"),
        (7, "", "app"),
    ],
)
def test_who_shares_a_quota(at: int, user: str, client_id: str) -> None:
    assert QuotaTable({LEVELS[at]: 5.0}).find("alice", "app") == (5.0, user, client_id)


def test_others_are_not_bound() -> None:
    named = QuotaTable({LEVELS[0]: 1.0, LEVELS[2]: 2.0, LEVELS[6]: 3.0})
    assert named.find("bob", "other") is None
    assert named.find("alice", "other") == (2.0, "alice", "")
    assert named.find("bob", "app") == (3.0, "", "app")


def test_a_client_without_an_id_has_the_defaults() -> None:
    assert QuotaTable({LEVELS[6]: 1.0}).find("alice", "") is None
    assert QuotaTable({LEVELS[7]: 2.0}).find("alice", "") == (2.0, "", "")
    assert QuotaTable({LEVELS[2]: 3.0}).find("alice", "") == (3.0, "alice", "")


def _manager(now: list[int]) -> ClientQuotaManager[ClientSensor]:
    return ClientQuotaManager(WINDOWS, ClientSensor, lambda: now[0])


def test_what_was_used_stays_when_the_limit_changes() -> None:
    now = [0]
    manager = _manager(now)
    assert not manager.is_set
    manager.follow({LEVELS[2]: 1000.0})
    assert manager.is_set
    sensor = manager.sensor_of("User:alice", "app")
    assert sensor is not None
    assert sensor.record(20_000, 0) == 10_000
    assert manager.sensor_of("User:alice", "another") is sensor
    assert manager.sensor_of("User:bob", "app") is None
    manager.follow({LEVELS[2]: 2000.0})
    again = manager.sensor_of("User:alice", "app")
    assert again is sensor
    assert again.record(0, 0) == 0
    manager.follow({})
    assert manager.sensor_of("User:alice", "app") is None


def test_names_that_clients_invent_are_not_kept_for_ever() -> None:
    now = [0]
    manager = _manager(now)
    manager.follow({LEVELS[7]: 1000.0, LEVELS[2]: 5.0})
    kept = manager.sensor_of("User:alice", None)
    assert kept is not None
    for number in range(12_000):
        now[0] += 10
        kept.record(1, now[0])
        sensor = manager.sensor_of("User:bob", f"client {number}")
        assert sensor is not None
        sensor.record(1, now[0])
    assert len(manager._found) < 5000
    assert len(manager._sensors) < 5000
    assert manager.sensor_of("User:alice", None) is kept


def test_changes_of_partitions_are_refused_only_after_too_many() -> None:
    now = [0]
    sensor = MutationSensor(WINDOWS)
    sensor.limit = 2.0
    strict = ControllerMutationQuota(sensor, lambda: now[0], is_strict=True)
    strict(30)  # more than there are: the next one waits
    assert strict.throttle_ms == 0
    with pytest.raises(ApiError) as refused:
        strict(1)
    assert refused.value.code is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert strict.throttle_ms == 4000
    now[0] = 4000
    later = ControllerMutationQuota(sensor, lambda: now[0], is_strict=True)
    later(4)
    assert later.throttle_ms == 0
    old = ControllerMutationQuota(sensor, lambda: now[0], is_strict=False)
    old(2)
    assert old.throttle_ms == 3000
