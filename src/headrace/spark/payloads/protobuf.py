"""Protobuf, by Google's library, from a descriptor set, as `protoc --include_imports` writes one.

`Protobuf(descriptor_set, "package.Message")`. Fields have the column types that fit them: enums are their
names, unsigned numbers the next larger type, `google.protobuf.Timestamp` a timestamp, maps are maps. Fields
that were not set are null where Protobuf can tell that, and their default where it cannot.

`RegisteredProtobuf` takes schemas from a registry: a value's head says which schema and which of its messages
it was written with. That must be the message wanted; its bytes are then read as the wanted version of it,
which is how Protobuf means schemas to change: by the numbers of fields. Where a number has another kind of
value there, which Protobuf would pass over in silence, the value is an error.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from headrace.schemas.errors import PayloadError
from headrace.schemas.proto_schemas import descriptor_set, message_class, message_indexes, message_name
from headrace.schemas.registry import RegisteredSchema, Registry
from headrace.schemas.wire_format import head_bytes, indexes_bytes, read_head, read_indexes
from headrace.spark.payloads.columns import Decoder, Encoder, decoded, encoded

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import DataType, StructType

_TIMESTAMP: Final = "google.protobuf.Timestamp"


@dataclass(frozen=True, slots=True)
class Protobuf:
    """See above."""

    descriptor_set: bytes = field(repr=False)
    message: str

    def spark_schema(self) -> "StructType":
        """The payload's fields; PayloadError where the descriptor lacks the message."""
        return _struct_type(message_class(self.descriptor_set, self.message).DESCRIPTOR, ())

    def parse(self, value: "Column") -> "Column":
        return decoded(value, self.spark_schema(), partial(_decoder, self.descriptor_set, self.message))

    def format(self, fields: "Column") -> "Column":
        self.spark_schema()
        return encoded(fields, partial(_encoder, self.descriptor_set, self.message))


@dataclass(frozen=True, slots=True)
class RegisteredProtobuf:
    """See above. `schema` is the one that all are read as, and the one to write."""

    registry: Registry
    schema: RegisteredSchema
    message: str | None = None
    """The schema's first one without it."""

    def spark_schema(self) -> "StructType":
        message = registered_message(self.schema, self.message)
        return _struct_type(message_class(descriptor_set(self.schema), message).DESCRIPTOR, ())

    def parse(self, value: "Column") -> "Column":
        made = partial(registered_decoder, self.registry, self.schema, self.message)
        return decoded(value, self.spark_schema(), made)

    def format(self, fields: "Column") -> "Column":
        self.spark_schema()
        return encoded(fields, partial(registered_encoder, self.schema, self.message))

    def check_columns(self, columns: "StructType") -> None:
        """PayloadError where the query's columns cannot be written with the schema."""
        known = self.spark_schema().names
        more = [each for each in columns.names if each not in known]
        if more:
            raise PayloadError(f"the schema has no field {more[0]!r}; it has {', '.join(known)}")


def registered_message(schema: RegisteredSchema, name: str | None) -> str:
    """The full name of a schema's message, which may be given without its package."""
    files = descriptor_set(schema)
    return message_name(files, (0,) if name is None else message_indexes(files, name))


# Types


def _struct_type(descriptor: Any, seen: tuple[str, ...]) -> "StructType":
    from pyspark.sql.types import StructField, StructType

    if descriptor.full_name in seen:
        raise PayloadError(
            f"the Protobuf message {descriptor.full_name} contains itself, which no column type can"
        )
    inner = (*seen, descriptor.full_name)
    return StructType([StructField(each.name, _field_type(each, inner)) for each in descriptor.fields])


def _field_type(own: Any, seen: tuple[str, ...]) -> "DataType":
    from pyspark.sql.types import ArrayType, MapType

    if _is_map(own):
        key, value = own.message_type.fields_by_name["key"], own.message_type.fields_by_name["value"]
        return MapType(_single_type(key, seen), _single_type(value, seen))
    single = _single_type(own, seen)
    return ArrayType(single) if own.is_repeated else single


def _single_type(own: Any, seen: tuple[str, ...]) -> "DataType":
    from pyspark.sql import types

    if own.message_type is not None:
        if own.message_type.full_name == _TIMESTAMP:
            return types.TimestampType()
        return _struct_type(own.message_type, seen)
    found: dict[int, types.DataType] = {
        own.CPPTYPE_INT32: types.IntegerType(),
        own.CPPTYPE_INT64: types.LongType(),
        own.CPPTYPE_UINT32: types.LongType(),
        own.CPPTYPE_UINT64: types.DecimalType(20, 0),
        own.CPPTYPE_DOUBLE: types.DoubleType(),
        own.CPPTYPE_FLOAT: types.FloatType(),
        own.CPPTYPE_BOOL: types.BooleanType(),
        own.CPPTYPE_ENUM: types.StringType(),
        own.CPPTYPE_STRING: types.BinaryType() if own.type == own.TYPE_BYTES else types.StringType(),
    }
    return found[own.cpp_type]


def _is_map(own: Any) -> bool:
    return own.message_type is not None and own.message_type.GetOptions().map_entry


# Values


def _decoder(files: bytes, name: str) -> Decoder:
    kind = message_class(files, name)

    def decode(value: bytes) -> dict[str, Any]:
        return _row(kind.FromString(value))

    return decode


def _row(message: Any) -> dict[str, Any]:
    return {own.name: _field_value(message, own) for own in message.DESCRIPTOR.fields}


