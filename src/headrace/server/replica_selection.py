"""Which replica a consumer should read from (KIP-392): `replica.selector.class`.

Without a selector that is the leader. The rack-aware one names, of the in-sync replicas in the consumer's
rack which have what it asks for, the one that is furthest; the leader where it is in that rack itself, or
where nobody is. A selector is a plain function, and is asked with every Fetch of a consumer that says its
rack.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from headrace.settings.definition import SettingError

if TYPE_CHECKING:
    from headrace.metadata.image import MetadataImage
    from headrace.replication.partition import Partition
    from headrace.settings.broker_config import BrokerConfig

NO_REPLICA: Final = -1

LEADER_ONLY: Final = "org.apache.kafka.common.replica.LeaderSelector"
RACK_AWARE: Final = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


class ReplicaSelector(Protocol):
    """Names a replica to read from; NO_REPLICA means the leader."""

    def __call__(
        self, image: MetadataImage, partition: Partition, *, rack: str, offset: int, listener: str
    ) -> int: ...


def selector_of(config: BrokerConfig) -> ReplicaSelector | None:
    """The selector that the settings ask for; Kafka's names of its classes stand for ours."""
    name = config.str("replica.selector.class")
    if not name or name in (LEADER_ONLY, LEADER_ONLY.rpartition(".")[2]):
        return None
    if name in (RACK_AWARE, RACK_AWARE.rpartition(".")[2]):
        return rack_aware
    raise SettingError(
        "replica.selector.class", f"{name} is not known: there are {LEADER_ONLY} and {RACK_AWARE}"
    )


def rack_aware(image: MetadataImage, partition: Partition, *, rack: str, offset: int, listener: str) -> int:
    """The furthest in-sync replica in the consumer's rack."""
    leader_state = partition.leader_state
    if leader_state is None or _rack_of(image, partition.node_id, listener) == rack:
        return NO_REPLICA
    near = [
        (follower.log_end, follower.caught_up_ms, -replica)
        for replica, follower in leader_state.followers.items()
        if replica in leader_state.isr
        and follower.log_start <= offset <= follower.log_end
        and _rack_of(image, replica, listener) == rack
    ]
    return -max(near)[2] if near else NO_REPLICA


def _rack_of(image: MetadataImage, broker_id: int, listener: str) -> str | None:
    """The rack of a broker that this consumer can go to."""
    broker = image.brokers.get(broker_id)
    return broker.rack if broker is not None and broker.is_active and listener in broker.endpoints else None
