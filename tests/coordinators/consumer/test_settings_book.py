"""Which settings hold for a group, and how members are counted."""

from headrace.coordinators.group.consumer.census import Census
from headrace.coordinators.group.consumer.settings_book import SettingsBook
from headrace.metadata.image import ClusterImage
from headrace.metadata.resources import ResourceType
from headrace.settings.broker_config import BrokerConfig
from headrace.wire.schemas.metadata_records import ConfigRecord
from tests.coordinators.consumer.consumer_world import HandClock


def book(**settings: str) -> tuple[SettingsBook, ClusterImage]:
    image = ClusterImage("c")
    names = {name.replace("_", "."): value for name, value in settings.items()}
    return SettingsBook(BrokerConfig(names, check=False), image), image


def _set(image: ClusterImage, group: str, name: str, value: str) -> None:
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
    census = Census(clock, lambda: next(numbers))
    assert [census.members(), census.members()] == [3, 3]
    clock.ms += 1_000
    assert census.members() == 7