def _field_value(message: Any, own: Any) -> Any:
    value = getattr(message, own.name)
    if _is_map(own):
        inner = own.message_type.fields_by_name["value"]
        return [(key, _single_value(each, inner)) for key, each in value.items()]
    if own.is_repeated:
        return [_single_value(each, own) for each in value]
    if own.has_presence and not message.HasField(own.name):
        return None
    return _single_value(value, own)


def _single_value(value: Any, own: Any) -> Any:
    if own.message_type is not None:
        if own.message_type.full_name == _TIMESTAMP:
            from datetime import UTC

            return value.ToDatetime(tzinfo=UTC)
        return _row(value)
    if own.enum_type is not None:
        known = own.enum_type.values_by_number.get(value)
        return str(value) if known is None else known.name
    return Decimal(value) if own.cpp_type == own.CPPTYPE_UINT64 else value


def registered_decoder(registry: Registry, schema: RegisteredSchema, name: str | None) -> Decoder:
    """Of values with ids; what it knows of an id it keeps for as long as it lives."""
    wanted = registered_message(schema, name)
    kind = message_class(descriptor_set(schema), wanted)
    known: set[tuple[int, tuple[int, ...]]] = set()

    def check(schema_id: int, indexes: tuple[int, ...]) -> None:
        files = descriptor_set(registry.by_id(schema_id))
        written = message_name(files, indexes)
        if written != wanted:
            raise ValueError(f"this is a {written}, not a {wanted}")
        if schema_id != schema.id:
            _check_fields(message_class(files, written).DESCRIPTOR, kind.DESCRIPTOR, schema_id, ())

    def decode(value: bytes) -> dict[str, Any]:
        head = read_head(value)
        indexes, start = read_indexes(value, head.start)
        if (head.schema_id, indexes) not in known:
            check(head.schema_id, indexes)
            known.add((head.schema_id, indexes))
        return _row(kind.FromString(value[start:]))

    return decode


def _check_fields(written: Any, wanted: Any, schema_id: int, seen: tuple[str, ...]) -> None:
    """ValueError where a number is of another kind of value in the two versions of a message."""
    if written.full_name in seen:
        return
    for number, own in wanted.fields_by_number.items():
        other = written.fields_by_number.get(number)
        if other is None:
            continue
        if _wire_kind(own) != _wire_kind(other):
            raise ValueError(
                f"field {number} of {wanted.full_name} has another type in schema {schema_id}: {other.name}"
            )
        if own.message_type is not None:
            _check_fields(other.message_type, own.message_type, schema_id, (*seen, written.full_name))


def _wire_kind(own: Any) -> str:
    """Types with the same one can be read as each other ("Updating A Message Type" of Protobuf's guide)."""
    kinds = {
        "varint": (
            own.TYPE_INT32,
            own.TYPE_INT64,
            own.TYPE_UINT32,
            own.TYPE_UINT64,
            own.TYPE_BOOL,
            own.TYPE_ENUM,
        ),
        "zigzag": (own.TYPE_SINT32, own.TYPE_SINT64),
        "4 bytes": (own.TYPE_FIXED32, own.TYPE_SFIXED32),
        "8 bytes": (own.TYPE_FIXED64, own.TYPE_SFIXED64),
        "text": (own.TYPE_STRING, own.TYPE_BYTES),
    }
    return next((name for name, types in kinds.items() if own.type in types), str(own.type))


def registered_encoder(schema: RegisteredSchema, name: str | None) -> Encoder:
    """Values with the schema's id and the message's path."""
    files, message = descriptor_set(schema), registered_message(schema, name)
    inner = _encoder(files, message)
    head = head_bytes(schema.id) + indexes_bytes(message_indexes(files, message))
    return lambda row: head + inner(row)


def _encoder(files: bytes, name: str) -> Encoder:
    kind = message_class(files, name)

    def encode(row: dict[str, Any]) -> bytes:
        message = kind()
        _fill(message, row)
        return bytes(message.SerializeToString())

    return encode


def _fill(message: Any, row: dict[str, Any]) -> None:
    for name, value in row.items():
        own = message.DESCRIPTOR.fields_by_name.get(name)
        if own is None:
            raise PayloadError(f"the Protobuf message {message.DESCRIPTOR.full_name} has no field {name}")
        if value is None:
            continue
        if _is_map(own):
            _fill_map(getattr(message, name), own.message_type.fields_by_name["value"], dict(value))
        elif own.is_repeated:
            target = getattr(message, name)
            for each in value:
                _set(own, each, target.append, target.add if own.message_type is not None else None)
        elif own.message_type is not None:
            _set(own, value, None, partial(_present, message, name))
        else:
            setattr(message, name, _scalar(own, value))


def _fill_map(target: Any, own: Any, entries: dict[Any, Any]) -> None:
    for key, value in entries.items():
        if own.message_type is None:
            target[key] = _scalar(own, value)
        else:
            _set(own, value, None, partial(target.__getitem__, key))


def _present(message: Any, name: str) -> Any:
    inner = getattr(message, name)
    inner.SetInParent()
    return inner


def _set(own: Any, value: Any, put: Callable[[Any], Any] | None, make: Callable[[], Any] | None) -> None:
    if make is None:
        assert put is not None, "a plain value needs a place"
        put(_scalar(own, value))
    elif own.message_type.full_name == _TIMESTAMP:
        make().FromDatetime(value)
    else:
        _fill(make(), value)


def _scalar(own: Any, value: Any) -> Any:
    if own.enum_type is not None:
        known = own.enum_type.values_by_name.get(value)
        if known is None:
            raise PayloadError(f"the Protobuf enum {own.enum_type.full_name} has no value {value!r}")
        return known.number
    return int(value) if isinstance(value, Decimal) else value
