"""Topics that are made because somebody asked for them: with a broker's defaults, or as the system needs
its own.
"""

from typing import Final

from headrace.base.internal_topics import OFFSETS_TOPIC, SHARE_STATE_TOPIC, TRANSACTIONS_TOPIC
from headrace.settings.broker_config import BrokerConfig
from headrace.wire.schemas.create_topics import CreatableTopic, CreatableTopicConfig

_DEFAULT: Final = -1

_COMPACTED: Final[dict[str, str | int]] = {"cleanup.policy": "compact", "compression.type": "producer"}


def automatic_topic(config: BrokerConfig, name: str) -> CreatableTopic:
    """The topic of this name as the broker's settings want it."""
    number = config.int
    settings: dict[str, str | int]
    if name == OFFSETS_TOPIC:
        settings = {**_COMPACTED, "segment.bytes": number("offsets.topic.segment.bytes")}
        counts = number("offsets.topic.num.partitions"), number("offsets.topic.replication.factor")
    elif name == TRANSACTIONS_TOPIC:
        settings = {
            "cleanup.policy": "compact",
            "compression.type": "uncompressed",
            "unclean.leader.election.enable": "false",
            "min.insync.replicas": number("transaction.state.log.min.isr"),
            "segment.bytes": number("transaction.state.log.segment.bytes"),
        }
        counts = (
            number("transaction.state.log.num.partitions"),
            number("transaction.state.log.replication.factor"),
        )
    elif name == SHARE_STATE_TOPIC:
        settings = {
            "cleanup.policy": "delete",
            "compression.type": "producer",
            "min.insync.replicas": number("share.coordinator.state.topic.min.isr"),
            "segment.bytes": number("share.coordinator.state.topic.segment.bytes"),
            "retention.ms": "-1",
        }
        counts = (
            number("share.coordinator.state.topic.num.partitions"),
            number("share.coordinator.state.topic.replication.factor"),
        )
    else:
        settings, counts = {}, (_DEFAULT, _DEFAULT)
    partitions, replicas = counts
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replicas,
        configs=[CreatableTopicConfig(name=key, value=str(value)) for key, value in settings.items()],
    )
