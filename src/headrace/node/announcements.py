"""What a node tells of itself when it starts: who it is, where its files are, what it was told to do."""

import logging
from functools import cache
from importlib.metadata import version

from headrace.log.log_manager import LogManager
from headrace.settings.broker_config import BrokerConfig, broker_setting
from headrace.settings.definition import ConfigType, render

logger = logging.getLogger(__name__)

HIDDEN = "(hidden)"


def tell_who_starts(config: BrokerConfig, cluster_id: str, store: LogManager) -> None:
    """The first lines of a node."""
    logger.info(
        "headrace %s starts as node %d of cluster %s: %s; log directories %s",
        *(_version(), config.node_id, cluster_id, " and ".join(sorted(config.roles))),
        ", ".join(each.path for each in store.log_dirs),
    )
    told = ", ".join(f"{name}={value}" for name, value in different_settings(config))
    logger.info("settings that differ from the defaults: %s", told or "none")
    idle = settings_without_effect(config)
    if idle:
        logger.warning("settings that have no effect: %s. `headrace doctor` says why.", ", ".join(idle))


@cache
def _version() -> str:
    return version("headrace")


def settings_without_effect(config: BrokerConfig) -> dict[str, str]:
    """Names of the file or command line that are known and do nothing here, and why each does not."""
    found = ((name, broker_setting(name)) for name in sorted(config.static))
    return {name: setting.effect for name, setting in found if setting is not None and setting.effect}


def different_settings(config: BrokerConfig) -> list[tuple[str, str]]:
    """Names and values of the file or command line that are not the defaults, secrets hidden."""
    different = []
    for name, text in sorted(config.static.items()):
        setting = broker_setting(name)
        # What nobody knows may be a plugin's secret.
        is_secret = setting is None or setting.sensitive or setting.kind is ConfigType.PASSWORD
        if is_secret or name in config.looked_up:
            different.append((name, HIDDEN))
        elif setting is not None and text.strip() != render(setting.default_value):
            different.append((name, text.strip()))
    return different
