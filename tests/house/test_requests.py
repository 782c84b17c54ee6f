"""One request kind is one schema, one row in the table and one test file, and a handler where there is
something to decide.
"""

from headrace.server import api_table
from headrace.wire import apis
from tests.house.source import PACKAGE, ROOT


def _stems(folder: str) -> set[str]:
    return {path.stem for path in (PACKAGE / folder).glob("*.py")} - {"__init__"}


ROWS = (*api_table.BROKER, *api_table.CONTROLLER)
SERVED = {row.key.name.lower() for row in ROWS}
# Fetch on a controller's listener is another thing than on a broker's: the metadata log of the quorum.
SECOND_FACE = {"fetch_metadata_log"}


def test_every_row_has_a_schema() -> None:
    assert not sorted(SERVED - _stems("wire/schemas"))


def test_a_row_has_a_handler_or_says_who_serves_it() -> None:
    handled = {row.key.name.lower() for row in ROWS if row.served_by is None}
    assert sorted(_stems("server/handlers")) == sorted(handled)


def test_every_request_kind_has_a_test_file() -> None:
    tests = {path.stem.removeprefix("test_") for path in (ROOT / "tests/server").rglob("test_*.py")}
    assert not sorted((SERVED | SECOND_FACE) - tests)


def test_rows_are_in_order_and_within_the_schemas() -> None:
    for table in (api_table.BROKER, api_table.CONTROLLER):
        keys = [row.key for row in table]
        assert keys == sorted(set(keys))
    outside = [
        row
        for row in (*api_table.BROKER, *api_table.CONTROLLER)
        if not apis.API[row.key].min_version
        <= row.min_version
        <= row.max_version
        <= apis.API[row.key].max_version
    ]
    assert not outside
