"""What is wrong with a pipeline's file, and in which line."""

import logging
from typing import Final

# Where PySpark writes the JVM's stack of every mistake in a query, beside the error that it raises.
_STACK_LOGGERS: Final = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")


class PipelineError(ValueError):
    """The text begins with FILE:LINE, as compilers have it, so that editors jump there."""

    def __init__(self, path: str, line: int | None, what: str) -> None:
        super().__init__(f"{path}:{line}: {what}" if line is not None else f"{path}: {what}")
        self.path = path
        self.line = line
        self.what = what


def hide_stacks() -> None:
    """For commands, which tell an error in one line."""
    from pyspark.logger import PySparkLogger

    for name in _STACK_LOGGERS:
        PySparkLogger.getLogger(name).setLevel(logging.CRITICAL)
