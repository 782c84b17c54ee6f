"""Which names a broker takes beside Kafka's own, and what is said about the others.

- `listener.name.LISTENER.SETTING` (and `….MECHANISM.SETTING` for SASL): a setting for one listener alone;
- a plugin's parameters: what begins like the setting that names its class, or with the prefix Kafka gives it;
- leftovers of older Kafkas, which Kafka 4 ignores as well.
Anything else is an error that names the setting and the one that was probably meant; in a file, which may be
another Kafka's, a warning (`node/properties_file.py`).
"""

from functools import cache
from typing import Final

from headrace.settings.broker import BROKER
from headrace.settings.broker_other import LEFTOVERS, NO_ZOOKEEPER

_LISTENER_PREFIX: Final = "listener.name."
_PLUGIN_PREFIXES: Final = ("config.providers.", "rlmm.config.", "rsm.config.")
_LEFTOVER_PREFIXES: Final = ("zookeeper.ssl.",)


def listener_setting(name: str) -> str:
    """What `listener.name.LISTENER.[MECHANISM.]SETTING` sets for one listener; empty for other names."""
    if not name.startswith(_LISTENER_PREFIX):
        return ""
    setting = name[len(_LISTENER_PREFIX) :].partition(".")[2]
    if setting in BROKER:
        return setting
    without_mechanism = setting.partition(".")[2]
    return without_mechanism if without_mechanism in BROKER else ""


def is_leftover(name: str) -> bool:
    """Whether an older Kafka knew this name."""
    return name in LEFTOVERS or name.startswith(_LEFTOVER_PREFIXES)


def why_left_over(name: str) -> str:
    """Why a leftover has no effect."""
    return LEFTOVERS.get(name, NO_ZOOKEEPER)


def is_plugin_setting(name: str) -> bool:
    """Whether a name may belong to a plugin or to a mechanism of one listener."""
    return name.startswith((_LISTENER_PREFIX, *_PLUGIN_PREFIXES, *_class_prefixes()))


@cache
def _class_prefixes() -> tuple[str, ...]:
    """`create.topic.policy.` for create.topic.policy.class.name, and so on.

    A prefix that Kafka's own settings share is left out: there a strange name is a slip of the pen.
    """
    stems = (name.removesuffix(".name").removesuffix(".class") for name in BROKER if ".class" in name)
    prefixes = {f"{stem}." for stem in stems}
    return tuple(
        prefix
        for prefix in sorted(prefixes)
        if all(".class" in name for name in BROKER if name.startswith(prefix))
    )
