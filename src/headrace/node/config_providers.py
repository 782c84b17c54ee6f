"""Values that a node's settings take from elsewhere (KIP-297): `${file:/etc/secrets.properties:password}`.

    config.providers=file,env
    config.providers.file.class=org.apache.kafka.common.config.provider.FileConfigProvider
    config.providers.file.param.allowed.paths=/etc/kafka

Kafka's three providers are known by the names of their classes: a key of a properties file, a file of a
folder (`${dir:/run/secrets:password}`), a variable of the environment (`${env:NAME}`). They only serve the
settings that a node is started with: what comes over the wire is never looked up, so that nobody reads files
by asking. Where Kafka leaves a reference that leads nowhere as it is, and has `${…}` for a password, this is
an error that names the setting. A value that was looked up is in no message.
"""

import os
import re
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from headrace.node.properties_file import open_properties
from headrace.settings.definition import SettingError

PROVIDERS: Final = "config.providers"
_REFERENCE: Final = re.compile(r"\$\{([^}:]*):(?:([^}]*?):)?([^}]*?)\}")
_PACKAGE: Final = "org.apache.kafka.common.config.provider."


class Found(NamedTuple):
    """A value, and the file that has it; no file where it is from elsewhere."""

    value: str
    file: str | None = None

    def __repr__(self) -> str:
        return f"Found(in {self.file!r})"


Provider = Callable[[str, str], Found]
"""The value for a path and a key; LookupError says why there is none."""


class LookedUp(NamedTuple):
    """Settings with their references replaced, and the files by the names of those that had one."""

    values: dict[str, str]
    files: dict[str, tuple[str, ...]]

    @property
    def names(self) -> frozenset[str]:
        """Settings whose values came from elsewhere."""
        return frozenset(self.files)

    def __repr__(self) -> str:
        return f"LookedUp(files={self.files!r})"


def look_up(properties: Mapping[str, str]) -> LookedUp:
    """SettingError where a reference leads nowhere."""
    providers = _providers(properties)
    if not providers:
        return LookedUp(dict(properties), {})
    values: dict[str, str] = {}
    files: dict[str, tuple[str, ...]] = {}
    for name, text in properties.items():
        read: list[str] = []
        values[name] = text if name.startswith(PROVIDERS) else _replaced(providers, name, text, read)
        if values[name] != text:
            files[name] = tuple(read)
    return LookedUp(values, files)


def _replaced(providers: Mapping[str, Provider], name: str, text: str, read: list[str]) -> str:
    """The text without references; the files that have what they stand for come to those `read`."""

    def value(reference: re.Match[str]) -> str:
        provider = providers.get(reference[1])
        if provider is None:
            return reference[0]  # as in Kafka: ${…} may mean something to somebody else
        try:
            found = provider(reference[2] or "", reference[3])
        except LookupError as error:
            raise SettingError(name, f"{reference[0]} cannot be looked up: {error.args[0]}") from None
        if found.file is not None:
            read.append(found.file)
        return found.value

    return _REFERENCE.sub(value, text)


def _providers(properties: Mapping[str, str]) -> dict[str, Provider]:
    names = [each.strip() for each in properties.get(PROVIDERS, "").split(",") if each.strip()]
    return {name: _provider(properties, f"{PROVIDERS}.{name}") for name in names}


def _provider(properties: Mapping[str, str], prefix: str) -> Provider:
    setting = f"{prefix}.class"
    chosen = properties.get(setting, "")
    make = _CLASSES.get(chosen.removeprefix(_PACKAGE))
    if make is None:
        known = ", ".join(f"{_PACKAGE}{each}" for each in _CLASSES)
        raise SettingError(setting, f"there is no provider {chosen!r}: known are {known}")
    return make(properties, f"{prefix}.param")


def _file_provider(properties: Mapping[str, str], prefix: str) -> Provider:
    allowed = _AllowedPaths(properties, prefix)

    def get(path: str, key: str) -> Found:
        allowed.check(path)
        try:
            entries = open_properties(path).entries
        except (OSError, UnicodeDecodeError) as error:
            raise LookupError(f"the file cannot be read: {_reason(error)}") from None
        if key not in entries:
            raise LookupError("the file does not have this key")
        return Found(entries[key].value, path)

    return get


def _directory_provider(properties: Mapping[str, str], prefix: str) -> Provider:
    allowed = _AllowedPaths(properties, prefix)

    def get(path: str, key: str) -> Found:
        if os.path.basename(key) != key or key in ("", ".", ".."):
            raise LookupError("the key must be the name of a file in the folder")
        allowed.check(path)
        try:
            file = os.path.join(path, key)
            with open(file, encoding="utf-8") as opened:
                return Found(opened.read(), file)
        except (OSError, UnicodeDecodeError) as error:
            raise LookupError(f"the file cannot be read: {_reason(error)}") from None

    return get


def _environment_provider(properties: Mapping[str, str], prefix: str) -> Provider:
    setting = f"{prefix}.allowlist.pattern"
    try:
        allowed = re.compile(properties.get(setting) or ".*")
    except re.error as error:
        raise SettingError(setting, f"it is no regular expression: {error}") from None

    def get(path: str, key: str) -> Found:
        if path:
            raise LookupError("variables of the environment have no path: write ${NAME_OF_PROVIDER:VARIABLE}")
        if not allowed.fullmatch(key):
            raise LookupError(f"{setting} does not allow this variable")
        if key not in os.environ:
            raise LookupError("the variable is not set")
        return Found(os.environ[key])

    return get


class _AllowedPaths:
    """What a provider may read: everything, where nothing is said."""

    def __init__(self, properties: Mapping[str, str], prefix: str) -> None:
        self._setting = f"{prefix}.allowed.paths"
        listed = [each.strip() for each in properties.get(self._setting, "").split(",") if each.strip()]
        for path in listed:
            if not os.path.isabs(path) or not os.path.exists(path):
                raise SettingError(self._setting, f"{path} is not an absolute path of what is there")
        self._roots = [os.path.realpath(path) for path in listed]

    def check(self, path: str) -> None:
        """LookupError unless the path is one of those allowed, or below one."""
        if not path:
            raise LookupError("no path is given")
        real = os.path.realpath(path)
        if self._roots and not any(os.path.commonpath([root, real]) == root for root in self._roots):
            raise LookupError(f"{self._setting} does not allow this path")


def _reason(error: OSError | UnicodeDecodeError) -> str:
    return error.strerror or "" if isinstance(error, OSError) else "it is no UTF-8 text"


_CLASSES: Final[Mapping[str, Callable[[Mapping[str, str], str], Provider]]] = {
    "FileConfigProvider": _file_provider,
    "DirectoryConfigProvider": _directory_provider,
    "EnvVarConfigProvider": _environment_provider,
}
