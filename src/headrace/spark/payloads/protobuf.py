"""Protobuf, by Google's library, from a descriptor set, as `protoc --include_imports` writes one.

`Protobuf(descriptor_set, "package.Message")`. Fields have the column types that fit them: enums are their
names, unsigned numbers the next larger type, `google.protobuf.Timestamp` a timestamp, maps are maps. Fields
that were not set are null where Protobuf can tell that, and their default where it cannot.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Final

from headrace.spark.payloads.columns import Decoder, Encoder, decoded, encoded
from headrace.spark.payloads.errors import PayloadError

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
        return _struct_type(_message_class(self.descriptor_set, self.message).DESCRIPTOR, ())

    def parse(self, value: "Column") -> "Column":
        return decoded(value, self.spark_schema(), partial(_decoder, self.descriptor_set, self.message))

    def format(self, fields: "Column") -> "Column":
        self.spark_schema()
        return encoded(fields, partial(_encoder, self.descriptor_set, self.message))


@lru_cache(maxsize=64)
def _message_class(descriptor_set: bytes, name: str) -> Any:
    from google.protobuf import descriptor_pb2, descriptor_pool, message, message_factory, timestamp_pb2

    try:
        files = descriptor_pb2.FileDescriptorSet.FromString(descriptor_set)
        pool = descriptor_pool.DescriptorPool()
        named = {each.name for each in files.file}
        if timestamp_pb2.DESCRIPTOR.name not in named:
            pool.AddSerializedFile(timestamp_pb2.DESCRIPTOR.serialized_pb)
        for each in files.file:
            pool.Add(each)
        return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))
    except KeyError:
        there = sorted(
            f"{each.package}.{own.name}".lstrip(".") for each in files.file for own in each.message_type
        )
        raise PayloadError(f"the descriptor has no message {name}; it has {', '.join(there)}") from None
    except (message.DecodeError, TypeError) as error:
        raise PayloadError(
            f"this is not a complete descriptor set: {error}; protoc writes one with --include_imports "
            "--descriptor_set_out FILE"
        ) from error


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


def _decoder(descriptor_set: bytes, name: str) -> Decoder:
    message_class = _message_class(descriptor_set, name)

    def decode(value: bytes) -> dict[str, Any]:
        return _row(message_class.FromString(value))

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


def _encoder(descriptor_set: bytes, name: str) -> Encoder:
    message_class = _message_class(descriptor_set, name)

    def encode(row: dict[str, Any]) -> bytes:
        message = message_class()
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
