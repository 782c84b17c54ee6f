"""Tests of a pipeline: sample records in, expected rows out, in a folder beside the file.

    errors.sql
    errors.test/poisoned/logs.jsonl         the records of the input `logs`, one a line
    errors.test/poisoned/expected.jsonl     the rows that come out; expected-NAME.jsonl of the output NAME
    errors.test/poisoned/dead-logs.jsonl    the values that cannot be parsed or are not as expected

A line is a record's value as its feed has it; of Avro and Protobuf it is the JSON that stands for it, and a
line that is no JSON is the value itself. `{"@key": …, "@value": …, "@timestamp": …}` says more of a record,
and a null `@value` is a tombstone. Rows are compared in any order, and null is the same as not there.

An input of files has the rows of its `.jsonl` instead, where there is one. The query runs over the samples as
over a feed that has ended: windows are complete, and nothing is late.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from headrace.spark.columns import spark_schema
from headrace.spark.options import read_columns
from headrace.spark.payloads.sample_values import sample_value
from headrace.spark.pipeline.plan import Planner
from headrace.spark.pipeline.spec import InputSpec, OutputSpec, PipelineSpec, time_ms
from headrace.spark.session import own_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SUFFIX: Final = ".test"
_LINES: Final = ".jsonl"
_EXPECTED: Final = "expected"
_DEAD: Final = "dead-"
_EXTRA: Final = frozenset(("@key", "@value", "@timestamp"))
# Samples have no time of their own unless they say so.
_TIME: Final = datetime(2026, 1, 1, tzinfo=UTC)
_CREATE_TIME: Final = 0
_NO_BROKERS: Final = "samples:9092"


class SampleError(ValueError):
    """What is wrong with the samples themselves; the text begins with the file."""


@dataclass(frozen=True, slots=True)
class SampleCase:
    """A folder with samples."""

    name: str
    folder: Path


@dataclass(frozen=True, slots=True)
class CaseResult:
    """How a case went: nothing is different, or what is."""

    file: str
    case: str
    rows: int
    differences: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        return {
            "file": self.file,
            "case": self.case,
            "rows": self.rows,
            "differences": list(self.differences),
        }


def cases_of(file: str) -> list[SampleCase]:
    """Those beside a pipeline's file, by name."""
    folder = Path(file).with_suffix(SUFFIX)
    if not folder.is_dir():
        return []
    inner = sorted(each for each in folder.iterdir() if each.is_dir())
    own = [SampleCase(folder.stem, folder)] if any(folder.glob(f"{_EXPECTED}*{_LINES}")) else []
    return own + [SampleCase(each.name, each) for each in inner]


def run_case(spark: "SparkSession", spec: PipelineSpec, case: SampleCase) -> CaseResult:
    """SampleError for samples that will not do, PipelineError for a pipeline that will not."""
    _check_files(spec, case)
    own = own_session(spark)
    own.conf.set("spark.sql.session.timeZone", "UTC")
    spec = replace(spec, inputs=tuple(_with_rows(each, case) for each in spec.inputs))
    planner = Planner(own, spec, spec.brokers or _NO_BROKERS, _SampleSource(own, case).records)
    differences: list[str] = []
    count = 0
    for output, rows in planner.results():
        expected = _expected_file(case, output)
        if expected is None:
            continue
        found = _as_objects(rows)
        count += len(found)
        differences += _compared(found, _wanted(own, rows, expected), f"out {output.name}".strip())
    for given in spec.inputs:
        path = case.folder / f"{_DEAD}{given.name}{_LINES}"
        if path.is_file():
            bad = [
                bytes(row.value or b"").decode(errors="replace") for row in planner.bad(given.name).collect()
            ]
            differences += _compared(bad, [line for _, line in _lines(path)], f"dead letters of {given.name}")
    return CaseResult(spec.header.path, case.name, count, tuple(differences))


def _check_files(spec: PipelineSpec, case: SampleCase) -> None:
    inputs, outputs = [each.name for each in spec.inputs], [each.name for each in spec.outputs]
    known = {*inputs, *(f"{_DEAD}{each}" for each in inputs)}
    known |= {f"{_EXPECTED}-{each}" if each else _EXPECTED for each in outputs}
    known |= {_EXPECTED} if len(outputs) == 1 else set()
    names = {each.stem for each in case.folder.glob(f"*{_LINES}")}
    for each in sorted(names - known):
        raise SampleError(f"{case.folder / each}{_LINES}: there may be {', '.join(sorted(known))}")
    if not any(each.startswith((_EXPECTED, _DEAD)) for each in names):
        raise SampleError(f"{case.folder}: there is no {_EXPECTED}{_LINES}: nothing would be tested")


