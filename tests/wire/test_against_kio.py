"""Second opinion: kio, an independent implementation of the same schemas, reads and writes the same bytes.

Ours to theirs: a random message of ours, written by us, is read by kio, which writes the same bytes again;
its object holds the same values under the same names. Theirs to ours: a random entity of kio, built from
kio's own types and written by kio, is read by us and written back to the same bytes.
"""

import dataclasses
import datetime
import io
import random
import types
import typing
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from kio.index import load_entity_module
from kio.schema.errors import ErrorCode
from kio.schema.index import schema_name_map
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType

from headrace.wire.codec import decode, encode
from headrace.wire.plan import fields_of

from .messages import MESSAGES_BY_NAME, Randomizer, versions_of

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
MILLISECOND = datetime.timedelta(milliseconds=1)


def kio_entities() -> Iterator[tuple[str, int, type[Any]]]:
    for name, versions in schema_name_map.items():
        for version, kinds in versions.items():
            for kind in kinds:
                module = load_entity_module(name, version, kind)
                yield from (
                    (value.__name__, version, value)
                    for value in vars(module).values()
                    if getattr(value, "__type__", EntityType.nested) is kind
                    and value.__module__ == module.__name__
                )


KIO: dict[str, dict[int, type[Any]]] = {}
for _name, _version, _entity in kio_entities():
    KIO.setdefault(_name, {})[_version] = _entity

SHARED = sorted(set(KIO) & set(MESSAGES_BY_NAME))


# With a version of Kafka 4.4, which kio does not have.
NEWER = {
    f"{kind}{suffix}"
    for kind in ("ApiVersions", "DeleteGroups", "TxnOffsetCommit")
    for suffix in ("Request", "Response")
}


def write_kio(entity: Any) -> bytes:
    out = io.BytesIO()
    entity_writer(type(entity))(out, entity)
    return out.getvalue()


def test_kio_has_every_request_and_response_of_ours() -> None:
    ours = {name for name in MESSAGES_BY_NAME if name.endswith(("Request", "Response"))}
    assert ours <= set(KIO)
    for name in SHARED:
        assert versions_of(MESSAGES_BY_NAME[name])[: len(KIO[name])] == range(
            min(KIO[name]), max(KIO[name]) + 1
        ), name
        assert len(versions_of(MESSAGES_BY_NAME[name])) - len(KIO[name]) == (name in NEWER), name


@pytest.mark.parametrize("name", SHARED)
def test_our_bytes_are_read_by_kio(name: str) -> None:
    cls = MESSAGES_BY_NAME[name]
    for version, entity in KIO[name].items():
        randomizer = Randomizer(f"kio {name} {version}", tame=True)
        for _ in range(3):
            message = randomizer.message(cls, version)
            data = encode(message, version)
            theirs, end = entity_reader(entity)(data, 0)
            assert end == len(data)
            assert write_kio(theirs) == data
            assert_same(message, theirs, f"{name} v{version}")


@pytest.mark.parametrize("name", SHARED)
def test_kio_bytes_are_read_by_us(name: str) -> None:
    cls = MESSAGES_BY_NAME[name]
    for version, entity in KIO[name].items():
        chance = random.Random(f"{name} {version}")
        for _ in range(3):
            theirs = random_entity(entity, chance)
            data = write_kio(theirs)
            message = decode(cls, version, data)
            assert encode(message, version) == data
            assert_same(message, theirs, f"{name} v{version}")


def assert_same(ours: Any, theirs: Any, path: str) -> None:
    """Equal values under equal names. kio drops units from the names of its times."""
    specs = {spec.name: spec for spec in fields_of(type(ours))}
    for field in dataclasses.fields(theirs):
        stem = field.name.rstrip("_").replace("k_raft", "kraft").replace("enable2_pc", "enable_2pc")
        found = [name for name in (stem, f"{stem}_ms", f"{stem}_timestamp_ms") if name in specs]
        assert found, f"{path}: kio's {field.name} is not in {sorted(specs)}"
        value = getattr(ours, found[0])
        struct = specs[found[0]].struct
        if value is None and specs[found[0]].omitted_is_none and struct is not None:
            value = struct()  # left out, which kio shows as a struct of defaults
        assert_equal(value, getattr(theirs, field.name), f"{path}.{field.name}")


def assert_equal(ours: Any, theirs: Any, path: str) -> None:
    if isinstance(theirs, tuple):
        assert len(ours) == len(theirs), path
        for index, (our_element, their_element) in enumerate(zip(ours, theirs, strict=True)):
            assert_equal(our_element, their_element, f"{path}[{index}]")
    elif dataclasses.is_dataclass(theirs):
        assert_same(ours, theirs, path)
    elif theirs is None:
        assert ours in (None, bytes(16), -1), path  # kio has no zero uuid, and no time of -1
    else:
        assert plain(theirs) == ours, path


def plain(value: Any) -> Any:
    """kio's richer types as what travels."""
    match value:
        case ErrorCode():
            return value.value
        case uuid.UUID():
            return value.bytes
        case datetime.datetime():
            return (value - EPOCH) // MILLISECOND
        case datetime.timedelta():
            return value // MILLISECOND
    return value


def random_entity(entity: type[Any], chance: random.Random) -> Any:
    values = {}
    for field in dataclasses.fields(entity):
        if field.default is not dataclasses.MISSING and chance.random() < 0.3:
            continue
        values[field.name] = random_value(field.type, field.metadata.get("kafka_type"), chance)
    return entity(**values)


def random_value(hint: Any, kind: str | None, chance: random.Random) -> Any:
    if typing.get_origin(hint) in (types.UnionType, typing.Union):
        if chance.random() < 0.3:
            return None
        (hint,) = (argument for argument in typing.get_args(hint) if argument is not types.NoneType)
    if typing.get_origin(hint) is tuple:
        element = typing.get_args(hint)[0]
        return tuple(random_value(element, kind, chance) for _ in range(chance.choice((0, 1, 2))))
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        return random_entity(hint, chance)
    if kind == "string":
        return "".join(chance.choices("ab é漢", k=chance.choice((0, 3, 126, 127, 200))))
    if kind in ("bytes", "records"):
        return chance.randbytes(chance.choice((0, 5, 127, 1000)))
    return random_number(kind, chance)


def random_number(kind: str | None, chance: random.Random) -> Any:
    match kind:
        case "bool":
            return chance.random() < 0.5
        case "float64":
            return chance.random()
        case "uuid":
            return uuid.UUID(bytes=chance.randbytes(16))
        case "error_code":
            return chance.choice(list(ErrorCode))
        case "timedelta_i32" | "timedelta_i64":
            return chance.randint(-(2**31), 2**31 - 1) * MILLISECOND
        case "datetime_i64":
            return EPOCH + chance.randrange(1 << 40) * MILLISECOND
    assert kind is not None
    bits = int(kind.removeprefix("u").removeprefix("int"))
    low, high = (0, (1 << bits) - 1) if kind.startswith("u") else (-(1 << bits - 1), (1 << bits - 1) - 1)
    return chance.choice((low, high, 0, chance.randint(low, high)))
