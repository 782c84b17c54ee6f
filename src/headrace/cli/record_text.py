"""Records as text: what `consume` prints and `produce` reads.

In JSON a key or value is a string where its bytes are text, {"base64": "…"} where they are not, and null
where there is none, so that what one command prints the other reads back as the same record.
"""

import base64
import json
from typing import Any, NamedTuple

from headrace.clients import ConsumedRecord
from headrace.clients.errors import ClientError

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


def record_json(record: ConsumedRecord) -> dict[str, object]:
    """A record as a JSON object."""
    return {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp_ms,
        "key": _json_bytes(record.key),
        "value": _json_bytes(record.value),
        "headers": [{"key": name, "value": _json_bytes(value)} for name, value in record.headers],
    }


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