def _expected_file(case: SampleCase, output: OutputSpec) -> Path | None:
    names = [f"{_EXPECTED}-{output.name}", _EXPECTED] if output.name else [_EXPECTED]
    paths = [case.folder / f"{each}{_LINES}" for each in names]
    return next((each for each in paths if each.is_file()), None)


def _with_rows(given: InputSpec, case: SampleCase) -> InputSpec:
    """Of an input of files, the case's rows where it has some."""
    path = case.folder / f"{given.name}{_LINES}"
    if given.files_kind is None or not path.is_file():
        return given
    return replace(given, files_kind="json", path=str(path), options={})


class _SampleSource:
    """Stands where brokers are."""

    def __init__(self, spark: "SparkSession", case: SampleCase) -> None:
        self._spark = spark
        self._case = case

    def records(self, given: InputSpec, options: Mapping[str, str], planner: Planner) -> "DataFrame":
        path = self._case.folder / f"{given.name}{_LINES}"
        columns = read_columns(options)
        topic = given.topics.split(",")[0] or given.name
        payload = None if given.payload is None else planner.payload(given.payload, topic)
        rows = []
        for offset, (number, line) in enumerate(_lines(path) if path.is_file() else ()):
            key, value, at = _record(path, number, line)
            if value is not None and payload is not None:
                value = sample_value(payload, value)
            whole = {
                "key": key,
                "value": value,
                "topic": topic,
                "partition": 0,
                "offset": offset,
                "timestamp": at,
                "timestampType": _CREATE_TIME,
                "headers": None,
            }
            rows.append(tuple(whole[each] for each in columns))
        return self._spark.createDataFrame(rows, spark_schema(columns))


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if line.strip():
            yield number, line


def _record(path: Path, number: int, line: str) -> tuple[bytes | None, bytes | None, datetime]:
    """Key, value and time."""
    try:
        found = json.loads(line)
    except ValueError:
        return None, line.encode(), _TIME
    if not isinstance(found, dict) or not _EXTRA & set(found):
        return None, line.encode(), _TIME
    unknown = set(found) - _EXTRA
    if unknown:
        raise SampleError(f"{path}:{number}: a record has {', '.join(sorted(_EXTRA))}; not {min(unknown)!r}")
    at = time_ms(str(found.get("@timestamp", int(_TIME.timestamp() * 1000))))
    if at is None:
        raise SampleError(f"{path}:{number}: @timestamp is milliseconds or a time as 2026-01-31T12:00Z")
    key, value = (_text(found.get(each)) for each in ("@key", "@value"))
    return key, value, datetime.fromtimestamp(at / 1000, UTC)


def _text(given: Any) -> bytes | None:
    if given is None:
        return None
    return (given if isinstance(given, str) else json.dumps(given)).encode()


def _as_objects(rows: "DataFrame") -> list[Any]:
    from pyspark.sql import functions as F  # noqa: N812

    found = rows.select(F.to_json(F.struct(*(F.col(f"`{each}`") for each in rows.columns))).alias("row"))
    return [json.loads(each.row) for each in found.collect()]


def _wanted(spark: "SparkSession", rows: "DataFrame", path: Path) -> list[Any]:
    """What is expected, with its values written as Spark writes those of the rows."""
    from pyspark.sql import functions as F  # noqa: N812

    texts = []
    for number, line in _lines(path):
        try:
            found = json.loads(line)
        except ValueError as error:
            raise SampleError(f"{path}:{number}: this is not JSON: {error}") from error
        unknown = set(found) - set(rows.columns) if isinstance(found, dict) else {line}
        if unknown:
            raise SampleError(
                f"{path}:{number}: the query has no column {min(unknown)!r}; it has {', '.join(rows.columns)}"
            )
        texts.append((line,))
    lines = spark.createDataFrame(texts, "line STRING")
    parsed = lines.select(F.to_json(F.from_json("line", rows.schema)).alias("row"))
    return [json.loads(each.row) for each in parsed.collect()]


def _compared(found: Sequence[Any], wanted: Sequence[Any], what: str) -> list[str]:
    """Lines that say what is different; none where nothing is."""
    ours, theirs = (Counter(map(_plain, each)) for each in (found, wanted))
    lines = [f"{what}: expected, and not there: {each}" for each in (theirs - ours).elements()]
    return lines + [f"{what}: there, and not expected: {each}" for each in (ours - theirs).elements()]


def _plain(row: Any) -> str:
    return (
        row if isinstance(row, str) else json.dumps(_without_nulls(row), sort_keys=True, ensure_ascii=False)
    )


def _without_nulls(given: Any) -> Any:
    if isinstance(given, dict):
        return {name: _without_nulls(each) for name, each in given.items() if each is not None}
    if isinstance(given, list):
        return [_without_nulls(each) for each in given]
    return given
