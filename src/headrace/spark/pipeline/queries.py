"""What follows a pipeline's head: statements in SQL, or functions in Python.

A file with one output has one query. With several, each output has the rows of a view or function:

    CREATE TEMPORARY VIEW errors AS SELECT … ;      -- out errors: feed errors

    def errors(logs): …                             # out errors: feed errors

Views may read earlier ones; a function's parameters are inputs, `spark`, or other functions of the file.
"""

import ast
import inspect
import re
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pyspark.errors import AnalysisException, ParseException, PySparkException, QueryContextType

from headrace.spark.pipeline.errors import PipelineError
from headrace.spark.pipeline.header import Header
from headrace.spark.pipeline.spec import PipelineSpec
from headrace.spark.pipeline.tombstones import words

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_VIEW: Final = re.compile(
    r"CREATE\s+(?:OR\s+REPLACE\s+)?(?P<temporary>TEMP|TEMPORARY)?\s*VIEW\s+`?(?P<name>\w+)`?", re.IGNORECASE
)
QUERY: Final = "query"
"""The function of a file with one output."""


@dataclass(frozen=True, slots=True)
class Statement:
    """One of a file: a view that it makes, or with an empty name the query."""

    line: int
    view: str
    text: str
    """All of the file that is before it is blank, so that lines and columns in errors are the file's."""
    reads: frozenset[str] = frozenset()
    """All names in it: views among them are those that it reads."""


def statements(header: Header) -> list[Statement]:
    """Those of a file in SQL; PipelineError where one is neither a view nor a query."""
    text = header.text
    found: list[Statement] = []
    start = sum(map(len, text.splitlines(keepends=True)[: header.body_line - 1]))
    tokens = [each for each in words(text) if each.start >= start]
    ends = [each for each in tokens if each.text == ";"]
    for first, last in zip(
        [start, *(each.end for each in ends)], [*(e.start for e in ends), len(text)], strict=True
    ):
        own = [each for each in tokens if first <= each.start < last]
        if own:
            found.append(_statement(header, own[0].start, last, own))
    return found


def _statement(header: Header, start: int, end: int, tokens: Sequence[Any]) -> Statement:
    text = header.text
    line = text.count("\n", 0, start) + 1
    own = text[start:end]
    names = frozenset(text[each.start : each.end].strip("`") for each in tokens)
    blank = re.sub(r"[^\n]", " ", text[:start])
    match = _VIEW.match(own)
    if match is None:
        return Statement(line, "", blank + own, names)
    if match["temporary"] is None:
        raise header.error(line, f"write it as CREATE TEMPORARY VIEW {match['name']}: it is of this run only")
    return Statement(line, match["name"], blank + own, names - {match["name"]})


def read_by(spec: PipelineSpec) -> dict[str, frozenset[str]]:
    """What each view or function of a file reads, a query in SQL under an empty name; nothing is run."""
    if not spec.is_python:
        return {each.view: each.reads for each in statements(spec.header)}
    try:
        tree = ast.parse(spec.header.text)
    except SyntaxError as error:
        raise spec.header.error(error.lineno, error.msg) from error
    functions = [each for each in tree.body if isinstance(each, ast.FunctionDef)]
    return {each.name: frozenset(own.arg for own in each.args.args) for each in functions}


def run_statements(header: Header, spark: "SparkSession") -> "DataFrame | None":
    """Make the views of a file; the rows of its query, where it has one. PipelineError names the line."""
    rows = None
    for each in statements(header):
        try:
            found = spark.sql(each.text)
        except PySparkException as error:
            raise header.error(spark_line(error, each.text) or each.line, spark_reason(error)) from error
        if not each.view:
            if rows is not None:
                raise header.error(
                    each.line, "there is a second query: name each as CREATE TEMPORARY VIEW NAME AS"
                )
            rows = found
    return rows


_PLACE: Final = re.compile(r"\(line (\d+), pos \d+\)")


def spark_line(error: PySparkException, text: str) -> int | None:
    """The line of the query that Spark complains about."""
    if isinstance(error, ParseException) and (match := _PLACE.search(str(error))):
        return int(match[1])
    if isinstance(error, AnalysisException):
        for context in error.getQueryContext():
            if context.contextType() is QueryContextType.SQL:
                return text.count("\n", 0, context.startIndex()) + 1
    return None


def spark_reason(error: PySparkException) -> str:
    """Spark's message without its class and its drawing of the query."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    first = (
        re.sub(r"^\[[A-Z_.]+\] |\s*SQLSTATE: \w+.*$|\s*\(line \d+, pos \d+\).*$", "", lines[0])
        if lines
        else ""
    )
    return first.strip() or type(error).__name__


class Functions:
    """The functions of a pipeline written in Python; each is called once, when its rows are wanted.

        def query(logs, users):
            return logs.join(users, "user_id")

    PipelineError names the line of what the file does wrong.
    """

    def __init__(self, header: Header, spark: "SparkSession", inputs: Mapping[str, "DataFrame"]) -> None:
        self._header = header
        self._rows: dict[str, Any] = {**inputs, "spark": spark}
        self._under_way: list[str] = []
        self._names: dict[str, Any] = {"__name__": "pipeline", "__file__": header.path}
        try:
            # The file is the user's own program, run on their machine at their request, as by `python FILE`.
            exec(compile(header.text, header.path, "exec"), self._names)
        except SyntaxError as error:
            raise header.error(error.lineno, error.msg) from error
        except Exception as error:
            raise _blamed(header, error) from error

    def rows(self, name: str) -> "DataFrame":
        """What the function of this name returns."""
        function = self._names.get(name)
        if not callable(function):
            raise self._header.error(
                self._header.body_line, f"there is no function `{name}` that takes the inputs"
            )
        found: DataFrame = self._called(name, function)
        return found

    def _called(self, name: str, function: Callable[..., Any]) -> Any:
        from pyspark.sql import DataFrame

        line = self._line(function)
        if name in self._under_way:
            raise self._header.error(
                line, f"{name} needs its own rows: {' → '.join([*self._under_way, name])}"
            )
        self._under_way.append(name)
        given = {each: self._given(each, name, line) for each in inspect.signature(function).parameters}
        self._under_way.pop()
        try:
            rows = function(**given)
        except Exception as error:
            raise _blamed(self._header, error) from error
        if not isinstance(rows, DataFrame):
            raise self._header.error(line, f"{name} must return a DataFrame, not {type(rows).__name__}")
        self._rows[name] = rows
        return rows

    def _given(self, wanted: str, caller: str, line: int | None) -> Any:
        if wanted in self._rows:
            return self._rows[wanted]
        function = self._names.get(wanted)
        if inspect.isfunction(function) and self._line(function) is not None:
            return self._called(wanted, function)
        raise self._header.error(line, f"{caller} wants {wanted!r}: there are {', '.join(self._rows)}")

    def _line(self, function: Callable[..., Any]) -> int | None:
        is_own = getattr(getattr(function, "__code__", None), "co_filename", None) == self._header.path
        return inspect.getsourcelines(function)[1] if is_own else None


def _blamed(header: Header, error: Exception) -> PipelineError:
    """The last line of the file that was on the way to the error."""
    own = [
        frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == header.path
    ]
    lines = [line for line in str(error).splitlines() if line.strip()]
    return header.error(own[-1] if own else None, f"{type(error).__name__}: {lines[0] if lines else ''}")
