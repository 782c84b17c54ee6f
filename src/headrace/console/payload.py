"""What bytes of a record are: what their schema says, or, told by looking at them, JSON, text or other bytes.

Nothing here makes markup: a page gets texts and base64, and shows them as text.
"""

import base64
import binascii
import json
from collections.abc import Mapping
from typing import Any, Final

from headrace.console.http_server import RefusedCallError
from headrace.console.masks import HIDDEN
from headrace.console.messages import ShownRecord
from headrace.console.record_view import ABSENT, RecordView, SeenPayload, json_text

_CONTROL: Final = frozenset(range(32)) - {9, 10, 13}
_CONTROL_SHARE_MAX: Final = 0.25


def record_json(shown: ShownRecord, view: RecordView) -> dict[str, Any]:
    """A record as pages get it; the view must have learnt of it."""
    record = shown.record
    return {
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp_ms,
        "key": payload_json(view.part("key", record.key, record.headers), shown.key_bytes),
        "value": payload_json(view.part("value", record.value, record.headers), shown.value_bytes),
        "headers": [
            {"name": name, "value": payload_json(view.header(name, value), len(value or b""))}
            for name, value in record.headers
        ],
    }


def payload_json(seen: SeenPayload | None, size: int) -> dict[str, Any] | None:
    """A key, a value or a header: its kind, its size, and its text or, of other bytes, base64.

    What a schema has read has its bytes as `raw` too, so that it can be written again as it was.
    """
    if seen is None:
        return None
    shown: dict[str, Any] = {"size": size}
    data = seen.data
    if data is not None and len(data) < size:
        shown["cut"] = True
    if seen.schema is not None:
        shown["schema"] = seen.schema.schema
        if seen.error:
            shown["error"] = seen.error
    if seen.document is not ABSENT:
        shown |= {"kind": "json", "data": json_text(seen.document)}
        return shown | ({"masked": True} if data is None else {"raw": _base64(data)})
    if data is None:
        return shown | {"kind": "text", "data": HIDDEN, "masked": True}
    is_cut = "cut" in shown
    text = _text_of(data, is_cut)
    if text is None:
        return shown | {"kind": "bytes", "data": _base64(data)}
    return shown | {"kind": "json" if _is_json(text, is_cut) else "text", "data": text}


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


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
