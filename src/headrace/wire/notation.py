"""The notation of the schemas: a message is a class whose annotations say how each field travels.

One class covers every version of a message. A field's annotation is its Python type, narrowed to a wire type
(`int16`, `uuid`, ...) and marked with what changes between versions:

    @message(api_key=10, versions=range(0, 7), flexible_from=3)
    class FindCoordinatorRequest:
        key: Annotated[str, Until(3)] = ""
        key_type: Annotated[int8, Since(1)] = 0
        coordinator_keys: Annotated[list[str], Since(4)] = field(default_factory=list)

`X | None` is a field that may be null, in all of its versions unless `Nullable` narrows that. The order of
the fields is their order on the wire.

Schema modules use postponed annotations, so that importing one costs next to nothing: `plan` evaluates them
when a version is first used, and the decorators here only give the class its slots. The rest of what makes
it a dataclass (`__init__`, `__eq__`, `__repr__`, `dataclasses.replace`) is made when it is first asked for,
since most processes use few of the messages.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, NamedTuple, TypeAlias, TypeVar, dataclass_transform

from headrace.base.chunks import Buffer, Chunk

T = TypeVar("T")


class Wire(NamedTuple):
    """A primitive's form on the wire: its `struct` letter where it has a fixed size, else its name."""

    name: str
    code: str = ""


# Not tuples: Since(3) and Until(3) would be equal. `Annotated` keeps what it has made, and finds it again by
# equality alone in the first releases of Python 3.11 (Debian 12 has one): a field got another one's versions.
@dataclass(frozen=True, slots=True)
class Since:
    """The first version that carries the field."""

    version: int


@dataclass(frozen=True, slots=True)
class Until:
    """The last version that carries the field."""

    version: int


class Nullable(NamedTuple):
    """The versions in which a field of an optional type may really be null."""

    since: int
    until: int = 32767


@dataclass(frozen=True, slots=True)
class Tag:
    """The field travels among the tagged fields under this number, and only where it is not its default."""

    number: int


class Marker(NamedTuple):
    """A property of a field that takes no argument."""

    name: str


IGNORABLE: Final = Marker("ignorable")
"""A value is dropped when written in a version that lacks the field; without this mark that is an error."""

OMITTED_IS_NONE: Final = Marker("omitted is none")
"""None stands for a tagged struct that is left out, though null itself never travels: it saves making one."""

NEVER_COMPACT: Final = Marker("never compact")
"""Keeps the old length prefix even in flexible versions: the request header's client id."""

int8: TypeAlias = Annotated[int, Wire("int8", "b")]
int16: TypeAlias = Annotated[int, Wire("int16", "h")]
int32: TypeAlias = Annotated[int, Wire("int32", "i")]
int64: TypeAlias = Annotated[int, Wire("int64", "q")]
uint16: TypeAlias = Annotated[int, Wire("uint16", "H")]
uint32: TypeAlias = Annotated[int, Wire("uint32", "I")]
float64: TypeAlias = Annotated[float, Wire("float64", "d")]
uuid: TypeAlias = Annotated[bytes, Wire("uuid", "16s")]
records_buffer: TypeAlias = Annotated[Buffer, Wire("records")]
"""Record batches that are read: a view of the frame, never copied."""
records_chunks: TypeAlias = Annotated[Chunk | list[Chunk], Wire("records")]
"""Record batches that are sent: bytes, a slice of a file, or a list of both; read as a view of the frame."""

NO_UUID: Final = bytes(16)


class Schema(NamedTuple):
    """What is said of a message as a whole."""

    versions: range
    flexible_from: int | None  # the first version with compact lengths and tagged fields (KIP-482)
    api_key: int | None


@dataclass_transform(field_specifiers=(field,))
def message(
    *, versions: range, flexible_from: int | None = None, api_key: int | None = None
) -> Callable[[type[T]], type[T]]:
    """Declare a message: something that has versions of its own."""
    schema = Schema(versions, flexible_from, api_key)

    def declare(cls: type[T]) -> type[T]:
        return _with_slots(cls, {"__schema__": schema})

    return declare


@dataclass_transform(field_specifiers=(field,))
def struct(cls: type[T]) -> type[T]:
    """Declare a part of messages: its versions are those of the message it stands in."""
    return _with_slots(cls, {})


def schema_of(cls: type[Any]) -> Schema:
    """The schema of a class made by `message`."""
    schema = getattr(cls, "__schema__", None)
    if not isinstance(schema, Schema):
        raise TypeError(f"{cls.__qualname__} is not a message: only @message classes have versions")
    return schema


def _with_slots(cls: type[T], extra: dict[str, Any]) -> type[T]:
    """The same class with a slot per field, its defaults put aside until they are needed."""
    namespace = dict(cls.__dict__)
    names = tuple(namespace.get("__annotations__", ()))
    namespace.pop("__dict__", None)
    namespace.pop("__weakref__", None)
    defaults = {name: namespace.pop(name) for name in names}
    namespace.update(extra)
    namespace.update(
        __slots__=names,
        __match_args__=names,
        __field_defaults__=defaults,
        __dataclass_fields__=_FIELDS_AT_FIRST_USE,
        __init__=_init_at_first_use,
        __eq__=_eq_at_first_use,
        __repr__=_repr_at_first_use,
        __hash__=None,
    )
    slotted: type[T] = type(cls.__name__, cls.__bases__, namespace)
    return slotted


def complete(cls: type[Any]) -> None:
    """Give a declared class the methods of the dataclass it stands for."""
    body = {name: getattr(cls, name) for name in ("__annotations__", "__module__", "__qualname__")}
    plain: type[Any] = type(cls.__name__, (), body | cls.__field_defaults__)
    model = dataclasses.dataclass(plain)
    for name in ("__init__", "__eq__", "__repr__", "__dataclass_fields__"):
        setattr(cls, name, model.__dict__[name])


class _FieldsAtFirstUse:
    """Stands for `__dataclass_fields__` until `dataclasses` asks for it."""

    def __get__(self, instance: object, owner: type[Any]) -> Any:
        complete(owner)
        return owner.__dataclass_fields__


_FIELDS_AT_FIRST_USE: Final = _FieldsAtFirstUse()


def _init_at_first_use(self: Any, *args: Any, **kwargs: Any) -> None:
    complete(type(self))
    self.__init__(*args, **kwargs)


def _eq_at_first_use(self: object, other: object) -> bool:
    complete(type(self))
    return self == other


def _repr_at_first_use(self: object) -> str:
    complete(type(self))
    return repr(self)
