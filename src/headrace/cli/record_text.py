"""Records as text: what `consume` prints and `produce` reads.

A text of one's own has kcat's letters for the parts of a record (`record_template`).

In JSON a key or value is a string where its bytes are text, {"base64": "…"} where they are not, and null
where there is none, so that what one command prints the other reads back as the same record.
"""

import base64
import json
import re
import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from headrace.clients.errors import ClientError

if TYPE_CHECKING:
    from headrace.clients import ConsumerRecord, ShareRecord

    AnyRecord = ConsumerRecord | ShareRecord

Headers = tuple[tuple[str, bytes | None], ...]


class BadLineError(ClientError):
    """A line of the input is no record; the text says which line and why."""


class InputRecord(NamedTuple):
    """A record to write. Nothing said of the partition or the time leaves them to the producer."""

    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    partition: int | None = None
    timestamp_ms: int | None = None


def record_json(record: "AnyRecord") -> dict[str, object]:
    """A record as a JSON object; one of a share group with how often it has been handed out."""
    told: dict[str, object] = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp_ms,
        "key": _json_bytes(record.key),
        "value": _json_bytes(record.value),
        "headers": [{"key": name, "value": _json_bytes(value)} for name, value in record.headers],
    }
    delivery_count = getattr(record, "delivery_count", None)
    return told if delivery_count is None else told | {"delivery_count": delivery_count}


_PARTS: Final[dict[str, Callable[[Any], bytes]]] = {
    "t": lambda record: record.topic.encode(),
    "p": lambda record: b"%d" % record.partition,
    "o": lambda record: b"%d" % record.offset,
    "T": lambda record: b"%d" % record.timestamp_ms,
    "k": lambda record: record.key or b"",
    "K": lambda record: b"%d" % _size(record.key),
    "s": lambda record: record.value or b"",
    "S": lambda record: b"%d" % _size(record.value),
    "R": lambda record: struct.pack(">i", _size(record.value)),
    "h": lambda record: b",".join(b"%s=%s" % (name.encode(), value or b"") for name, value in record.headers),
    "%": lambda record: b"%",
}
_SHARE_PARTS: Final = _PARTS | {"D": lambda record: b"%d" % record.delivery_count}
_ESCAPES: Final = {"n": b"\n", "r": b"\r", "t": b"\t", "0": b"\0", "\\": b"\\"}
_TOKEN: Final = re.compile(r"%(.?)|\\(x[0-9a-fA-F]{2}|.?)", re.DOTALL)


def record_template(text: str, *, is_share: bool = False) -> "Callable[[AnyRecord], bytes]":
    """What prints a record as a text says it, with kcat's letters behind %, and %D for share groups."""
    parts = _SHARE_PARTS if is_share else _PARTS
    pieces: list[bytes | Callable[[Any], bytes]] = []
    at = 0
    for found in _TOKEN.finditer(text):
        pieces.append(text[at : found.start()].encode())
        at = found.end()
        letter, escape = found.groups()
        if letter is not None and letter in parts:
            pieces.append(parts[letter])
        elif escape is not None and escape[:1] == "x" and len(escape) == 3:
            pieces.append(bytes.fromhex(escape[1:]))
        elif escape is not None and escape in _ESCAPES:
            pieces.append(_ESCAPES[escape])
        else:
            known = ", ".join(f"%{each}" for each in parts)
            message = f"{found[0]!r} is none of {known}, \\n, \\r, \\t, \\0, \\xNN and \\\\."
            raise click.BadParameter(message, param_hint="'--format'")
    pieces.append(text[at:].encode())
    if not any(callable(each) for each in pieces):
        message = f"{text!r} is neither value, key or json, nor a text with a part of a record in it, as %s."
        raise click.BadParameter(message, param_hint="'--format'")
    return lambda record: b"".join(each(record) if callable(each) else each for each in pieces)


def _size(data: bytes | None) -> int:
    return -1 if data is None else len(data)


def parse_json_record(line: bytes, number: int) -> InputRecord:
    """A record from a line of JSON, as `record_json` writes it; only "value" must be there."""
    try:
        data = json.loads(line)
        if not isinstance(data, dict) or "value" not in data:
            raise ValueError('it is no object with a "value"')
        headers = tuple(
            (str(each["key"]), _bytes_of(each.get("value"))) for each in data.get("headers") or ()
        )
        return InputRecord(
            key=_bytes_of(data.get("key")),
            value=_bytes_of(data["value"]),
            headers=headers,
            partition=_number_of(data, "partition"),
            timestamp_ms=_number_of(data, "timestamp"),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise BadLineError(f"line {number} is not a record in JSON: {error}") from error


def parse_text_record(line: bytes, separator: bytes | None, number: int) -> InputRecord:
    """A record from a line of text: its value, or with a separator its key and its value."""
    if separator is None:
        return InputRecord(None, line)
    key, found, value = line.partition(separator)
    if not found:
        shown = separator.decode("utf-8", "backslashreplace")
        raise BadLineError(f"line {number} has no key: {shown!r} is not in it")
    return InputRecord(key, value)


def _json_bytes(data: bytes | None) -> str | dict[str, str] | None:
    if data is None:
        return None
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode("ascii")}


def _bytes_of(value: Any) -> bytes | None:
    if value is None:
        return None
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, dict) and set(value) == {"base64"}:
        return base64.b64decode(value["base64"], validate=True)
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def _number_of(data: dict[str, Any], name: str) -> int | None:
    value = data.get(name)
    if value is not None and (not isinstance(value, int) or isinstance(value, bool)):
        raise ValueError(f'"{name}" is not a whole number')
    return value
