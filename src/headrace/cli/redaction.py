"""Keeping secrets out of what is given to others: by the names of settings, by form, and by value.

A setting that is a password by its table, or whose name looks like a secret's, is hidden; what is not known
by name is looked for by its form (a key in PEM, a password in a line, a bearer token). The values that were
hidden are kept in memory and taken out wherever else they turn up: in log lines, in metrics, in names.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Final

from headrace.settings.broker_config import broker_setting
from headrace.settings.definition import ConfigType

HIDDEN: Final = "(hidden)"
_SECRET_NAME: Final = re.compile(
    r"passw|secret|token|credential|passphrase|jaas|private|\bkeys?\b|\.headers$", re.IGNORECASE
)
# Names that look like a secret's and say nothing that one could log in with.
_HARMLESS: Final = re.compile(
    r"\.(location|type|class|id|ms|bytes|seconds|hours|url|algorithm|claim\.name|enable)$", re.IGNORECASE
)
# Of a provider: a reference to the secret, not the secret.
_REFERENCE: Final = re.compile(r"\$\{[^}]*\}")
# Shorter ones are part of ordinary words: they are hidden by their names alone.
_VALUE_LETTERS_MIN: Final = 6
_IN_TEXT: Final = (
    re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL),
    re.compile(
        r"((?:pass(?:word|wd|phrase)|secret|token|api[-_.]?key|credentials?)[\"']?\s*[=:]\s*[\"']?)"
        r"(?!\$\{)[^\s\"',;}]+",
        re.IGNORECASE,
    ),
    re.compile(r"((?:bearer|basic)\s+)[A-Za-z0-9+/=._~-]{8,}", re.IGNORECASE),
    re.compile(r"(://[^/\s:@]*:)[^/\s@]+(?=@)"),
)
_JAAS_VALUE: Final = re.compile(r"(\w+)\s*=\s*\"((?:[^\"\\]|\\.)*)\"|(\w+)\s*=\s*'([^']*)'")


class Redaction:
    """What must not be told, as far as it was seen."""

    def __init__(self) -> None:
        self._values: set[str] = set()
        self._pattern: re.Pattern[str] | None = None

    def settings(self, settings: Mapping[str, str]) -> dict[str, str]:
        """The same settings without secrets, which are remembered."""
        return {name: self._setting(name, value) for name, value in settings.items()}

    def _setting(self, name: str, value: str) -> str:
        if not value or not is_secret(name):
            return self.text(value)
        if _REFERENCE.fullmatch(value.strip()):
            return value
        self.remember(_values_in(value))
        return HIDDEN

    def remember(self, values: Iterable[str]) -> None:
        self._values |= {each for each in values if len(each) >= _VALUE_LETTERS_MIN}
        longest_first = sorted(self._values, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, longest_first))) if longest_first else None

    def text(self, text: str) -> str:
        """A text without what looks like a secret, and without those that were seen."""
        for pattern in _IN_TEXT:
            text = pattern.sub(lambda found: f"{found[1] if found.re.groups else ''}{HIDDEN}", text)
        return self._pattern.sub(HIDDEN, text) if self._pattern is not None else text


def is_secret(name: str) -> bool:
    """Whether a setting's value must not be told."""
    setting = broker_setting(name)
    if setting is not None:
        return setting.kind is ConfigType.PASSWORD
    return bool(_SECRET_NAME.search(name)) and not _HARMLESS.search(name)


def _values_in(value: str) -> set[str]:
    """The value, and what is quoted in it: a JAAS line names user and password; a key in PEM has lines."""
    quoted = {match[2] or match[4] or "" for match in _JAAS_VALUE.finditer(value)}
    lines = {line.strip() for line in value.splitlines()} if "-----BEGIN" in value else set()
    pairs = {pair.partition("=")[2].strip() for pair in value.split(",") if "=" in pair and '"' not in value}
    return {value.strip(), *quoted, *lines, *pairs} - {""}
