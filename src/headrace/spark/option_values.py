"""Values of options: numbers, truths, durations and the JSON of partitions, offsets and times.

Every function takes the option's name for its error, which says what is wrong and what is allowed.
"""

import json
import re
from collections.abc import Iterable
from typing import Any, Final, NoReturn

from headrace.base.ids import TopicPartition

OFFSET_MAX: Final = (1 << 63) - 1

_UNITS_MS: Final = {
    **dict.fromkeys(("ms", ""), 1),
    **dict.fromkeys(("s", "sec", "second", "seconds"), 1000),
    **dict.fromkeys(("m", "min", "minute", "minutes"), 60_000),
    **dict.fromkeys(("h", "hour", "hours"), 3_600_000),
    **dict.fromkeys(("d", "day", "days"), 86_400_000),
}


class OptionError(ValueError):
    """An option that is unknown, missing, malformed or at odds with another one. The text is for a person."""


def unknown_option(name: str, known: Iterable[str], what: str) -> OptionError:
    """An error that names the nearest option that there is."""
    import difflib  # only needed once something is wrong, and not cheap to import

    by_lower = {each.lower(): each for each in known}
    nearest = difflib.get_close_matches(name.lower(), list(by_lower), n=1, cutoff=0.5)
    hint = f"; did you mean {by_lower[nearest[0]]}?" if nearest else ""
    return OptionError(f"there is no option {name} for {what}{hint}")


def as_bool(name: str, text: str) -> bool:
    if (lower := text.strip().lower()) not in ("true", "false"):
        raise OptionError(f"option {name} must be true or false, not {text!r}")
    return lower == "true"


def as_positive(name: str, text: str) -> int:
    number = as_int(name, text)
    if number <= 0:
        raise OptionError(f"option {name} must be positive, not {number}")
    return number


def as_time_ms(name: str, text: str) -> int:
    """Milliseconds since the epoch. Negative ones would mean places: the beginning, the end."""
    number = as_int(name, text)
    if not 0 <= number <= OFFSET_MAX:
        raise OptionError(f"option {name} must be milliseconds since the epoch, not {text!r}")
    return number


def as_int(name: str, text: str) -> int:
    try:
        return int(text.strip())
    except ValueError:
        raise OptionError(f"option {name} must be a whole number, not {text!r}") from None


def as_choice(name: str, text: str, allowed: tuple[str, ...]) -> str:
    if (lower := text.strip().lower()) not in allowed:
        raise OptionError(f"option {name} must be {' or '.join(allowed)}, not {text!r}")
    return lower


def as_names(name: str, text: str) -> tuple[str, ...]:
    """A list with commas; it may not be empty."""
    found = tuple(dict.fromkeys(filter(None, map(str.strip, text.split(",")))))
    if not found:
        raise OptionError(f"option {name} names nothing: {text!r}")
    return found


def as_duration_ms(name: str, text: str) -> int:
    """Spark's way to write a time: 15m, 30s, 500ms, 10us; a bare number is in milliseconds."""
    match = re.fullmatch(r"\s*(\d+)\s*([a-z]*)\s*", text.lower())
    if match is not None and match[2] == "us":
        return int(match[1]) // 1000
    if match is None or match[2] not in _UNITS_MS:
        raise OptionError(f"option {name} must be a time such as 500ms, 30s or 15m, not {text!r}")
    return int(match[1]) * _UNITS_MS[match[2]]


def as_partitions(name: str, text: str) -> tuple[TopicPartition, ...]:
    """{"orders": [0, 1]}"""
    example = '{"orders": [0, 1]}'
    found = []
    for topic, numbers in _object(name, text, example).items():
        if not isinstance(numbers, list):
            _malformed(name, text, example)
        for number in numbers:
            if not _is_whole(number, 0):
                _malformed(name, text, example)
            found.append(TopicPartition(topic, number))
    if not found:
        raise OptionError(f"option {name} names no partition: {text!r}")
    return tuple(dict.fromkeys(found))


def as_numbers(name: str, text: str, *, least: int) -> dict[TopicPartition, int]:
    """{"orders": {"0": 23, "1": -2}}: an offset or a time for each partition."""
    example = '{"orders": {"0": 23, "1": 42}}'
    found = {}
    for topic, numbers in _object(name, text, example).items():
        if not isinstance(numbers, dict):
            _malformed(name, text, example)
        for number, value in numbers.items():
            if not number.isdecimal() or not _is_whole(value, least):
                _malformed(name, text, example)
            found[TopicPartition(topic, int(number))] = value
    return found


def _is_whole(value: Any, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= OFFSET_MAX


def _object(name: str, text: str, example: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        _malformed(name, text, example)
    if not isinstance(found, dict):
        _malformed(name, text, example)
    return found


def _malformed(name: str, text: str, example: str) -> NoReturn:
    raise OptionError(f"option {name} must be JSON such as {example}, not {text!r}")
