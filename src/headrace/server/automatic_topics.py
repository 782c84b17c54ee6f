"""Topics that are made because somebody asked for them: with a broker's defaults, or as the system needs
its own.
"""

from typing import Final

from headrace.base.internal_topics import OFFSETS_TOPIC, SHARE_STATE_TOPIC, TRANSACTIONS_TOPIC
from headrace.settings.broker_config import BrokerConfig
from headrace.wire.schemas.create_topics import CreatableTopic, CreatableTopicConfig

_DEFAULT: Final = -1

_COMPACTED: Final = {"cleanup.policy": "compact", "compression.type": "producer"}


def automatic_topic(config: BrokerConfig, name: str) -> CreatableTopic:
    """The topic of this name as the broker's settings want it."""
    if name == OFFSETS_TOPIC:
        settings = _COMPACTED | {"segment.bytes": str(config.int("offsets.topic.segment.bytes"))}
        return _internal(config, name, "offsets.topic.num.partitions", "offsets.topic", settings)
    if name == TRANSACTIONS_TOPIC:
        prefix = "transaction.state.log"
        settings = {
            "cleanup.policy": "compact",
            "compression.type": "uncompressed",
            "unclean.leader.election.enable": "false",
            "min.insync.replicas": str(config.int(f"{prefix}.min.isr")),
            "segment.bytes": str(config.int(f"{prefix}.segment.bytes")),
        }
        return _internal(config, name, f"{prefix}.num.partitions", prefix, settings)
    if name == SHARE_STATE_TOPIC:
        prefix = "share.coordinator.state.topic"
        settings = {
            "cleanup.policy": "delete",
            "compression.type": "producer",
            "min.insync.replicas": str(config.int(f"{prefix}.min.isr")),
            "segment.bytes": str(config.int(f"{prefix}.segment.bytes")),
            "retention.ms": "-1",
        }
        return _internal(config, name, f"{prefix}.num.partitions", prefix, settings)
    return CreatableTopic(name=name, num_partitions=_DEFAULT, replication_factor=_DEFAULT)


def _internal(
    config: BrokerConfig, name: str, partitions: str, prefix: str, settings: dict[str, str]
) -> CreatableTopic:
    return CreatableTopic(
        name=name,
        num_partitions=config.int(partitions),
        replication_factor=config.int(f"{prefix}.replication.factor"),
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in settings.items()],
    )
