"""What a setting is: a name with a kind, a default, a check and a sentence, and how its text becomes a value.

Text is read as Kafka reads it: blanks around a value do not count, `true` and `false` in any case, numbers
within their Java width, lists split at commas. A value that does not fit raises SettingError, which names the
setting, shows the value and says what would have been right. Lists become tuples, so that every value can be
shared and compared.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import Final, Protocol, TypeAlias

Value: TypeAlias = bool | int | float | str | tuple[str, ...] | None

LONG_MAX: Final = 2**63 - 1
INT_MAX: Final = 2**31 - 1


class Kind(StrEnum):
    """A value's type; the names are Kafka's."""

    BOOLEAN = "boolean"
    STRING = "string"
    INT = "int"
    SHORT = "short"
    LONG = "long"
    DOUBLE = "double"
    LIST = "list"
    CLASS = "class"
    PASSWORD = "password"


class Update(StrEnum):
    """Whether a running broker takes a new value, and for whom."""

    READ_ONLY = "read-only"
    PER_BROKER = "per-broker"
    CLUSTER_WIDE = "cluster-wide"


class Importance(StrEnum):
    """How soon a person meets the setting."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


class NoDefault(Enum):
    """The mark of a setting that a node cannot start without."""

    NO_DEFAULT = "required"


NO_DEFAULT: Final = NoDefault.NO_DEFAULT


class SettingError(ValueError):
    """A setting's name or value is wrong. `setting` is the name as it was given; the text is for a person."""

    def __init__(self, setting: str, message: str) -> None:
        super().__init__(f"{setting}: {message}")
        self.setting = setting
        self.reason = message


def unknown_setting(name: str, known: Iterable[str], what: str) -> SettingError:
    """An error that names the setting and the nearest one that `what` (topic, broker, group) has."""
    import difflib  # only needed once something is wrong, and not cheap to import

    nearest = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    hint = f"; did you mean {nearest[0]}?" if nearest else ""
    return SettingError(name, f"there is no {what} setting of this name{hint}")


class Check(Protocol):
    """What a parsed value must fulfil beyond its kind. `allowed` completes the phrase "must be …"."""

    @property
    def allowed(self) -> str: ...

    def accepts(self, value: Value) -> bool: ...


@dataclass(frozen=True, slots=True)
class Synonym:
    """A broker setting that stands in for another one; its number times `factor` is the other's."""

    name: str
    factor: int = 1


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting. `effect` says so where headrace takes the setting but nothing depends on it."""

    name: str
    kind: Kind
    default: Value | NoDefault
    doc: str
    importance: Importance = Importance.MEDIUM
    check: Check | None = None
    update: Update = Update.READ_ONLY
    sensitive: bool = False
    synonyms: tuple[Synonym, ...] = ()
    effect: str = ""
    internal: bool = False

    @property
    def default_value(self) -> Value:
        """The default, or None where there is none."""
        return None if isinstance(self.default, NoDefault) else self.default


_WIDTHS: Final = {Kind.SHORT: 15, Kind.INT: 31, Kind.LONG: 63}
_WHOLE_NUMBER: Final = re.compile(r"[+-]?[0-9]+")
_DECIMAL: Final = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_EXPECTED: Final = {
    Kind.BOOLEAN: "true or false",
    Kind.SHORT: "a whole number from -32768 to 32767",
    Kind.INT: "a whole number from -2147483648 to 2147483647",
    Kind.LONG: "a whole number of 64 bits",
    Kind.DOUBLE: "a number",
}


def parse(setting: Setting, text: str) -> Value:
    """The value that `text` stands for, checked; SettingError where it does not fit."""
    try:
        value = _read(setting.kind, text.strip())
    except ValueError:
        raise SettingError(setting.name, f"{text!r} is not {_EXPECTED[setting.kind]}") from None
    if setting.check is not None and not setting.check.accepts(value):
        raise SettingError(
            setting.name, f"{_shown(setting, text)} is not allowed: it must be {setting.check.allowed}"
        )
    return value


def _read(kind: Kind, text: str) -> Value:
    if kind is Kind.BOOLEAN:
        lowered = text.lower()
        if lowered not in ("true", "false"):
            raise ValueError(text)
        return lowered == "true"
    if kind in _WIDTHS:
        if not _WHOLE_NUMBER.fullmatch(text):
            raise ValueError(text)
        number = int(text)
        if not -(1 << _WIDTHS[kind]) <= number < 1 << _WIDTHS[kind]:
            raise ValueError(text)
        return number
    if kind is Kind.DOUBLE:
        if not _DECIMAL.fullmatch(text):
            raise ValueError(text)
        return float(text)
    if kind is Kind.LIST:
        # A repeated item counts once.
        return tuple(dict.fromkeys(item.strip() for item in text.split(","))) if text else ()
    return text


def _shown(setting: Setting, text: str) -> str:
    return "the value given" if setting.sensitive or setting.kind is Kind.PASSWORD else repr(text)


def render(value: Value) -> str | None:
    """A value as Kafka writes it in DescribeConfigs; None stays None."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ",".join(value)
    if isinstance(value, float):
        return _render_double(value)
    return str(value)


def _render_double(value: float) -> str:
    if not value or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    # Here Java writes 1.0E10 where Python writes 1e+10: the fewest digits that read back the same.
    shortest = next(text for digits in range(1, 18) if float(text := f"{value:.{digits}e}") == value)
    mantissa, exponent = shortest.split("e")
    return f"{mantissa}E{int(exponent)}"
