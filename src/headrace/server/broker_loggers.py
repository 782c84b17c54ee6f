"""The levels of this process's loggers, as the settings of a resource that lives as long as the process
(KIP-412).

Names and levels are those of Python's logging, told in the words of Kafka's: WARN is WARNING, FATAL is
CRITICAL, and TRACE is below DEBUG. They are never written to the metadata log: a restart forgets them.
"""

import logging
from collections.abc import Mapping
from typing import Final

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError

ROOT: Final = "root"
OWN: Final = "headrace"

LEVELS: Final[Mapping[str, int]] = {
    "TRACE": 5,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
}


def logger_levels() -> dict[str, str]:
    """Every logger of ours, and the root of all, with the level in force."""
    names = [name for name in logging.root.manager.loggerDict if name.partition(".")[0] == OWN]
    levels = {name: _word(logging.getLogger(name).getEffectiveLevel()) for name in sorted(names)}
    return {ROOT: _word(logging.root.getEffectiveLevel()), **levels}


def set_logger_level(name: str, level: str) -> None:
    """Change a logger's level."""
    _logger(name).setLevel(LEVELS[level])


def unset_logger_level(name: str) -> None:
    """Let a logger follow the one above it again."""
    _logger(name).setLevel(logging.NOTSET)


def check_logger(name: str) -> None:
    """INVALID_CONFIG for a logger that does not exist."""
    if name not in logger_levels():
        raise ApiError(ErrorCode.INVALID_CONFIG, f"this process has no logger '{name}'")


def check_level(name: str, level: str | None) -> None:
    """INVALID_CONFIG for a level that is none."""
    if level not in LEVELS:
        raise ApiError(
            ErrorCode.INVALID_CONFIG,
            f"logger {name} cannot have the level {level}; levels are {', '.join(LEVELS)}",
        )


def _logger(name: str) -> logging.Logger:
    return logging.root if name == ROOT else logging.getLogger(name)


def _word(level: int) -> str:
    """The loudest of Kafka's words that is not above a level."""
    return next((word for word, number in reversed([*LEVELS.items()]) if number <= level), "TRACE")
