"""The table of what is served stays within what the wire can read."""

import importlib

import pytest

from headrace.server.api_table import BROKER, CONTROLLER, ApiTable, Row
from headrace.server.authority import OPEN
from headrace.wire.apis import API, ApiKey


@pytest.mark.parametrize("row", [*BROKER, *CONTROLLER], ids=lambda row: row.key.name)
def test_rows_name_versions_that_the_wire_has(row):
    api = API[row.key]
    assert api.min_version <= row.min_version <= row.max_version <= api.max_version


@pytest.mark.parametrize("row", dict.fromkeys([*BROKER, *CONTROLLER]), ids=lambda row: row.key.name)
def test_rows_name_handlers_that_are_there(row):
    assert callable(row.load())
    if row.served_by is None:
        assert importlib.import_module(f"headrace.server.handlers.{row.key.name.lower()}").__doc__


@pytest.mark.parametrize(("rows", "listener"), [(BROKER, "broker"), (CONTROLLER, "controller")])
def test_rows_belong_on_their_listener(rows, listener):
    assert [row.key for row in rows if listener not in API[row.key].listeners] == []


@pytest.mark.parametrize("rows", [BROKER, CONTROLLER])
def test_rows_stand_in_order(rows):
    keys = [row.key for row in rows]
    assert keys == sorted(keys)


def test_a_version_outside_of_its_row_is_not_found():
    table = ApiTable([Row(ApiKey.HEARTBEAT, 1, 3, authority=OPEN)])
    assert [table.find(12, version) is not None for version in range(5)] == [False, True, True, True, False]
    assert table.find(11, 1) is None


def test_two_rows_for_one_request_are_a_mistake():
    with pytest.raises(AssertionError):
        ApiTable([Row(ApiKey.HEARTBEAT, 1, 3, authority=OPEN), Row(ApiKey.HEARTBEAT, 0, 1, authority=OPEN)])


def test_a_row_that_does_not_say_who_may_ask_is_not_served():
    with pytest.raises(ValueError, match="nothing says who may ask for HEARTBEAT"):
        ApiTable([Row(ApiKey.API_VERSIONS, 0, 4, authority=OPEN), Row(ApiKey.HEARTBEAT, 1, 3)])


def test_everyone_may_ask_only_for_what_comes_before_a_name():
    """What is open is open on purpose: a new row with OPEN has to be added here, too."""
    everyone = {row.key for row in [*BROKER, *CONTROLLER] if row.authority is OPEN}
    # A client's own metrics need no right in Kafka either (KIP-714): they say nothing of others.
    telemetry = {ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY}
    assert everyone == {ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE} | telemetry
