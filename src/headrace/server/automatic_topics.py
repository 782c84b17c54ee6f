"""Topics that are made because somebody asked for them: with the controller's defaults (num.partitions,
default.replication.factor), as Kafka makes them, or as the settings of this broker say for the system's own.
"""

from typing import Final

from headrace.base.internal_topics import (
    OFFSETS_TOPIC,
    REMOTE_LOG_TOPIC,
    SHARE_STATE_TOPIC,
    TRANSACTIONS_TOPIC,
)
from headrace.settings.broker_config import BrokerConfig
from headrace.settings.broker_rules import remote_log_topic_setting
from headrace.wire.schemas.create_topics import CreatableTopic, CreatableTopicConfig

_DEFAULT: Final = -1

_COMPACTED: Final[dict[str, str | int]] = {"cleanup.policy": "compact", "compression.type": "producer"}


_REMOTE_LOG_REPLICAS: Final = 3


def automatic_topic(config: BrokerConfig, name: str, *, brokers: int = 0) -> CreatableTopic:
    """The topic of this name, in a cluster of so many `brokers`: how many partitions and replicas one of the
    system's own gets is in the broker's settings, for all others in the controller's.
    """
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
    elif name == REMOTE_LOG_TOPIC:
        settings, counts = _remote_log_topic(config, brokers)
    else:
        settings, counts = {}, (_DEFAULT, _DEFAULT)
    partitions, replicas = counts
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replicas,
        configs=[CreatableTopicConfig(name=key, value=str(value)) for key, value in settings.items()],
    )


def _remote_log_topic(config: BrokerConfig, brokers: int) -> tuple[dict[str, str | int], tuple[int, int]]:
    """Where no setting says how many replicas, there are three, or one on each broker.

    What it tells has consequences: by its records what was synced leaves a disk, and objects without a record
    are removed. So each is synced itself, which costs little: there are a few to a segment.
    """

    def number(name: str, default: int = 0) -> int:
        value = remote_log_topic_setting(config, name)
        return default if value is None else value

    replicas = number("replication.factor", min(_REMOTE_LOG_REPLICAS, max(brokers, 1)))
    settings: dict[str, str | int] = {
        "cleanup.policy": "delete",
        "retention.ms": number("retention.ms"),
        "remote.storage.enable": "false",
        "unclean.leader.election.enable": "false",
        "flush.messages": 1,
    }
    least = number("min.isr", 2 if replicas > 2 else 1)  # one broker may always be away
    if least > 1:
        settings["min.insync.replicas"] = least
    return settings, (number("num.partitions"), replicas)
