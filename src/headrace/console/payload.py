"""What bytes of a record are, told by looking at them: JSON, text or other bytes; and back from typed text.

Nothing here makes markup: a page gets texts and base64, and shows them as text.
"""

import base64
import binascii
import json
from collections.abc import Mapping
from typing import Any, Final

from headrace.console.http_server import RefusedCallError
from headrace.console.messages import ShownRecord

_CONTROL: Final = frozenset(range(32)) - {9, 10, 13}
_CONTROL_SHARE_MAX: Final = 0.25
_SCHEMA_HEAD_BYTES: Final = 5
"""What serializers of a schema registry write first: a zero, and the schema's id in four bytes."""
_SCHEMA_ID_MAX: Final = 10_000_000
"""Registries count from 1: a larger number is something else."""


def record_json(shown: ShownRecord) -> dict[str, Any]:
    """A record as pages get it."""
    record = shown.record
    return {
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp_ms,
        "key": payload_json(record.key, shown.key_bytes),
        "value": payload_json(record.value, shown.value_bytes),
        "headers": [
            {"name": name, "value": payload_json(value, len(value or b""))} for name, value in record.headers
        ],
    }


def payload_json(data: bytes | None, size: int) -> dict[str, Any] | None:
    """A key, a value or a header: its kind, its size, and its text or, of other bytes, base64."""
    if data is None:
        return None
    is_cut = len(data) < size
    shown: dict[str, Any] = {"size": size}
    if is_cut:
        shown["cut"] = True
    text = _text_of(data, is_cut)
    if text is None:
        shown |= {"kind": "bytes", "data": base64.b64encode(data).decode("ascii")}
        schema = int.from_bytes(data[1:_SCHEMA_HEAD_BYTES], "big")
        if data[:1] == b"\0" and len(data) > _SCHEMA_HEAD_BYTES and 0 < schema <= _SCHEMA_ID_MAX:
            shown["schema"] = schema
        return shown
    return shown | {"kind": "json" if _is_json(text, is_cut) else "text", "data": text}


def _text_of(data: bytes, is_cut: bool) -> str | None:
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        # Cutting may have gone through a letter.
        if not is_cut or error.start < len(data) - 3:
            return None
        text = data[: error.start].decode("utf-8")
    controls = sum(byte in _CONTROL for byte in data)
    return None if controls > len(data) * _CONTROL_SHARE_MAX else text


def _is_json(text: str, is_cut: bool) -> bool:
    """An object or a list; a lone number or word is text that reads the same."""
    start = text.lstrip()[:1]
    if start not in ("{", "["):
        return False
    if is_cut:
        return True
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def bytes_of(given: Any, name: str) -> bytes | None:
    """What a page sends to be written: null, a text, or {"base64": …}. RefusedCallError for anything else."""
    if given is None:
        return None
    if isinstance(given, str):
        return given.encode("utf-8", "surrogatepass")
    if isinstance(given, Mapping) and isinstance(given.get("base64"), str):
        try:
            return base64.b64decode(given["base64"], validate=True)
        except (binascii.Error, ValueError):
            raise RefusedCallError(400, f"{name!r} is no base64") from None
    raise RefusedCallError(400, f"{name!r} must be a text, null or base64")
