"""Every message there is, and random values of them: what the tests of this room run over."""

import importlib
import pkgutil
import random
import string
from typing import Any

import headrace.wire.schemas
from headrace.wire.notation import Schema
from headrace.wire.plan import FieldPlan, StructPlan, plan_message

# Messages that only travel as JSON or are described for completeness still have a binary form in Kafka.
STEMS = sorted(module.name for module in pkgutil.iter_modules(headrace.wire.schemas.__path__))


def messages_of(stem: str) -> list[type[Any]]:
    module = importlib.import_module(f"headrace.wire.schemas.{stem}")
    return [
        value
        for value in vars(module).values()
        if isinstance(value, type) and isinstance(getattr(value, "__schema__", None), Schema)
    ]


MESSAGES: list[type[Any]] = [cls for stem in STEMS for cls in messages_of(stem)]
MESSAGES_BY_NAME = {cls.__name__: cls for cls in MESSAGES}


def versions_of(cls: type[Any]) -> range:
    versions: range = cls.__schema__.versions
    return versions


class Randomizer:
    """Random messages of any version. Tame ones hold only what kio can say: its error codes are an enum, its
    times are datetimes."""

    def __init__(self, seed: object, *, tame: bool = False, largest: int = 3) -> None:
        self._random = random.Random(f"{seed}")
        self._tame = tame
        self._largest = largest

    def message(self, cls: type[Any], version: int) -> Any:
        return self.struct(plan_message(cls, version))

    def struct(self, plan: StructPlan) -> Any:
        value = plan.cls()
        for field in plan.fields:
            setattr(value, field.spec.name, self._field(field))
        for field in plan.tagged:
            if self._random.random() < 0.6:
                setattr(value, field.spec.name, self._tagged(field))
        return value

    def _tagged(self, field: FieldPlan) -> Any:
        value = self._field(field)
        if field.spec.omitted_is_none and value == type(value)():
            return None  # nothing but defaults is left out
        return value

    def _field(self, field: FieldPlan) -> Any:
        if field.is_nullable and self._random.random() < 0.3:
            return None
        if field.spec.is_array:
            size = self._random.choice((0, 1, 1, self._largest))
            if field.struct is None and self._random.random() < 0.02:
                size = 200  # more than fits the one-byte form of a compact count
            return [self._value(field) for _ in range(size)]
        return self._value(field)

    def _value(self, field: FieldPlan) -> Any:
        if field.struct is not None:
            return self.struct(field.struct)
        kind = field.spec.wire.name
        if kind == "string":
            return self._text()
        if kind in ("bytes", "records"):
            return self._bytes()
        if kind == "uuid":
            return self._random.choice((bytes(16), self._random.randbytes(16)))
        if kind == "bool":
            return self._random.random() < 0.5
        if kind == "float64":
            return self._random.choice((0.0, -1.5, 1e300, self._random.random()))
        return self._integer(field.spec.name, kind)

    def _text(self) -> str:
        size = self._random.choice((0, 1, 5, 20, 126, 127, 128, 300))
        letters = self._random.choice((string.ascii_letters, "aé漢😀\0"))
        return "".join(self._random.choices(letters, k=size))

    def _bytes(self) -> bytes:
        return self._random.randbytes(self._random.choice((0, 1, 60, 127, 128, 1500)))

    def _integer(self, name: str, kind: str) -> int:
        bits = int(kind.removeprefix("u").removeprefix("int"))
        if self._tame and kind == "int16" and name.endswith("error_code"):
            return self._random.choice((-1, 0, 1, 3, 35, 74, 100))
        if self._tame and kind == "int64":
            return self._random.choice((0, 1, 1_600_000_000_000, self._random.randrange(1 << 40)))
        low, high = (0, (1 << bits) - 1) if kind.startswith("u") else (-(1 << bits - 1), (1 << bits - 1) - 1)
        return self._random.choice((low, high, 0, 1, max(low, -1), self._random.randint(low, high)))
