"""Which settings hold for a group, and how members are counted."""

from headrace.coordinators.drivers.group_coordinator import MemberCount
from headrace.coordinators.group.group_config_manager import GroupConfigManager
from headrace.metadata.config_resource import ResourceType
from headrace.metadata.image import MetadataImage
from headrace.settings.broker_config import BrokerConfig
from headrace.wire.schemas.metadata_records import ConfigRecord
from tests.coordinators.consumer.consumer_world import HandClock


def book(**settings: str) -> tuple[GroupConfigManager, MetadataImage]:
    image = MetadataImage("c")
    names = {name.replace("_", "."): value for name, value in settings.items()}
    return GroupConfigManager(BrokerConfig(names, check=False), image), image


def _set(image: MetadataImage, group: str, name: str, value: str) -> None:
    image.replay(ConfigRecord(resource_type=ResourceType.GROUP, resource_name=group, name=name, value=value))


def test_the_defaults_are_kafkas() -> None:
    settings = book()[0].of("g")
    assert (settings.session_timeout_ms, settings.heartbeat_interval_ms) == (45_000, 5_000)
    assert (settings.assignors, settings.assignment_interval_ms) == (("uniform", "range"), 1_000)
    assert (settings.upgrade, settings.downgrade) == (True, True)
    assert not settings.heartbeat_interval_is_chosen


def test_what_the_broker_chose() -> None:
    settings = book(
        group_consumer_heartbeat_interval_ms="6000",
        group_consumer_migration_policy="UPGRADE",
        group_consumer_assignors="range",
    )[0].of("g")
    assert (settings.heartbeat_interval_ms, settings.heartbeat_interval_is_chosen) == (6_000, True)
    assert (settings.upgrade, settings.downgrade, settings.assignors) == (True, False, ("range",))


def test_a_group_has_its_own_within_the_brokers_limits() -> None:
    known, image = book()
    assert known.of("g").session_timeout_ms == 45_000
    _set(image, "g", "consumer.session.timeout.ms", "50000")
    _set(image, "g", "consumer.heartbeat.interval.ms", "99000")
    known.forget()
    assert (known.of("g").session_timeout_ms, known.of("g").heartbeat_interval_ms) == (50_000, 15_000)
    assert known.of("g").heartbeat_interval_is_chosen
    assert known.of("other").session_timeout_ms == 45_000


def test_a_value_that_cannot_be_read_counts_as_not_set() -> None:
    known, image = book()
    _set(image, "g", "consumer.session.timeout.ms", "soon")
    assert known.of("g").session_timeout_ms == 45_000


def test_members_are_counted_once_in_a_second() -> None:
    clock, numbers = HandClock(), iter((3, 7))
    member_count = MemberCount(clock, lambda: next(numbers))
    assert [member_count.members(), member_count.members()] == [3, 3]
    clock.ms += 1_000
    assert member_count.members() == 7
