"""Generates a writer: one function that turns a message into the bytes of one version.

The text is straight-line code that collects pieces in `parts` and joins them once. Fixed-size fields are
packed together with the one-byte length of what follows them. Where a version carries records, those stay
chunks of their own between the joined pieces, so that neither batches in memory nor slices of files are
copied.

Values are not checked up front: what cannot be packed raises by itself, and `unencodable` then finds the
field. A value that the version has no field for is refused, unless its loss is harmless (IGNORABLE), as Kafka
does.

The same text with a `yield` every now and then writes a long message in slices.
"""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Callable, Generator
from typing import Any, Final

from headrace.base.chunks import Chunk, FileSlice, chunks_size
from headrace.base.errors import InvalidBytesError
from headrace.wire import primitives
from headrace.wire.plan import FieldPlan, FieldSpec, StructPlan
from headrace.wire.source import Source, compile_function


def unencodable(title: str, plan: StructPlan, message: Any, error: Exception) -> InvalidBytesError:
    """The error to raise for a message that a writer failed on with `error`.

    It walks the message again, slowly, and names the first field whose value its wire type cannot hold, so
    that the traceback of a handler's bug points at its cause.
    """
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


_NAMES: Final = {
    "join": b"".join,
    "pack": struct.pack,
    "BYTE": [bytes((value,)) for value in range(128)],
    "uvarint": primitives.uvarint,
    "add_records": primitives.add_records,
    "fold_pieces": primitives.fold_pieces,
    "chunks_size": chunks_size,
    "refuse_absent": primitives.refuse_absent,
    "refuse_string": primitives.refuse_string,
    "refuse_uuid": primitives.refuse_uuid,
    "unencodable": unencodable,
    "BAD_VALUES": (struct.error, AttributeError, TypeError, UnicodeEncodeError, OverflowError),
}


def compile_writer(plan: StructPlan, version: int, title: str) -> Callable[[Any], list[Chunk]]:
    """The writer of a planned message: takes the message, gives its chunks."""
    return _WriterSource(plan, version, title).compile()


def compile_sliced_writer(
    plan: StructPlan, version: int, title: str
) -> Callable[[Any], Generator[None, None, list[Chunk]]]:
    """The same, writing in slices; the message must stay as it is meanwhile."""
    return _WriterSource(plan, version, title, in_slices=True).compile()


