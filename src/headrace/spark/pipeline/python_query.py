"""A pipeline written in Python: a function `query`, whose parameters are the inputs by their names.

    def query(logs, users):
        return logs.join(users, "user_id")

A parameter `spark` gets the session.
"""

import inspect
import traceback
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from headrace.spark.pipeline.errors import PipelineError
from headrace.spark.pipeline.header import Header

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def call_query(header: Header, spark: "SparkSession", inputs: Mapping[str, "DataFrame"]) -> "DataFrame":
    """What the file's function returns; PipelineError names the line of what it does wrong."""
    from pyspark.sql import DataFrame

    names: dict[str, Any] = {"__name__": "pipeline", "__file__": header.path}
    try:
        # The file is the user's own program, run on their machine at their request, as `python FILE` would.
        exec(compile(header.text, header.path, "exec"), names)
    except SyntaxError as error:
        raise header.error(error.lineno, error.msg) from error
    except Exception as error:
        raise _blamed(header, error) from error
    function = names.get("query")
    if not callable(function):
        raise header.error(header.body_line, "there is no function `query` that takes the inputs")
    line = inspect.getsourcelines(function)[1] if function.__code__.co_filename == header.path else None
    available = {**inputs, "spark": spark}
    for parameter in inspect.signature(function).parameters:
        if parameter not in available:
            raise header.error(line, f"query wants {parameter!r}: there are {', '.join(available)}")
    try:
        rows = function(**{name: available[name] for name in inspect.signature(function).parameters})
    except Exception as error:
        raise _blamed(header, error) from error
    if not isinstance(rows, DataFrame):
        raise header.error(line, f"query must return a DataFrame, not {type(rows).__name__}")
    return rows


def _blamed(header: Header, error: Exception) -> PipelineError:
    """The last line of the file that was on the way to the error."""
    own = [
        frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == header.path
    ]
    lines = [line for line in str(error).splitlines() if line.strip()]
    return header.error(own[-1] if own else None, f"{type(error).__name__}: {lines[0] if lines else ''}")
