"""Which records a person wants to see: words in key, value or headers, and conditions on fields of JSON.

A condition is a path, an operator and a value: `user.name = "ann"`, `items[0].price > 10`, `error`
(is there). It fits where it fits in the value, read as JSON or by its schema. Letters' cases do not matter
to words.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from headrace.clients import ConsumerRecord
from headrace.console.http_server import RefusedCallError
from headrace.console.record_view import ABSENT, RecordView

_CONDITION: Final = re.compile(
    r"\s*\$?\.?(?P<path>[^=!<>~]+?)\s*(?:(?P<sign>==?|!=|>=|<=|>|<|~)\s*(?P<value>.*))?"
)
_STEP: Final = re.compile(r"\[(\d+)\]|\['([^']*)'\]|\.?([^.\[\]]+)")
WORDS_MAX: Final = 1_000


@dataclass(frozen=True, slots=True)
class FieldCondition:
    """A condition on one field of a JSON value."""

    path: tuple[str | int, ...]
    sign: str
    value: Any

    def fits(self, document: Any) -> bool:
        found = _at(document, self.path)
        if found is ABSENT:
            return self.sign == "!="
        match self.sign:
            case "":
                return True
            case "=" | "==":
                return bool(found == self.value) or _text(found) == _text(self.value)
            case "!=":
                return bool(found != self.value) and _text(found) != _text(self.value)
            case "~":
                return _text(self.value).lower() in _text(found).lower()
        return _is_ordered(found, self.sign, self.value)


def parse_condition(text: str) -> FieldCondition:
    """RefusedCallError where it is none."""
    found = _CONDITION.fullmatch(text)
    path = _path(found["path"].strip()) if found else ()
    if not found or not path:
        raise RefusedCallError(400, f"{text!r} is no condition: give a path, or as in user.name = ann")
    given = found["value"]
    try:
        value = None if given is None else json.loads(given)
    except ValueError:
        value = given
    return FieldCondition(path, found["sign"] or "", value)


def _path(text: str) -> tuple[str | int, ...]:
    steps: list[str | int] = []
    at = 0
    while at < len(text):
        found = _STEP.match(text, at)
        if found is None:
            return ()
        number, quoted, name = found.groups()
        steps.append(int(number) if number is not None else quoted if quoted is not None else name)
        at = found.end()
    return tuple(steps)


def _at(document: Any, path: tuple[str | int, ...]) -> Any:
    for step in path:
        if isinstance(document, dict) and str(step) in document:
            document = document[str(step)]
        elif isinstance(document, list) and isinstance(step, int) and step < len(document):
            document = document[step]
        else:
            return ABSENT
    return document


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _is_ordered(found: Any, sign: str, value: Any) -> bool:
    if isinstance(found, bool) or isinstance(value, bool):
        return False
    if not (isinstance(found, int | float) and isinstance(value, int | float)):
        if not (isinstance(found, str) and isinstance(value, str)):
            return False
        found, value = (found > value) - (found < value), 0
    match sign:
        case ">":
            return bool(found > value)
        case "<":
            return bool(found < value)
        case ">=":
            return bool(found >= value)
    return bool(found <= value)


@dataclass(frozen=True, slots=True)
class MessageFilter:
    """All that is given must fit. Words are in small letters, as bytes."""

    anywhere: bytes = b""
    key: bytes = b""
    value: bytes = b""
    header: tuple[str, bytes] | None = None
    condition: FieldCondition | None = None
    view: RecordView = field(default_factory=RecordView)

    async def learn(self, records: Sequence[ConsumerRecord]) -> None:
        """To be called before `fits` is asked about these."""
        if self.condition is not None or self.view.mask is not None:
            await self.view.learn(records)

    def fits(self, record: ConsumerRecord) -> bool:
        if self.view.mask is None:
            return self._has_words(record) and self._fits_value(record)
        return self._has_words(self._searched(record)) and self._fits_value(record)

    def _searched(self, record: ConsumerRecord) -> ConsumerRecord:
        """What there is to be found in a record of which something is hidden."""
        key, value = (
            None if seen is None else seen.searched()
            for seen in (
                self.view.part("key", record.key, record.headers),
                self.view.part("value", record.value, record.headers),
            )
        )
        headers = tuple(
            (name, None if (seen := self.view.header(name, each)) is None else seen.searched())
            for name, each in record.headers
        )
        return record._replace(key=key, value=value, headers=headers)

    def _has_words(self, record: ConsumerRecord) -> bool:
        if self.key and not _has(record.key, self.key):
            return False
        if self.value and not _has(record.value, self.value):
            return False
        if self.header is not None and not self._has_header(record):
            return False
        return not self.anywhere or self._is_anywhere(record)

    def _has_header(self, record: ConsumerRecord) -> bool:
        assert self.header is not None
        wanted, word = self.header
        return any(name == wanted and (not word or _has(value, word)) for name, value in record.headers)

    def _is_anywhere(self, record: ConsumerRecord) -> bool:
        return (
            _has(record.value, self.anywhere)
            or _has(record.key, self.anywhere)
            or any(
                self.anywhere in name.lower().encode() or _has(each, self.anywhere)
                for name, each in record.headers
            )
        )

    def _fits_value(self, record: ConsumerRecord) -> bool:
        if self.condition is None:
            return True
        document = self.view.document(record)
        return document is not ABSENT and self.condition.fits(document)


def _has(data: bytes | None, word: bytes) -> bool:
    """Bytes have no cases beyond ASCII; a word of other letters is found as it was typed."""
    return data is not None and (word in data or word in data.lower())


def message_filter(query: Mapping[str, str], view: RecordView | None = None) -> MessageFilter:
    """The filter of a URL: `q`, `key`, `value`, `header` (NAME or NAME=WORD) and `json`."""
    given = {name: query.get(name, "") for name in ("q", "key", "value", "header", "json")}
    for name, text in given.items():
        if len(text) > WORDS_MAX:
            raise RefusedCallError(400, f"the filter {name!r} has at most {WORDS_MAX} characters")
    name, _, word = given["header"].partition("=")
    return MessageFilter(
        anywhere=_word(given["q"]),
        key=_word(given["key"]),
        value=_word(given["value"]),
        header=(name.strip(), _word(word.strip())) if name.strip() else None,
        condition=parse_condition(given["json"]) if given["json"].strip() else None,
        view=view or RecordView(),
    )


def _word(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape").lower()
