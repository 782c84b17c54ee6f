"""Which store a broker uses, out of its settings.

    rsm.config.url=/mnt/share/kafka              a folder; file:///mnt/share/kafka says the same
    rsm.config.url=s3://bucket/prefix            S3 and what speaks it; gs:// Google's, az:// Azure's
    rsm.config.url=hdfs://namenode:8020/kafka    HDFS
    remote.log.storage.manager.class.name=module.Class    a user's own, made with the settings as a dict

Everything that begins with `remote.log.storage.manager.impl.prefix` (rsm.config.) goes to the store, without
the prefix. These settings may be secrets, and are never shown. The library that a store needs is imported
here, so that a broker without tiers starts without it.
"""

import importlib
from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from headrace.log.disk import Disk
from headrace.settings.broker_config import BrokerConfig
from headrace.settings.definition import SettingError
from headrace.tiered.remote_storage import RemoteStorageManager
from headrace.tiered.stores.folder import FolderStore

STORE_CLASS: Final = "remote.log.storage.manager.class.name"
STORE_PREFIX: Final = "rsm.config."
_OF_STORES: Final = ("remote.log.", "rsm.")
_PREFIX: Final = "remote.log.storage.manager.impl.prefix"
_CALLS: Final = ("put", "put_bytes", "read", "delete", "list", "close")


def open_store(config: BrokerConfig, disk: Disk) -> RemoteStorageManager | None:
    """The broker's remote store; None where tiers are off, SettingError where the settings are wrong. A store
    that cannot be reached is no error here: the broker serves without it.
    """
    if not config.bool("remote.log.storage.system.enable"):
        return None
    prefix = config.str(_PREFIX)
    settings = store_settings(config.static)
    if own_class := config.str(STORE_CLASS):
        return _own(own_class, settings)
    if "url" not in settings:
        raise SettingError(
            f"{prefix}url", "must name the remote store (/folder, s3://…, gs://…, az://…, hdfs://…)"
        )
    return open_url(settings.pop("url"), settings, disk, setting=f"{prefix}url")


def store_settings(properties: Mapping[str, str]) -> dict[str, str]:
    """What a broker's file says to its store."""
    prefix = properties.get(_PREFIX) or STORE_PREFIX
    return {
        name.removeprefix(prefix): value.strip()
        for name, value in properties.items()
        if name.startswith(prefix)
    }


def names_store(properties: Mapping[str, str]) -> bool:
    """Whether these settings say which store a broker uses."""
    return bool(properties.get(STORE_CLASS)) or "url" in store_settings(properties)


def open_broker_store(properties: Mapping[str, str], disk: Disk) -> RemoteStorageManager:
    """The store of a broker's settings, for callers that are not that broker: its roles, listeners and
    folders need not be among the settings. SettingError where they name no store or a wrong one.
    """
    own = (*_OF_STORES, properties.get(_PREFIX) or STORE_PREFIX)
    named = {name: value for name, value in properties.items() if name.startswith(own)}
    config = BrokerConfig(named | {"remote.log.storage.system.enable": "true"}, check=False)
    store = open_store(config, disk)
    assert store is not None, "tiers are on"
    return store


def open_url(
    url: str, settings: Mapping[str, str], disk: Disk, *, setting: str = "URL"
) -> RemoteStorageManager:
    """The store that a URL names; `settings` are those of its kind."""
    parts = urlsplit(url)
    if parts.username or parts.password or parts.query or parts.fragment:
        # Not repeated here: it holds what must not be in a log.
        raise SettingError(
            setting, "has more than SCHEME://PLACE/PATH: credentials go into settings of their own"
        )
    if parts.scheme in ("", "file"):
        if not parts.path.startswith("/") or parts.netloc:
            raise SettingError(setting, f"{url!r} is no folder's whole path")
        return FolderStore(disk, parts.path)
    opener = _OPENERS.get(parts.scheme)
    if opener is None or not parts.netloc:
        known = ", ".join(f"{scheme}://" for scheme in ("file", *_OPENERS))
        raise SettingError(setting, f"{url!r} is not a store's: it begins with one of {known}")
    return opener(url, settings)


def _open_objects(url: str, settings: Mapping[str, str]) -> RemoteStorageManager:
    with_library = _library("objects", "obstore")
    # Kafka's settings have dots where the library's have underscores.
    store: RemoteStorageManager = with_library.ObjectStore(
        url, {name.replace(".", "_"): value for name, value in settings.items()}
    )
    return store


def _open_hdfs(url: str, settings: Mapping[str, str]) -> RemoteStorageManager:
    store: RemoteStorageManager = _library("hdfs", "hdfs-native").HdfsStore(url, settings)
    return store


_OPENERS: Final[dict[str, Callable[[str, Mapping[str, str]], RemoteStorageManager]]] = {
    "s3": _open_objects,
    "gs": _open_objects,
    "az": _open_objects,
    "hdfs": _open_hdfs,
}


def _library(module: str, package: str) -> Any:
    try:
        return importlib.import_module(f"headrace.tiered.stores.{module}")
    except ImportError as error:
        raise SettingError(
            "rsm.config.url", f"this store needs {package}: pip install 'headrace[stores]' ({error})"
        ) from None


def _own(path: str, settings: dict[str, str]) -> RemoteStorageManager:
    """A store of the user's own class."""
    module, _, name = path.replace(":", ".").rpartition(".")
    try:
        found = getattr(importlib.import_module(module), name) if module else None
    except (ImportError, AttributeError) as error:
        raise SettingError(
            STORE_CLASS,
            f"{path} cannot be imported ({error}): it must be a Python class on the broker's path."
            " A folder, S3, GCS, Azure and HDFS need none: rsm.config.url names them",
        ) from None
    if not isinstance(found, type) or not all(hasattr(found, call) for call in _CALLS):
        raise SettingError(STORE_CLASS, f"{path} must be a class that has {', '.join(_CALLS)}")
    store: RemoteStorageManager = found(settings)
    return store
