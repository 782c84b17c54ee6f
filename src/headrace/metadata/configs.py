"""Settings kept in the metadata log: of topics, brokers, groups and client metrics. Only overrides are in
it.
"""

from headrace.metadata.delta import Delta
from headrace.metadata.resources import ConfigKey, ResourceType
from headrace.wire.schemas.metadata_records import ConfigRecord

Configs = dict[ConfigKey, dict[str, str]]


def replay_config(configs: Configs, record: ConfigRecord, delta: Delta) -> None:
    """Set or, where the value is null, remove one setting; a resource without settings leaves the table."""
    key = ConfigKey(record.resource_type, record.resource_name)
    if record.value is not None:
        configs.setdefault(key, {})[record.name] = record.value
    elif key in configs:
        configs[key].pop(record.name, None)
        if not configs[key]:
            del configs[key]
    delta.configs_changed.add(key)


def drop_topic_configs(configs: Configs, topic: str) -> None:
    """A removed topic takes its settings with it; the log has no record of their own for that."""
    configs.pop(ConfigKey(ResourceType.TOPIC, topic), None)
