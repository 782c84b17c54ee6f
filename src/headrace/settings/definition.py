"""What a setting is: a name with a kind, a default, a check and a sentence, and how its text becomes a value.

Text is read as Kafka reads it: blanks around a value do not count, `true` and `false` in any case, numbers
within their Java width, lists split at commas. A value that does not fit raises SettingError, which names the
setting, shows the value and says what would have been right. Lists become tuples, so that every value can be
shared and compared.
"""

import builtins
import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum, IntEnum, StrEnum
from typing import Final, Protocol, TypeAlias

Value: TypeAlias = bool | int | float | str | tuple[str, ...] | None

LONG_MAX: Final = 2**63 - 1
INT_MAX: Final = 2**31 - 1


class ConfigSource(IntEnum):
    """Where a setting's value comes from, by the numbers of DescribeConfigs; a smaller number among the
    broker's goes before a larger one.
    """

    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT = 3
    STATIC = 4
    DEFAULT = 5
    BROKER_LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8


class ConfigType(StrEnum):
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
    """A setting's name or value is wrong. `setting` is the name as it was given; the text is for a person.

    `for_clients` is what a client is told that asked for it: Kafka's words, which tools and scripts know.
    """

    def __init__(self, setting: str, message: str, for_clients: str = "") -> None:
        super().__init__(f"{setting}: {message}")
        self.setting = setting
        self.reason = message
        self.for_clients = for_clients or str(self)


def unknown_setting(name: str, known: Iterable[str], what: str) -> SettingError:
    """An error that names the setting and the nearest one that `what` (topic, broker, group) has."""
    import difflib  # only needed once something is wrong, and not cheap to import

    nearest = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    hint = f"; did you mean {nearest[0]}?" if nearest else ""
    reason = f"there is no {what} setting of this name{hint}"
    kafka = "configuration" if what == "client metrics" else "config name"
    return SettingError(name, reason, f"Unknown {what} {kafka}: {name}")


class Check(Protocol):
    """What a parsed value must fulfil beyond its kind. `allowed` completes the phrase "must be …"."""

    @property
    def allowed(self) -> str: ...

    def accepts(self, value: Value) -> bool: ...

    def fault(self, value: Value) -> str:
        """Kafka's words for a value that is not accepted; empty where it has none."""


@dataclass(frozen=True, slots=True)
class Synonym:
    """A broker setting that stands in for another one; its number times `factor` is the other's."""

    name: str
    factor: int = 1


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting. `effect` says so where headrace takes the setting but nothing depends on it."""

    name: str
    kind: ConfigType
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


_WIDTHS: Final = {ConfigType.SHORT: 15, ConfigType.INT: 31, ConfigType.LONG: 63}
_WHOLE_NUMBER: Final = re.compile(r"[+-]?[0-9]+")
_DECIMAL: Final = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_EXPECTED: Final = {
    ConfigType.BOOLEAN: "true or false",
    ConfigType.SHORT: "a whole number from -32768 to 32767",
    ConfigType.INT: "a whole number from -2147483648 to 2147483647",
    ConfigType.LONG: "a whole number of 64 bits",
    ConfigType.DOUBLE: "a number",
}


def parse(setting: Setting, text: str) -> Value:
    """The value that `text` stands for, checked; SettingError where it does not fit."""
    try:
        value = _read(setting.kind, text.strip())
    except ValueError:
        raise SettingError(
            setting.name,
            f"{text!r} is not {_EXPECTED[setting.kind]}",
            _invalid_value(setting, text.strip(), _kafka_expects(setting.kind)),
        ) from None
    if setting.check is not None and not setting.check.accepts(value):
        fault = setting.check.fault(value)
        raise SettingError(
            setting.name,
            f"{_shown(setting, text)} is not allowed: it must be {setting.check.allowed}",
            _invalid_value(setting, text.strip(), fault) if fault else "",
        )
    return value


def _read(kind: ConfigType, text: str) -> Value:
    if kind is ConfigType.BOOLEAN:
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
    if kind is ConfigType.DOUBLE:
        if not _DECIMAL.fullmatch(text):
            raise ValueError(text)
        return float(text)
    if kind is ConfigType.LIST:
        # A repeated item counts once.
        return tuple(dict.fromkeys(item.strip() for item in text.split(","))) if text else ()
    return text


def _kafka_expects(kind: ConfigType) -> str:
    if kind is ConfigType.BOOLEAN:
        return "Expected value to be either true or false"
    return f"Not a number of type {kind.name}"


def _invalid_value(setting: Setting, text: str, fault: str) -> str:
    shown = "[hidden]" if setting.sensitive or setting.kind is ConfigType.PASSWORD else text
    return f"Invalid value {shown} for configuration {setting.name}: {fault}"


def _shown(setting: Setting, text: str) -> str:
    return "the value given" if setting.sensitive or setting.kind is ConfigType.PASSWORD else repr(text)


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


class TypedValues:
    """Parsed values by name, read as the type that the reader expects: `config.int("num.partitions")`. A
    class of its
    own because the getters hide the types' names from the rest of its body. Asking for a name that does not
    exist, or as another type, is our own mistake.
    """

    _values: dict[builtins.str, Value]

    def get(self, name: builtins.str) -> Value:
        """The value that holds now, or None where there is none."""
        return self._values.get(name)

    def bool(self, name: builtins.str) -> builtins.bool:
        value = self._values[name]
        assert isinstance(value, builtins.bool), f"{name} is not a boolean"
        return value

    def int(self, name: builtins.str) -> builtins.int:
        value = self._values[name]
        assert isinstance(value, builtins.int), f"{name} is not a whole number"
        return value

    def float(self, name: builtins.str) -> builtins.float:
        value = self._values[name]
        assert isinstance(value, builtins.float), f"{name} is not a decimal number"
        return value

    def str(self, name: builtins.str) -> builtins.str:
        """A text; empty where there is none."""
        value = self._values[name]
        assert value is None or isinstance(value, builtins.str), f"{name} is not a text"
        return value or ""

    def list(self, name: builtins.str) -> tuple[builtins.str, ...]:
        """A list's items; none where it is not set."""
        value = self._values[name]
        assert value is None or isinstance(value, tuple), f"{name} is not a list"
        return value or ()
