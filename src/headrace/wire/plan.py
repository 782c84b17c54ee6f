"""From a schema and a version to the plan of one encoding: which fields there are, in which order and form.

The annotations of a class are evaluated once (`fields_of`); a plan then picks what one version carries. Both
code generators and the tests work from plans, never from annotations.
"""

from __future__ import annotations

import sys
from dataclasses import MISSING, Field, dataclass
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Union, get_args, get_origin

from headrace.base.errors import InvalidBytesError
from headrace.wire.notation import (
    IGNORABLE,
    NEVER_COMPACT,
    OMITTED_IS_NONE,
    Marker,
    Nullable,
    Since,
    Tag,
    Until,
    Wire,
    schema_of,
)

ALWAYS: Final = range(32768)
_STRING: Final = Wire("string")
_BYTES: Final = Wire("bytes")
_BOOL: Final = Wire("bool", "?")
_STRUCT: Final = Wire("struct")
_OBJECTS_OF_BYTES: Final = frozenset({"string", "bytes", "uuid", "records"})
FIXED_SIZES: Final = {"b": 1, "?": 1, "h": 2, "H": 2, "i": 4, "I": 4, "q": 8, "d": 8, "16s": 16}

_FIELDS: Final[dict[type[Any], tuple[FieldSpec, ...]]] = {}


class UnsupportedVersion(InvalidBytesError):  # noqa: N818 (the name of Kafka's error)
    """A version outside of a message's range, or a value that the version has no field for."""


@dataclass(frozen=True, slots=True)
class FieldSpec:
    """A field as its annotation describes it, for all versions."""

    name: str
    wire: Wire
    struct: type[Any] | None  # the class of a struct, or of an array's elements
    is_array: bool
    versions: range
    nullable: range
    tag: int | None
    ignorable: bool
    never_compact: bool
    omitted_is_none: bool
    default: Any  # a value, or for lists and structs what makes one
    default_is_factory: bool

    def make_default(self) -> Any:
        return self.default() if self.default_is_factory else self.default


@dataclass(frozen=True, slots=True)
class FieldPlan:
    """A field as one version carries it."""

    spec: FieldSpec
    is_nullable: bool
    is_compact: bool
    struct: StructPlan | None

    @property
    def min_bytes(self) -> int:
        """The least a value of this field takes on the wire."""
        if self.spec.is_array:
            return 1 if self.is_compact else 4
        if self.struct is not None:
            return 1 if self.is_nullable else self.struct.min_bytes
        if self.spec.wire.code:
            return FIXED_SIZES[self.spec.wire.code]
        return 1 if self.is_compact else 2 if self.spec.wire.name == "string" else 4

    @property
    def null_marker(self) -> int:
        """The byte that stands for a struct that is null; 1 stands in front of one that is not."""
        return -1 if self.spec.tag is None else 0

    @property
    def element_min_bytes(self) -> int:
        """The least an element of this array takes on the wire; 1 where it could be nothing at all."""
        if self.struct is not None:
            return max(1, self.struct.min_bytes)
        return FIXED_SIZES[self.spec.wire.code] if self.spec.wire.code else 1 if self.is_compact else 2

    @property
    def element_memory(self) -> int:
        """About what an element of this array takes in memory once it is read, its pointer included."""
        if self.struct is not None:
            return 8 + self.struct.memory
        return 8 + (64 if self.spec.wire.name in _OBJECTS_OF_BYTES else 32)

    @property
    def memory(self) -> int:
        """About what a value takes in memory, without an array's elements or a string's content."""
        if self.struct is not None and not self.spec.is_array:
            return 8 + self.struct.memory
        is_object = self.spec.is_array or self.spec.wire.name in _OBJECTS_OF_BYTES
        return 8 + (64 if is_object else 32)


@dataclass(frozen=True, slots=True)
class StructPlan:
    """A struct in one version."""

    cls: type[Any]
    is_flexible: bool
    fields: tuple[FieldPlan, ...]  # in wire order
    tagged: tuple[FieldPlan, ...]  # by tag
    absent: tuple[FieldSpec, ...]  # not in this version

    @property
    def min_bytes(self) -> int:
        return sum(field.min_bytes for field in self.fields) + self.is_flexible

    @property
    def memory(self) -> int:
        """About what one takes in memory; fields that are absent cost their pointer."""
        present = sum(field.memory for field in self.fields + self.tagged)
        return 48 + present + 8 * len(self.absent)


