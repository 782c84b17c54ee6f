"""Which names a topic may have. A folder's name is made from it, so nothing else may become a topic."""

import re
from typing import Final

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError

NAME_CHARS_MAX: Final = 249
"""A folder is named topic-partition and a file system allows 255 characters."""

_ALLOWED: Final = re.compile(r"[a-zA-Z0-9._-]+")


def name_fault(name: str) -> str | None:
    """What is wrong with a name, or None."""
    if not name:
        return "the empty string is not allowed"
    if name in (".", ".."):
        return f"'{name}' is not allowed"
    if len(name) > NAME_CHARS_MAX:
        return f"the length of '{name}' is longer than the max allowed length {NAME_CHARS_MAX}"
    if not _ALLOWED.fullmatch(name):
        return f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    return None


def check_name(name: str) -> None:
    """INVALID_TOPIC_EXCEPTION for a name that no topic may have."""
    fault = name_fault(name)
    if fault is not None:
        raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {fault}")


def folded(name: str) -> str | None:
    """A name with '.' and '_' as one character, as Kafka's metrics have it; None where it has neither."""
    return name.replace(".", "_") if "." in name or "_" in name else None
