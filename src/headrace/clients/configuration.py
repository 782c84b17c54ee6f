"""A client's settings: Kafka's names, read from a mapping or from keyword arguments.

    ClientConfig(PRODUCER, {"bootstrap.servers": "h:9092", "acks": "all"})
    ClientConfig(PRODUCER, {}, bootstrap_servers=["h:9092"], linger_ms=20)

Values may be texts, as in a file, or Python's own. A name that does not exist is an error that tells of the
nearest one which does.
"""

from collections.abc import Mapping
from typing import Any

from headrace.settings.definition import NO_DEFAULT, Setting, SettingError, parse, unknown_setting
from headrace.settings.typed_values import TypedValues


class ClientConfig(TypedValues):
    """Checked values of one kind of client."""

    def __init__(
        self, table: Mapping[str, Setting], settings: Mapping[str, Any] | None = None, **more: Any
    ) -> None:
        self.given = {**(settings or {}), **{name.replace("_", "."): value for name, value in more.items()}}
        self._values = {name: setting.default_value for name, setting in table.items()}
        for name, value in self.given.items():
            if name not in table:
                raise unknown_setting(name, table, "client")
            if value is not None:
                self._values[name] = parse(table[name], _text(value))
        for name, setting in table.items():
            if setting.default is NO_DEFAULT and self._values[name] is None:
                raise SettingError(name, "it must be given")

    def was_given(self, name: str) -> bool:
        """Whether the user said it, as opposed to its default."""
        return self.given.get(name) is not None

    def replace(self, name: str, value: bool | int | str) -> None:
        """A default that follows from other settings."""
        assert name in self._values
        self._values[name] = value


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple | set | frozenset):
        return ",".join(map(str, value))
    return str(value)
