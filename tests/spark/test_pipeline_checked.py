"""What the main query of a pipeline can say about an input, from what Spark reports of a batch."""

import json
from typing import Any

import pytest

from headrace.base.ids import TopicPartition
from headrace.spark.checked_ranges import BLOCK_OFFSETS, BLOCKS_MAX, CheckedRanges
from headrace.spark.pipeline.checked import CheckedInput, checked_input
from headrace.spark.pipeline.spec import PipelineSpec
from headrace.spark.pipeline.spec_reader import read_spec
from headrace.spark.ranges import OffsetRange

COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp")
WHOLE = OffsetRange("a", 0, 10, 5000)


def spec(query: str = "SELECT n FROM a", *more: str, path: str = "p.sql") -> PipelineSpec:
    lines = ["in a: feed a", "  json: n INT", "  dead letters: d", *more, "out: feed b"]
    mark = "#" if path.endswith(".py") else "--"
    return read_spec(path, "\n".join([*(f"{mark} {line}" for line in lines), query]), {})


def input_of(given: PipelineSpec) -> CheckedInput:
    found = checked_input(given, given.inputs[0], COLUMNS)
    assert found is not None
    return found


def progress(start: int | None, end: int) -> dict[str, Any]:
    offsets = [None if each is None else json.dumps({"a": {"0": each}}) for each in (start, end)]
    return {"sources": [{"startOffset": offsets[0], "endOffset": offsets[1]}]}


def counts(rows: int, *blocks: int) -> dict[str, Any]:
    return {
        "looked_at": rows,
        "bad_blocks": [{"topic": "a", "partition": 0, "block": block} for block in blocks],
    }


def left(given: CheckedInput) -> list[OffsetRange]:
    """What is still to be read of the whole."""
    ranges = CheckedRanges(str(given.log.path))
    ranges.refresh()
    return ranges.left([WHOLE])


def test_a_clean_batch_need_not_be_read_again() -> None:
    given = input_of(spec())
    given.note(progress(10, 5000), counts(4000), has_run=True)  # transactions' ends and gaps are no rows
    assert left(given) == []


def test_of_a_bad_one_a_block_is_read_again() -> None:
    given = input_of(spec())
    given.note(progress(10, 5000), counts(4990, 1), has_run=True)
    assert left(given) == [OffsetRange("a", 0, BLOCK_OFFSETS, 2 * BLOCK_OFFSETS)]


def test_where_too_much_is_bad_all_is_read_again() -> None:
    given = input_of(spec())
    given.note(progress(10, 5000), counts(4990, *range(BLOCKS_MAX + 1)), has_run=True)
    assert left(given) == [WHOLE]


@pytest.mark.parametrize("rows", [0, 4989])
@pytest.mark.parametrize(
    "pipeline",
    [spec("SELECT n FROM a LIMIT 5"), spec("def query(a): return a", path="p.py")],
    ids=["limit", "python"],
)
def test_who_may_stop_early_has_not_looked_at_all(pipeline: PipelineSpec, rows: int) -> None:
    given = input_of(pipeline)
    given.note(progress(10, 5000), counts(rows), has_run=True)
    assert left(given) == [WHOLE]
    given.note(progress(10, 5000), counts(4990), has_run=True)
    assert left(given) == []


def test_a_join_with_nothing_looks_at_nothing() -> None:
    given = input_of(spec())
    given.note(progress(10, 5000), counts(0), has_run=True)
    assert left(given) == [WHOLE]


def test_a_look_without_a_batch_says_how_far_it_is() -> None:
    given = input_of(spec())
    given.note(progress(None, 5000), None, has_run=False)
    ranges = CheckedRanges(str(given.log.path))
    ranges.refresh()
    where = TopicPartition("a", 0)
    assert ranges.reached({where: 9000}, {where: 3}) == {where: 5000}
    assert left(given) == [WHOLE]


def test_inputs_that_cannot_be_told_apart_are_not_told_of() -> None:
    shared = spec("SELECT 1", "in b: feed a, c")
    assert checked_input(shared, shared.inputs[0], COLUMNS) is None
    apart = spec("SELECT 1", "in b: feed c")
    found = checked_input(apart, apart.inputs[0], COLUMNS)
    assert found is not None
    both = {"sources": [{"endOffset": {"c": {"0": 1}}}, {"endOffset": {"a": {"0": 7}}}]}
    assert found.source(both) == both["sources"][1]
    assert checked_input(apart, apart.inputs[0], ("key", "value")) is None
