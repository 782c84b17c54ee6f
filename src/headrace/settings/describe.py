"""Settings as DescribeConfigs tells them: value, where it comes from, and what else would have counted.

The synonyms of an entry are every place that sets it or one of its stand-ins, the strongest first: this
broker's dynamic settings, those of all brokers, the file, the defaults. As in Kafka the list begins where the
entry's own name (for a topic: its first broker setting) is found, so a value that only a coarser unit gives
has no synonyms. A secret is never told, and neither is a setting that headrace does not know.
"""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from headrace.settings.broker import BROKER
from headrace.settings.broker_config import BrokerConfig, broker_setting
from headrace.settings.broker_other import BROKER_OTHER
from headrace.settings.changes import resolve_group_settings
from headrace.settings.definition import ConfigSource, ConfigType, NoDefault, Setting, Update, Value, render
from headrace.settings.definition import parse as parse_setting
from headrace.settings.group import GROUP
from headrace.settings.names import is_leftover, listener_setting
from headrace.settings.topic import TOPIC, topic_value

# The numbers of DescribedSetting's type in DescribeConfigs v3 and later; 0 is unknown.
KIND_NUMBERS: Final = {
    ConfigType.BOOLEAN: 1,
    ConfigType.STRING: 2,
    ConfigType.INT: 3,
    ConfigType.SHORT: 4,
    ConfigType.LONG: 5,
    ConfigType.DOUBLE: 6,
    ConfigType.LIST: 7,
    ConfigType.CLASS: 8,
    ConfigType.PASSWORD: 9,
}
_SHOWN_ALWAYS: Final = "inter.broker.protocol.version"


class SynonymEntry(NamedTuple):
    """A place that sets an entry."""

    name: str
    value: str | None
    source: ConfigSource


class DescribedSetting(NamedTuple):
    """One setting as it is told."""

    name: str
    value: str | None
    source: ConfigSource
    read_only: bool
    sensitive: bool
    synonyms: tuple[SynonymEntry, ...]
    kind_number: int
    doc: str


def describe_broker(config: BrokerConfig) -> list[DescribedSetting]:
    """All settings of a broker, in the order of names."""
    given = {name for _, layer in config.layers() for name in layer if not is_leftover(name)}
    hidden = {name for name, setting in BROKER.items() if setting.internal}
    hidden |= BROKER_OTHER.keys() - {_SHOWN_ALWAYS}
    return [_broker_entry(config, name) for name in sorted(given | (BROKER.keys() - hidden))]


def describe_broker_defaults(config: BrokerConfig) -> list[DescribedSetting]:
    """The dynamic settings of all brokers: what DescribeConfigs tells of the broker without a number."""
    entries = (_broker_entry(config, name) for name in sorted(config.dynamic_default))
    return [_only_shared(entry) for entry in entries]


def describe_topic(config: BrokerConfig, overrides: Mapping[str, str]) -> list[DescribedSetting]:
    """All settings of a topic with these of its own."""
    return [
        _entry(
            setting, overrides, ConfigSource.TOPIC, topic_value(setting, config), _stand_ins(config, setting)
        )
        for setting in TOPIC.values()
        if not setting.internal
    ]


def describe_group(config: BrokerConfig, overrides: Mapping[str, str]) -> list[DescribedSetting]:
    """All settings of a group with these of its own."""
    values = resolve_group_settings(config, {})
    return [
        _entry(setting, overrides, ConfigSource.GROUP, values[name], _group_stand_ins(config, setting))
        for name, setting in GROUP.items()
    ]


def _entry(
    setting: Setting,
    overrides: Mapping[str, str],
    own_source: ConfigSource,
    inherited: Value,
    stand_ins: list[SynonymEntry],
) -> DescribedSetting:
    """An entry of a topic or group."""
    value = render(inherited)
    if setting.name in overrides:
        value = render(parse_setting(setting, overrides[setting.name]))
        stand_ins = [SynonymEntry(setting.name, value, own_source), *stand_ins]
    return DescribedSetting(
        name=setting.name,
        value=value,
        source=stand_ins[0].source if stand_ins else ConfigSource.DEFAULT,
        read_only=False,
        sensitive=setting.sensitive,
        synonyms=tuple(stand_ins),
        kind_number=KIND_NUMBERS[setting.kind],
        doc=setting.doc,
    )


def _broker_entry(config: BrokerConfig, name: str) -> DescribedSetting:
    setting = broker_setting(name)
    sensitive = setting is None or setting.sensitive
    chain = (
        [name]
        if setting is None or setting.name != name
        else [name, *(each.name for each in setting.synonyms)]
    )
    if plain := listener_setting(name):
        chain.append(plain)
    synonyms = _synonyms(config, chain, sensitive=sensitive)
    return DescribedSetting(
        name=name,
        value=None if sensitive else render(config.get(name)),
        source=synonyms[0].source if synonyms else ConfigSource.DEFAULT,
        read_only=setting is None or setting.update is Update.READ_ONLY,
        sensitive=sensitive,
        synonyms=tuple(synonyms),
        kind_number=0 if setting is None else KIND_NUMBERS[setting.kind],
        doc="" if setting is None else _doc(setting),
    )


def _doc(setting: Setting) -> str:
    return f"{setting.doc} No effect: {setting.effect}" if setting.effect else setting.doc


def _only_shared(entry: DescribedSetting) -> DescribedSetting:
    shared = tuple(each for each in entry.synonyms if each.source is ConfigSource.DYNAMIC_DEFAULT)
    value = shared[0].value if shared else entry.value
    return entry._replace(value=value, source=ConfigSource.DYNAMIC_DEFAULT, synonyms=shared)


def _stand_ins(config: BrokerConfig, setting: Setting) -> list[SynonymEntry]:
    return _synonyms(config, [each.name for each in setting.synonyms], sensitive=False)


def _group_stand_ins(config: BrokerConfig, setting: Setting) -> list[SynonymEntry]:
    if setting.synonyms:
        return _stand_ins(config, setting)
    return [SynonymEntry(setting.name, render(setting.default_value), ConfigSource.DEFAULT)]


def _synonyms(config: BrokerConfig, chain: list[str], *, sensitive: bool) -> list[SynonymEntry]:
    """Every layer's value of every name in the chain, from where the chain's first name appears."""
    found = [
        SynonymEntry(name, None if sensitive else layer[name], source)
        for source, layer in config.layers()
        for name in chain
        if name in layer
    ]
    found += (SynonymEntry(*each, ConfigSource.DEFAULT) for each in _defaults(chain, sensitive=sensitive))
    first = next((at for at, each in enumerate(found) if each.name == chain[0]), len(found)) if chain else 0
    return found[first:]


def _defaults(chain: Iterable[str], *, sensitive: bool) -> Iterable[tuple[str, str | None]]:
    for name in chain:
        # Kafka's table of settings does not have the others, and so tells no default of them.
        setting = None if name in BROKER_OTHER and name != _SHOWN_ALWAYS else BROKER.get(name)
        if setting is not None and setting.default is not None and not isinstance(setting.default, NoDefault):
            yield name, None if sensitive else render(setting.default)
