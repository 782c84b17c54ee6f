"""Values by name, read as the type that the reader expects.

The getters are called like the types they return: `config.int("num.partitions")`. They live in a class of
their own because they hide those names from the rest of its body.
"""

import builtins

from headrace.settings.definition import Value


class TypedValues:
    """Parsed values. Asking for a name that does not exist, or as another type, is our own mistake."""

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
