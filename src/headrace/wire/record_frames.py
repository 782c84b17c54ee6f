"""How records that carry messages say which message they are.

Records of the metadata log and of the remote log topic are framed: frame version, api key and version as
unsigned varints, then the message. A coordinator's records split that in two: the key starts with the
number of its kind as int16, the value with its own version. What consumers exchange through a classic group
starts with a version too.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any, Final, NamedTuple, TypeVar

from headrace.base.chunks import Buffer
from headrace.base.errors import InvalidBytesError
from headrace.wire.codec import encode, reader
from headrace.wire.notation import Schema, schema_of
from headrace.wire.primitives import read_uvarint, uvarint

T = TypeVar("T")

FRAME_VERSION: Final = 1

_FRAMES: Final[dict[tuple[type, int], bytes]] = {}
"""What stands in front of every record of a kind and version."""

METADATA: Final = ("metadata_records",)
REMOTE_LOG: Final = ("remote_log_records",)
GROUP: Final = ("group_records", "consumer_group_records", "share_group_records", "streams_group_records")
TRANSACTION: Final = ("transaction_records",)
SHARE: Final = ("share_state_records",)
"""The families of records: each numbers its kinds for itself, in the schema files named here."""


class UnknownRecordError(InvalidBytesError):
    """A record of a kind we don't know, such as a newer node may have written."""


def encode_metadata_record(message: object, version: int | None = None) -> bytes:
    """A framed record's value, in the highest version unless told otherwise."""
    cls = type(message)
    if version is None:
        version = schema_of(cls).versions[-1]
    frame = _FRAMES.get((cls, version))
    if frame is None:
        api_key = schema_of(cls).api_key
        assert api_key is not None, f"{cls.__name__} is no record"
        frame = uvarint(FRAME_VERSION) + uvarint(api_key) + uvarint(version)
        _FRAMES[cls, version] = frame
    return frame + encode(message, version)


def decode_metadata_record(value: Buffer, family: tuple[str, ...] = METADATA) -> Any:
    """The message in a framed record's value; InvalidBytesError where bytes are left over."""
    view = memoryview(value)
    try:
        frame_version, at = read_uvarint(view, 0)
        api_key, at = read_uvarint(view, at)
        version, at = read_uvarint(view, at)
    except IndexError as error:
        raise InvalidBytesError(f"a record of {len(view)} bytes is too short for its frame") from error
    if frame_version != FRAME_VERSION:
        raise UnknownRecordError(f"frame version {frame_version}: only {FRAME_VERSION} is known")
    cls = _classes(family, "").get(api_key)
    if cls is None:
        raise UnknownRecordError(f"there is no record kind {api_key} in {family[0]}")
    message, end = reader(cls, version)(view, at)
    if end != len(view):
        raise InvalidBytesError(f"{len(view) - end} bytes too many behind a {cls.__name__}")
    return message


def encode_key(message: object) -> bytes:
    """A coordinator record's key: the number of its kind, then the key in its only version."""
    schema = schema_of(type(message))
    assert schema.api_key is not None, f"{type(message).__name__} is no key"
    return schema.api_key.to_bytes(2, "big") + encode(message, 0)


def decode_key(key: Buffer, family: tuple[str, ...] = GROUP) -> Any:
    """The message in a coordinator record's key; UnknownRecordError for a kind we don't know."""
    kind = _int16(key)
    cls = _classes(family, "Key").get(kind)
    if cls is None:
        raise UnknownRecordError(f"there is no record kind {kind} in {family[0]}")
    return reader(cls, 0)(key, 2)[0]


def encode_value(message: object, version: int | None = None) -> bytes:
    """A coordinator record's value: its version, the highest unless told otherwise, then the value."""
    versions = schema_of(type(message)).versions
    return encode_versioned(message, versions[-1] if version is None else version)


def decode_value(key: object, value: Buffer | None, family: tuple[str, ...] = GROUP) -> Any:
    """The message in the value that belongs to a decoded key; None for a tombstone."""
    if value is None:
        return None
    api_key = schema_of(type(key)).api_key
    assert api_key is not None, f"{type(key).__name__} is no key"
    return decode_versioned(_classes(family, "Value")[api_key], value)


def encode_versioned(message: object, version: int) -> bytes:
    """A message behind its version as int16."""
    return version.to_bytes(2, "big") + encode(message, version)


def decode_versioned(cls: type[T], value: Buffer, *, take_newer: bool = False) -> T:
    """A message behind its version. With `take_newer`, one of a newer version is read as the newest we know.

    That is for the consumer protocol, whose later versions only add fields at the end.
    """
    version = _int16(value)
    if take_newer:
        version = min(version, schema_of(cls).versions[-1])
    return reader(cls, version)(value, 2)[0]


def _int16(value: Buffer) -> int:
    if len(value) < 2:
        raise InvalidBytesError(f"{len(value)} bytes are too few for the version in front")
    return int.from_bytes(value[:2], "big", signed=True)


@cache
def _classes(family: tuple[str, ...], suffix: str) -> dict[int, type[Any]]:
    """The messages of a family by their number: its keys, its values, or all where it has no such halves."""
    found: dict[int, type[Any]] = {}
    for stem in family:
        for name, cls in vars(import_module(f"headrace.wire.schemas.{stem}")).items():
            schema = getattr(cls, "__schema__", None)
            if isinstance(schema, Schema) and schema.api_key is not None and name.endswith(suffix):
                assert schema.api_key not in found, f"{name} has a number that is taken"
                found[schema.api_key] = cls
    return found


class ApiMessageAndVersion(NamedTuple):
    """A metadata record, and the version that the cluster has agreed to write it in."""

    record: Any
    version: int
