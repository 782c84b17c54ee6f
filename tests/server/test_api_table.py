"""The table of what is served stays within what the wire can read."""

import importlib

import pytest

from headrace.server.api_table import BROKER, CONTROLLER, ApiTable, Row
from headrace.wire.apis import API


@pytest.mark.parametrize("row", [*BROKER, *CONTROLLER], ids=lambda row: row.handler)
def test_rows_name_versions_that_the_wire_has(row):
    api = API[row.key]
    assert api.min_version <= row.min_version <= row.max_version <= api.max_version


@pytest.mark.parametrize("row", sorted({*BROKER, *CONTROLLER}), ids=lambda row: row.handler)
def test_rows_name_handlers_that_are_there(row):
    assert callable(row.load())
    assert importlib.import_module(f"headrace.server.handlers.{row.handler}").__doc__


@pytest.mark.parametrize(("rows", "listener"), [(BROKER, "broker"), (CONTROLLER, "controller")])
def test_rows_belong_on_their_listener(rows, listener):
    assert [row.key for row in rows if listener not in API[row.key].listeners] == []


@pytest.mark.parametrize("rows", [BROKER, CONTROLLER])
def test_rows_stand_in_order(rows):
    assert list(rows) == sorted(rows)


def test_a_version_outside_of_its_row_is_not_found():
    table = ApiTable([Row(12, 1, 3, "heartbeat")])
    assert [table.find(12, version) is not None for version in range(5)] == [False, True, True, True, False]
    assert table.find(11, 1) is None


def test_two_rows_for_one_request_are_a_mistake():
    with pytest.raises(AssertionError):
        ApiTable([Row(12, 1, 3, "heartbeat"), Row(12, 0, 1, "heartbeat")])
