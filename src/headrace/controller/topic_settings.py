"""The settings a new topic has, as CreateTopics tells them (KIP-525)."""

from collections.abc import Mapping

from headrace.settings.broker_config import BrokerConfig
from headrace.settings.describe import describe_topic
from headrace.wire.schemas.create_topics import CreatableTopicConfigs


def created_topic_settings(config: BrokerConfig, overrides: Mapping[str, str]) -> list[CreatableTopicConfigs]:
    """Every setting with its value and where it comes from, by name."""
    return [
        CreatableTopicConfigs(
            name=entry.name,
            value=entry.value,
            read_only=entry.read_only,
            config_source=entry.source,
            is_sensitive=entry.sensitive,
        )
        for entry in sorted(describe_topic(config, overrides))
    ]
