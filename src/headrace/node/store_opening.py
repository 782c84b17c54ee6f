"""The remote store of a broker's settings, for whoever reads it without being that broker.

What a broker needs besides, its roles, listeners and folders, need not be among the settings.
"""

from collections.abc import Mapping
from typing import Final

from headrace.log.disk import Disk
from headrace.node.config import load
from headrace.tiered.store import RemoteStore
from headrace.tiered.stores.opening import open_store, store_settings

STORE_CLASS: Final = "remote.log.storage.manager.class.name"
STORE_PREFIX: Final = "rsm.config."
_OF_STORES: Final = ("remote.log.", "rsm.")
_PREFIX: Final = "remote.log.storage.manager.impl.prefix"


def names_store(properties: Mapping[str, str]) -> bool:
    """Whether these settings say which store a broker uses."""
    return bool(properties.get(STORE_CLASS)) or "url" in store_settings(properties)


def open_broker_store(properties: Mapping[str, str], disk: Disk) -> RemoteStore:
    """By its URL, or a user's own class; SettingError where the settings name none or a wrong one."""
    own = (*_OF_STORES, properties.get(_PREFIX) or STORE_PREFIX)
    named = {name: value for name, value in properties.items() if name.startswith(own)}
    store = open_store(load(overrides=named | {"remote.log.storage.system.enable": "true"}), disk)
    assert store is not None, "tiers are on"
    return store
