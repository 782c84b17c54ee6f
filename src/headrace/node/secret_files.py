"""Where passwords and private keys lie on a machine: files that others can read are told, dumps are not made.

Files with secrets are a node's or a command's settings, what its config providers read, and key stores. Each
is said once: when it is first used, and by `headrace doctor`.

Who reads a file by its group, because somebody else owns it, is meant to: root's settings in /etc are given
to the node's group. So the group counts only where the file is this process's own; anybody always does.
"""

import contextlib
import os
import re
import resource
import stat
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from headrace.security.jaas import KEYTAB_OPTION, JaasError, parse_jaas
from headrace.settings.broker_config import BrokerConfig, broker_setting
from headrace.settings.definition import ConfigType
from headrace.settings.names import listener_setting

JAAS: Final = "sasl.jaas.config"
KEYSTORE: Final = "ssl.keystore.location"

_SECRET: Final = re.compile(r"password|secret|sas.?token|(account|access|private).?key$", re.IGNORECASE)
"""What settings of plugins are called that nobody else may know."""
_KEYTAB: Final = ".keytab"
"""The end of a plugin's setting that names a file of Kerberos keys."""


class ExposedFile(NamedTuple):
    """A file that others can read, and the command that ends that."""

    path: str
    mode: int
    advice: str

    @property
    def what(self) -> str:
        return f"has secrets, and can be read by others than its owner (mode {self.mode:04o})"

    def __str__(self) -> str:
        return f"{self.path} {self.what}: {self.advice}"


class ExposedFiles:
    """Those among files that are used, each of them once."""

    def __init__(self) -> None:
        self._seen: set[str] = set()

    def among(self, paths: Iterable[str]) -> Iterator[ExposedFile]:
        for path in paths:
            if path in self._seen:
                continue
            self._seen.add(path)
            exposed = exposed_file(path)
            if exposed is not None:
                yield exposed


def exposed_file(path: str) -> ExposedFile | None:
    """The file, where others can read it; None where they cannot, or where it is not there."""
    if os.name != "posix":
        return None
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return None  # who reads it says so
    others = stat.S_IROTH | (stat.S_IRGRP if status.st_uid == os.geteuid() != 0 else 0)
    if not stat.S_ISREG(status.st_mode) or not status.st_mode & others:
        return None
    return ExposedFile(path, stat.S_IMODE(status.st_mode), _advice(path, status))


def _advice(path: str, status: os.stat_result) -> str:
    """What leaves the file to be read by this process."""
    me = os.geteuid()
    if me == 0:
        # Root sees to the files of others, who may read them by their group.
        return f"chmod {'600' if status.st_gid == 0 or status.st_uid != 0 else 'o-rwx'} {path}"
    if status.st_uid == me:
        return f"chmod 600 {path}"
    if status.st_gid in (os.getegid(), *os.getgroups()):
        return f"chmod o-rwx {path}"
    return f"chown {me} {path} && chmod 600 {path}"


def forbid_core_dumps() -> None:
    """A dump of a node's memory has passwords, keys and records: this process and those that it starts leave
    none, until somebody who looks for a fault raises the limit of the running process (`prlimit --core`)."""
    hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, hard))


def is_secret(name: str) -> bool:
    """Whether a setting's value is nobody else's."""
    setting = broker_setting(name)
    if setting is None:
        return _SECRET.search(name) is not None
    return setting.sensitive or setting.kind is ConfigType.PASSWORD


def files_with_secrets(
    path: str | None, settings: Mapping[str, str], sources: Mapping[str, Iterable[str]]
) -> list[str]:
    """The file of these settings where it has secrets itself, and those that config providers took them from:
    `sources` are their files by the names of the settings."""
    has_own = any(value and is_secret(name) and name not in sources for name, value in settings.items())
    others = {file for name, files in sources.items() if is_secret(name) for file in files}
    return [*([path] if path is not None and has_own else []), *sorted(others)]


def key_files(settings: Mapping[str, str]) -> list[str]:
    """The files of private keys that settings name, also those of single listeners, and in JAAS lines."""
    named = {path for name, path in settings.items() if path and _names_keys(name)}
    return sorted(named | {path for name, text in settings.items() for path in _keytabs(name, text)})


def _keytabs(name: str, text: str) -> Iterator[str]:
    if JAAS not in (name, listener_setting(name)):
        return
    with contextlib.suppress(JaasError):  # who uses the line says so
        keytab = parse_jaas(text).options.get(KEYTAB_OPTION, "").removeprefix("FILE:")
        if keytab:
            yield keytab


def _names_keys(name: str) -> bool:
    return KEYSTORE in (name, listener_setting(name)) or name.endswith(_KEYTAB)


def secret_files_of(config: BrokerConfig) -> list[str]:
    """All files that a node's settings are, or name."""
    return [*config.secret_files, *key_files(config.static)]
