"""One request kind is one schema, one handler and one test file of the same stem, and a row in the table."""

from headrace.server import api_table
from headrace.wire import apis
from tests.house.source import PACKAGE, ROOT


def _stems(folder: str) -> set[str]:
    return {path.stem for path in (PACKAGE / folder).glob("*.py")} - {"__init__"}


HANDLERS = _stems("server/handlers")
# Fetch on a controller's listener is another thing than on a broker's: the metadata log of the quorum.
SECOND_FACE = {"fetch_metadata_log": "fetch"}


def test_every_handler_has_a_schema() -> None:
    assert not sorted({SECOND_FACE.get(stem, stem) for stem in HANDLERS} - _stems("wire/schemas"))


def test_every_handler_has_a_row() -> None:
    rows = {row.handler for row in (*api_table.BROKER, *api_table.CONTROLLER)}
    assert sorted(HANDLERS) == sorted(rows)


def test_every_handler_has_a_test_file() -> None:
    tests = {path.stem.removeprefix("test_") for path in (ROOT / "tests/server").rglob("test_*.py")}
    assert not sorted(HANDLERS - tests)


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