def plan_message(cls: type[Any], version: int) -> StructPlan:
    """The plan of a message in a version; UnsupportedVersion where it has no such version."""
    schema = schema_of(cls)
    if version not in schema.versions:
        first, last = schema.versions[0], schema.versions[-1]
        raise UnsupportedVersion(f"{cls.__name__} has versions {first} to {last}, not {version}")
    is_flexible = schema.flexible_from is not None and version >= schema.flexible_from
    return _plan_struct(cls, version, is_flexible)


def _plan_struct(cls: type[Any], version: int, is_flexible: bool) -> StructPlan:
    specs = fields_of(cls)
    present = [
        FieldPlan(
            spec,
            is_nullable=version in spec.nullable,
            is_compact=is_flexible and not spec.never_compact,
            struct=_plan_struct(spec.struct, version, is_flexible) if spec.struct is not None else None,
        )
        for spec in specs
        if version in spec.versions
    ]
    tagged = [(field.spec.tag, field) for field in present if field.spec.tag is not None]
    assert is_flexible or not tagged, f"{cls.__name__}: tagged fields need a flexible version"
    return StructPlan(
        cls,
        is_flexible,
        fields=tuple(field for field in present if field.spec.tag is None),
        tagged=tuple(field for _, field in sorted(tagged, key=lambda pair: pair[0])),
        absent=tuple(spec for spec in specs if version not in spec.versions),
    )


def fields_of(cls: type[Any]) -> tuple[FieldSpec, ...]:
    """The fields of a declared class, its annotations evaluated."""
    specs = _FIELDS.get(cls)
    if specs is None:
        names = vars(sys.modules[cls.__module__])
        defaults: dict[str, Any] = cls.__field_defaults__
        specs = tuple(
            _field_spec(f"{cls.__name__}.{name}", name, eval(text, names), defaults[name])
            for name, text in cls.__annotations__.items()
        )
        _FIELDS[cls] = specs
    return specs


def _field_spec(path: str, name: str, hint: Any, default: Any) -> FieldSpec:
    hint, marks = _without_marks(hint)
    hint, is_optional = _without_none(hint)
    hint, inner_marks = _without_marks(hint)
    marks += inner_marks
    is_array = get_origin(hint) is list
    if is_array:
        hint, element_marks = _without_marks(get_args(hint)[0])
        marks += element_marks
    wire = _wire_of(path, hint, marks)
    versions = range(
        _mark(Since, marks, Since(0)).version, _mark(Until, marks, Until(ALWAYS[-1])).version + 1
    )
    is_nullable = is_optional and OMITTED_IS_NONE not in marks
    narrowed = _mark(Nullable, marks, Nullable(0))
    tag = _mark(Tag, marks, None)
    factory: Any = MISSING
    if isinstance(default, Field):
        default, factory = default.default, default.default_factory
    return FieldSpec(
        name,
        wire,
        struct=hint if wire is _STRUCT else None,
        is_array=is_array,
        versions=versions,
        nullable=range(narrowed.since, narrowed.until + 1) if is_nullable else range(0),
        tag=tag.number if tag is not None else None,
        ignorable=IGNORABLE in marks,
        never_compact=NEVER_COMPACT in marks,
        omitted_is_none=OMITTED_IS_NONE in marks,
        default=default if factory is MISSING else factory,
        default_is_factory=factory is not MISSING,
    )


def _without_marks(hint: Any) -> tuple[Any, tuple[Any, ...]]:
    return (hint.__origin__, hint.__metadata__) if get_origin(hint) is Annotated else (hint, ())


def _without_none(hint: Any) -> tuple[Any, bool]:
    """`X` of `X | None`. A union without None stays: it is the Python face of a records field."""
    arguments = get_args(hint) if get_origin(hint) in (Union, UnionType) else ()
    if NoneType not in arguments:
        return hint, False
    (rest,) = (argument for argument in arguments if argument is not NoneType)
    return rest, True


def _wire_of(path: str, hint: Any, marks: tuple[Any, ...]) -> Wire:
    wire = _mark(Wire, marks, None)
    if wire is not None:
        assert isinstance(wire, Wire)
        return wire
    plain = {str: _STRING, bytes: _BYTES, bool: _BOOL}.get(hint)
    if plain is not None:
        return plain
    if isinstance(hint, type) and hasattr(hint, "__field_defaults__"):
        return _STRUCT
    raise TypeError(f"{path}: {hint!r} has no form on the wire; integers need one of int8 to int64")


def _mark(kind: type[Any], marks: tuple[Any, ...], otherwise: Any) -> Any:
    assert all(isinstance(mark, Since | Until | Nullable | Tag | Wire | Marker) for mark in marks), marks
    return next((mark for mark in marks if isinstance(mark, kind)), otherwise)
