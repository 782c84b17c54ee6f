"""Generates a reader: one function that turns the bytes of one version of a message into its object.

The text is straight-line code for that version. Structs inside structs are inlined, fixed-size fields are
unpacked together with the length of whatever follows them, and objects are filled slot by slot, which is
faster than calling their `__init__`. A count or length is compared with the bytes left before anything is
made from it; whatever reads past the end by itself (`struct`, an index) raises, and one handler at the end
turns that into InvalidBytesError. `left` is the memory that arrays may still take, see MESSAGE_MEMORY_MAX.

A server reads requests of strangers, and may not take long over one: see `Pace`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Generator
from enum import Enum
from typing import Any, Final

from headrace.base.chunks import Buffer
from headrace.base.errors import InvalidBytesError
from headrace.wire import primitives
from headrace.wire.plan import FIXED_SIZES, FieldPlan, FieldSpec, StructPlan
from headrace.wire.source import Source, compile_function

_NAMES: Final = {
    "new": object.__new__,
    "unpack_from": struct.unpack_from,
    "read_uvarint_rest": primitives.read_uvarint_rest,
    "next_tag": primitives.next_tag,
    "tag_count": primitives.tag_count,
    "skip_tags": primitives.skip_tags,
    "refuse_length": primitives.refuse_length,
    "refuse_count": primitives.refuse_count,
    "too_long": primitives.too_long,
    "refuse_tag_size": primitives.refuse_tag_size,
    "BAD_BYTES": (struct.error, IndexError, UnicodeDecodeError),
    "InvalidBytesError": InvalidBytesError,
}


class Pace(Enum):
    """How a reader takes its time: at once whatever it takes; at once or, where that would take long, with a
    LongMessageError; or in slices, as a generator that yields between them.
    """

    AT_ONCE = 1
    IF_SHORT = 2
    IN_SLICES = 3


def compile_reader(plan: StructPlan, title: str) -> Callable[[Buffer, int], tuple[Any, int]]:
    """The reader of a planned message: takes a buffer and a position, gives the message and where it ends."""
    return _ReaderSource(plan, title, Pace.AT_ONCE).compile()


def compile_short_reader(plan: StructPlan, title: str) -> Callable[[Buffer, int], tuple[Any, int]]:
    """The same, but LongMessageError for a message that takes long."""
    return _ReaderSource(plan, title, Pace.IF_SHORT).compile()


def compile_sliced_reader(
    plan: StructPlan, title: str
) -> Callable[[Buffer, int], Generator[None, None, tuple[Any, int]]]:
    """The same, reading in slices; the buffer must stay as it is meanwhile."""
    return _ReaderSource(plan, title, Pace.IN_SLICES).compile()


class _ReaderSource:
    """The text of one reader under construction."""

    def __init__(self, plan: StructPlan, title: str, pace: Pace) -> None:
        self._plan = plan
        self._pace = pace
        self._title = title
        self._source = Source(_NAMES)
        self._run: list[tuple[str, str]] = []  # struct codes and the targets they are assigned to

    def compile(self) -> Callable[[Buffer, int], Any]:
        source = self._source
        with source.block("def read(buf, at):"):
            with source.block("try:"):
                with source.block("if buf.__class__ is not memoryview:"):
                    source.add("buf = memoryview(buf)")
                source.add("limit = len(buf)")
                is_short = self._pace is Pace.IF_SHORT
                memory = primitives.LIGHT_MESSAGE_MEMORY_MAX if is_short else primitives.MESSAGE_MEMORY_MAX
                source.add(f"left = {memory}")
                if self._pace is Pace.IN_SLICES:
                    source.add("yield")  # else one without arrays would be no generator
                message = self._struct(self._plan)
                self._flush()
                source.add(f"return {message}, at")
            with source.block("except BAD_BYTES as error:"):
                source.add(f"raise InvalidBytesError(f'{self._title}: {{error}}') from error")
        return compile_function(source, "read", f"read {self._title}")

    def _flush(self) -> None:
        """Unpack the run so far into its targets."""
        if not self._run:
            return
        codes = "".join(code for code, _ in self._run)
        targets = ", ".join(target for _, target in self._run)
        size = sum(FIXED_SIZES.get(code, 1) for code, _ in self._run)
        self._run.clear()
        if codes == "B":
            self._source.add(f"{targets} = buf[at]")
        else:
            comma = "" if "," in targets else ","
            self._source.add(f"{targets}{comma} = {self._source.unpacker(codes)}(buf, at)")
        self._source.add(f"at += {size}")

    def _struct(self, plan: StructPlan) -> str:
        """Read a struct; gives the name of the local it is in. May leave a run open."""
        source = self._source
        name = source.fresh("o")
        source.add(f"{name} = new({source.constant(plan.cls.__name__, plan.cls)})")
        self._defaults(name, [*plan.absent, *(field.spec for field in plan.tagged)])
        label = plan.cls.__name__
        for field in plan.fields:
            self._field(field, f"{name}.{field.spec.name}", f"{label}.{field.spec.name}")
        if plan.is_flexible:
            self._tags(plan, name)
        return name

    def _defaults(self, name: str, specs: list[FieldSpec]) -> None:
        """Give fields that this version lacks, or that may be left out, their defaults."""
        shared: dict[str, str] = {}
        for spec in specs:
            target = f"{name}.{spec.name}"
            if not spec.default_is_factory:
                value = self._literal(spec)
                shared[value] = f"{shared.get(value, '')}{target} = "
            elif spec.default is list:
                self._source.add(f"{target} = []")
            else:
                self._source.add(f"{target} = {self._source.constant('make', spec.default)}()")
        for value, targets in shared.items():
            self._source.add(targets + value)

    def _literal(self, spec: FieldSpec) -> str:
        return "NO_UUID" if self._is_no_uuid(spec) else repr(spec.default)

    def _is_no_uuid(self, spec: FieldSpec) -> bool:
        if spec.wire.name != "uuid" or spec.default is None:
            return False
        self._source.names["NO_UUID"] = spec.default
        return True

    def _field(self, field: FieldPlan, target: str, label: str) -> None:
        if field.spec.is_array:
            self._array(field, target, label)
        elif field.struct is not None:
            self._inner_struct(field, field.struct, target)
        elif field.spec.wire.code:
            self._run.append((field.spec.wire.code, target))
        else:
            self._variable(field, target, label)

    def _inner_struct(self, field: FieldPlan, plan: StructPlan, target: str) -> None:
        if not field.is_nullable:
            self._source.add(f"{target} = {self._struct(plan)}")
            return
        marker = self._source.fresh("n")
        self._run.append(("b", marker))
        self._flush()
        with self._source.block(f"if {marker} <= {field.null_marker}:"):
            self._source.add(f"{target} = None")
        with self._source.block("else:"):
            self._source.add(f"{target} = {self._struct(plan)}")
            self._flush()

    def _length(self, field: FieldPlan, code: str) -> str:
        """Read a length or count; gives the local that holds it, one too high if the field is compact."""
        length = self._source.fresh("n")
        self._run.append(("B" if field.is_compact else code, length))
        self._flush()
        if field.is_compact:
            with self._source.block(f"if {length} > 127:"):
                self._source.add(f"{length}, at = read_uvarint_rest(buf, at, {length})")
        return length

    def _variable(self, field: FieldPlan, target: str, label: str) -> None:
        """A string, bytes or records."""
        kind = field.spec.wire.name
        length = self._length(field, "h" if kind == "string" else "i")
        if field.is_nullable:
            with self._source.block(f"if {length} == {0 if field.is_compact else -1}:"):
                self._source.add(f"{target} = None")
            with self._source.block("else:"):
                self._variable_content(field, kind, length, target, label)
        else:
            self._variable_content(field, kind, length, target, label)

    def _variable_content(self, field: FieldPlan, kind: str, length: str, target: str, label: str) -> None:
        source = self._source
        shift = 1 if field.is_compact else 0
        end = source.fresh("end")
        source.add(f"{end} = at + {length}" + " - 1" * shift)
        low = [] if field.is_compact and field.is_nullable else [f"{length} < {shift}"]
        high = [f"{length} > {primitives.STRING_BYTES_MAX + 1}"] if kind == "string" and shift else []
        with source.block(f"if {' or '.join([*low, *high, f'{end} > limit'])}:"):
            source.add(f"refuse_length({label!r}, {length} - {shift}, limit - at)")
        content = f"buf[at:{end}]"
        if kind == "string":
            content += ".tobytes().decode()"
        elif kind == "bytes":
            content += ".tobytes()"
        source.add(f"{target} = {content}")
        source.add(f"at = {end}")

    def _array(self, field: FieldPlan, target: str, label: str) -> None:
        count = self._length(field, "i")
        if field.is_nullable:
            with self._source.block(f"if {count} == {0 if field.is_compact else -1}:"):
                self._source.add(f"{target} = None")
            with self._source.block("else:"):
                self._array_content(field, count, target, label)
        else:
            self._array_content(field, count, target, label)

    def _array_content(self, field: FieldPlan, count: str, target: str, label: str) -> None:
        source = self._source
        if field.is_compact:
            source.add(f"{count} -= 1")
        bounds = f"{count} < 0 or {count} * {field.element_min_bytes} > limit - at"
        memory = f"(left := left - {count} * {field.element_memory}) < 0"
        if self._pace is not Pace.AT_ONCE:
            bounds += f" or {count} > {primitives.ELEMENTS_MAX}"
        if self._pace is not Pace.IF_SHORT:
            bounds += f" or {memory}"
        with source.block(f"if {bounds}:"):
            source.add(f"refuse_count({label!r}, {count}, limit - at)")
        if self._pace is Pace.IF_SHORT:
            with source.block(f"if {memory}:"):
                source.add(f"too_long({label!r}, {count})")
        code = field.spec.wire.code
        if code == "16s":
            source.add(f"{target} = [buf[i : i + 16].tobytes() for i in range(at, at + {count} * 16, 16)]")
            source.add(f"at += {count} * 16")
        elif code:
            source.add(f"{target} = list(unpack_from(f'>{{{count}}}{code}', buf, at)) if {count} else []")
            source.add(f"at += {count} * {FIXED_SIZES[code]}")
        else:
            self._elements(field, count, target, label)

    def _elements(self, field: FieldPlan, count: str, target: str, label: str) -> None:
        source = self._source
        array = source.fresh("a")
        source.add(f"{target} = {array} = []")
        number = source.fresh("i") if self._pace is Pace.IN_SLICES else "_"
        with source.block(f"for {number} in range({count}):"):
            if self._pace is Pace.IN_SLICES:
                last = primitives.SLICE_ELEMENTS - 1
                with source.block(f"if {number} & {last} == {last}:"):
                    source.add("yield")
            if field.struct is not None:
                element = self._struct(field.struct)
                self._flush()
            else:
                element = source.fresh("v")
                length = self._length(field, "h")
                self._variable_content(_never_null(field), field.spec.wire.name, length, element, label)
            source.add(f"{array}.append({element})")

    def _tags(self, plan: StructPlan, name: str) -> None:
        source = self._source
        count = source.fresh("t")
        self._run.append(("B", count))
        self._flush()
        with source.block(f"if {count}:"):
            if not plan.tagged:
                source.add(f"at = skip_tags(buf, at, {count}, limit)")
                return
            tag, end = source.fresh("tag"), source.fresh("end")
            source.add(f"{count}, at = tag_count(buf, at, {count}, limit)")
            source.add(f"{tag} = -1")
            with source.block(f"for _ in range({count}):"):
                source.add(f"{tag}, at, {end} = next_tag(buf, at, {tag}, limit)")
                self._known_tags(plan, name, tag, end)

    def _known_tags(self, plan: StructPlan, name: str, tag: str, end: str) -> None:
        source = self._source
        for position, field in enumerate(plan.tagged):
            label = f"{plan.cls.__name__}.{field.spec.name}"
            with source.block(f"{'elif' if position else 'if'} {tag} == {field.spec.tag}:"):
                start = source.fresh("start")
                source.add(f"{start} = at")
                self._field(field, f"{name}.{field.spec.name}", label)
                self._flush()
                with source.block(f"if at != {end}:"):
                    source.add(f"refuse_tag_size({label!r}, {end} - {start})")
        with source.block("else:"):
            source.add(f"at = {end}")


def _never_null(field: FieldPlan) -> FieldPlan:
    """The same field for an array's elements: the array may be null, they may not."""
    return FieldPlan(field.spec, is_nullable=False, is_compact=field.is_compact, struct=field.struct)