class _WriterSource:
    """The text of one writer under construction."""

    def __init__(self, plan: StructPlan, version: int, title: str, *, in_slices: bool = False) -> None:
        self._plan = plan
        self._version = version
        self._title = title
        self._in_slices = in_slices
        self._source = Source(_NAMES)
        self._run: list[tuple[str, str]] = []  # struct codes and the expressions they pack

    def compile(self) -> Callable[[Any], Any]:
        source = self._source
        plan = source.constant("plan", self._plan)
        has_records = _has_records(self._plan)
        with source.block("def write(o):"):
            with source.block("try:"):
                source.add("parts = []")
                if self._in_slices:
                    source.add("yield")  # else one without arrays would be no generator
                if has_records:
                    source.add("chunks = []")
                self._struct(self._plan, "o")
                self._flush()
                if has_records:
                    with source.block("if parts:"):
                        source.add("chunks.append(join(parts))")
                    source.add("return chunks")
                else:
                    source.add("return [join(parts)]")
            with source.block("except BAD_VALUES as error:"):
                source.add(f"raise unencodable({self._title!r}, {plan}, o, error) from error")
        return compile_function(source, "write", f"write {self._title}")

    def _flush(self) -> None:
        """Pack the run so far."""
        if self._run:
            self._source.add(f"parts.append({self._packed()})")
            self._run.clear()

    def _packed(self, *more: tuple[str, str]) -> str:
        """The expression that packs the run and more; a pad byte stands for a constant zero."""
        run = [*self._run, *more]
        codes = "".join(code for code, _ in run)
        values = ", ".join(value for _, value in run if value)
        return f"{self._source.packer(codes)}({values})" if values else repr(bytes(len(codes)))

    def _struct(self, plan: StructPlan, name: str) -> None:
        """Write a struct from the local `name`. May leave a run open."""
        label = plan.cls.__name__
        for spec in plan.absent:
            if not spec.ignorable:
                with self._source.block(f"if {self._is_set(spec, name)}:"):
                    self._source.add(f"refuse_absent('{label}.{spec.name}', {self._version})")
        for field in plan.fields:
            self._field(field, f"{name}.{field.spec.name}", f"{label}.{field.spec.name}")
        if plan.is_flexible:
            self._tags(plan, name)

    def _is_set(self, spec: FieldSpec, name: str) -> str:
        """The condition that a field is not its default."""
        value = f"{name}.{spec.name}"
        if spec.omitted_is_none:
            assert spec.struct is not None
            default = self._source.constant("default", spec.struct())
            return f"({value} is not None and {value} != {default})"
        if spec.default_is_factory:
            if spec.default is list:
                return f"({value} != [])"
            return f"({value} != {self._source.constant('default', spec.default())})"
        return f"({value} is not None)" if spec.default is None else f"({value} != {spec.default!r})"

    def _field(self, field: FieldPlan, value: str, label: str) -> None:
        source = self._source
        if field.spec.is_array:
            self._array(field, value, label)
        elif field.struct is not None:
            self._inner_struct(field, field.struct, value)
        elif field.spec.wire.code == "16s":
            local = source.fresh("u")
            source.add(f"{local} = {value}")
            self._check_uuid(local, label)
            self._run.append(("16s", local))
        elif field.spec.wire.code:
            self._run.append((field.spec.wire.code, value))
        else:
            self._variable(field, value, label)

    def _check_uuid(self, local: str, label: str) -> None:
        """`struct` would pad or cut without a word."""
        with self._source.block(f"if len({local}) != 16:"):
            self._source.add(f"refuse_uuid({label!r}, len({local}))")

    def _inner_struct(self, field: FieldPlan, plan: StructPlan, value: str) -> None:
        local = self._source.fresh("o")
        self._source.add(f"{local} = {value}")
        if not field.is_nullable:
            self._struct(plan, local)
            return
        self._flush()
        with self._source.block(f"if {local} is None:"):
            self._source.add(f"parts.append({field.null_marker.to_bytes(1, 'big', signed=True)!r})")
        with self._source.block("else:"):
            self._run.append(("b", "1"))
            self._struct(plan, local)
            self._flush()

    def _length(self, field: FieldPlan, length: str, code: str, label: str) -> None:
        """Close the run with a length, which for a compact field is one too high and usually one byte."""
        source = self._source
        if not field.is_compact:
            self._run.append((code, length))
            self._flush()
            return
        if self._run:
            with source.block(f"if {length} < 128:"):
                source.add(f"parts.append({self._packed(('B', length))})")
            with source.block("else:"):
                self._check_string(field, length, label)
                source.add(f"parts.append({self._packed()})")
                source.add(f"parts.append(uvarint({length}))")
            self._run.clear()
        else:
            with source.block(f"if {length} < 128:"):
                source.add(f"parts.append(BYTE[{length}])")
            with source.block("else:"):
                self._check_string(field, length, label)
                source.add(f"parts.append(uvarint({length}))")

    def _check_string(self, field: FieldPlan, length: str, label: str) -> None:
        if field.spec.wire.name == "string" and not field.spec.is_array:
            with self._source.block(f"if {length} > {primitives.STRING_BYTES_MAX + 1}:"):
                self._source.add(f"refuse_string({label!r}, {length} - 1)")

    def _variable(self, field: FieldPlan, value: str, label: str) -> None:
        """A string, bytes or records."""
        source = self._source
        kind = field.spec.wire.name
        local, length = source.fresh("s"), source.fresh("n")
        source.add(f"{local} = {value}")
        shift = " + 1" if field.is_compact else ""
        null = 0 if field.is_compact else -1
        if field.is_nullable:
            with source.block(f"if {local} is None:"):
                source.add(f"{length} = {null}")
            with source.block("else:"):
                self._measure(kind, local, length, shift)
        else:
            self._measure(kind, local, length, shift)
        self._length(field, length, "h" if kind == "string" else "i", label)
        with source.block(f"if {length} > {null + 1}:"):
            if kind == "records":
                source.add(f"parts = add_records(parts, chunks, {local})")
            else:
                source.add(f"parts.append({local})")

    def _measure(self, kind: str, local: str, length: str, shift: str) -> None:
        source = self._source
        if kind == "string":
            source.add(f"{local} = {local}.encode()")
        if kind == "records":
            source.add(
                f"{length} = (len({local}) if {local}.__class__ is not list else chunks_size({local})){shift}"
            )
        else:
            source.add(f"{length} = len({local}){shift}")

    def _array(self, field: FieldPlan, value: str, label: str) -> None:
        source = self._source
        array, count = source.fresh("a"), source.fresh("n")
        source.add(f"{array} = {value}")
        shift = " + 1" if field.is_compact else ""
        if field.is_nullable:
            with source.block(f"if {array} is None:"):
                source.add(f"{array} = ()")
                source.add(f"{count} = {0 if field.is_compact else -1}")
            with source.block("else:"):
                source.add(f"{count} = len({array}){shift}")
        else:
            source.add(f"{count} = len({array}){shift}")
        self._length(field, count, "i", label)
        self._elements(field, array, label)

    def _elements(self, field: FieldPlan, array: str, label: str) -> None:
        source = self._source
        code = field.spec.wire.code
        if code and code != "16s":
            with source.block(f"if {array}:"):
                source.add(f"parts.append(pack(f'>{{len({array})}}{code}', *{array}))")
            return
        element = source.fresh("e")
        number = source.fresh("i")
        heading = f"for {number}, {element} in enumerate({array}):"
        with source.block(heading if self._in_slices else f"for {element} in {array}:"):
            if self._in_slices:
                last = primitives.SLICE_ELEMENTS - 1
                with source.block(f"if {number} & {last} == {last}:"):
                    source.add("fold_pieces(parts)")
                    source.add("yield")
            if field.struct is not None:
                self._struct(field.struct, element)
            elif code:
                self._check_uuid(element, label)
                source.add(f"parts.append({element})")
            else:
                self._variable(_as_element(field), element, label)
            self._flush()

    def _tags(self, plan: StructPlan, name: str) -> None:
        """The tagged fields, those at their defaults left out; their number joins the run."""
        source = self._source
        if not plan.tagged:
            self._run.append(("x", ""))
            return
        count = source.fresh("t")
        conditions = {field.spec.name: self._is_set(field.spec, name) for field in plan.tagged}
        source.add(f"{count} = {' + '.join(conditions.values())}")
        self._run.append(("B", count))
        self._flush()
        with source.block(f"if {count}:"):
            for field in plan.tagged:
                with source.block(f"if {conditions[field.spec.name]}:"):
                    self._tagged_field(field, name, plan.cls.__name__)

    def _tagged_field(self, field: FieldPlan, name: str, label: str) -> None:
        source = self._source
        assert field.spec.tag is not None
        outer = source.fresh("outer")
        source.add(f"{outer} = parts")
        source.add("parts = []")
        self._field(field, f"{name}.{field.spec.name}", f"{label}.{field.spec.name}")
        self._flush()
        source.add("content = join(parts)")
        source.add(f"parts = {outer}")
        source.add(f"parts += ({primitives.uvarint(field.spec.tag)!r}, uvarint(len(content)), content)")


def _has_records(plan: StructPlan) -> bool:
    assert not any(field.spec.wire.name == "records" for field in plan.tagged), "records are never tagged"
    return any(
        field.spec.wire.name == "records" or (field.struct is not None and _has_records(field.struct))
        for field in plan.fields
    )


def _as_element(field: FieldPlan) -> FieldPlan:
    """An array's element: it may not be null even where the array may."""
    spec = dataclasses.replace(field.spec, is_array=False)
    return FieldPlan(spec, is_nullable=False, is_compact=field.is_compact, struct=field.struct)
