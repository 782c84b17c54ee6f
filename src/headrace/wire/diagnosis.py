"""Why a message could not be written: finds the field whose value its wire type cannot hold.

Writers don't check values one by one; they fail somewhere inside `struct` or `str.encode`. This walks the
message again, slowly, and names the first field at fault, so that the traceback of a handler's bug points
at its cause.
"""

from __future__ import annotations

import struct
from typing import Any

from headrace.base.chunks import FileSlice
from headrace.base.errors import InvalidBytesError
from headrace.wire.plan import FieldPlan, StructPlan


def unencodable(title: str, plan: StructPlan, message: Any, error: Exception) -> InvalidBytesError:
    """The error to raise for a message that a writer failed on with `error`."""
    fault = _struct_fault(plan, message, "")
    return InvalidBytesError(f"{title}: {fault or error}")


def _struct_fault(plan: StructPlan, value: Any, path: str) -> str | None:
    if not isinstance(value, plan.cls):
        return f"{path or 'the message'} is {_shown(value)} instead of a {plan.cls.__name__}"
    for field in plan.fields + plan.tagged:
        name = f"{path}.{field.spec.name}" if path else field.spec.name
        fault = _field_fault(field, getattr(value, field.spec.name, None), name)
        if fault is not None:
            return fault
    return None


def _field_fault(field: FieldPlan, value: Any, path: str) -> str | None:
    if value is None:
        is_allowed = field.is_nullable or field.spec.omitted_is_none
        return None if is_allowed else f"{path} is None, which this version cannot carry"
    if not field.spec.is_array:
        return _value_fault(field, value, path)
    if not isinstance(value, list | tuple):
        return f"{path} is {_shown(value)} instead of a list"
    faults = (_value_fault(field, element, f"{path}[{index}]") for index, element in enumerate(value))
    return next((fault for fault in faults if fault is not None), None)


def _value_fault(field: FieldPlan, value: Any, path: str) -> str | None:
    if field.struct is not None:
        return _struct_fault(field.struct, value, path)
    wire = field.spec.wire
    if wire.code:
        try:
            struct.pack(">" + wire.code, value)
        except struct.error:
            return f"{path} is {_shown(value)}, which is no {wire.name}"
        return None
    if wire.name == "string":
        if not isinstance(value, str):
            return f"{path} is {_shown(value)} instead of a str"
        size = len(value.encode(errors="replace"))
        return (
            f"{path} is {_shown(value)}, too long or not valid Unicode"
            if size > 0x7FFF or _is_bad(value)
            else None
        )
    chunks = value if wire.name == "records" and isinstance(value, list) else [value]
    kinds = (
        (bytes, bytearray, memoryview, FileSlice)
        if wire.name == "records"
        else (bytes, bytearray, memoryview)
    )
    return (
        None if all(isinstance(chunk, kinds) for chunk in chunks) else f"{path} is {_shown(value)}, not bytes"
    )


def _is_bad(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
