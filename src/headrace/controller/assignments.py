"""Replica lists that a client chose itself, and partitions made of them."""

from collections.abc import Sequence

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.controller.cluster import Cluster
from headrace.metadata.topics import PartitionImage


def check_replicas(cluster: Cluster, replicas: Sequence[int], *, factor: int | None = None) -> None:
    """INVALID_REPLICA_ASSIGNMENT unless these are different, registered brokers, `factor` of them."""
    if not replicas:
        raise _invalid("a partition was given no replicas: name at least one broker")
    before: int | None = None
    for broker_id in sorted(replicas):
        if broker_id not in cluster.image.brokers:
            known = ", ".join(map(str, sorted(cluster.image.brokers)))
            raise _invalid(
                f"replicas {list(replicas)}: there is no broker {broker_id}, only {known or 'none'}"
            )
        if broker_id == before:
            raise _invalid(
                f"replicas {list(replicas)}: broker {before} can hold only one replica of a partition"
            )
        before = broker_id
    if factor is not None and len(replicas) != factor:
        raise _invalid(
            f"replicas {list(replicas)}: that is {len(replicas)}, but the topic's other partitions "
            f"have {factor} each, and all must have equally many"
        )


def check_assignment(cluster: Cluster, replicas: Sequence[int], *, index: int, factor: int | None) -> None:
    """The same for a new partition, which also needs a broker to lead it."""
    check_replicas(cluster, replicas, factor=factor)
    if not any(map(cluster.is_active, replicas)):
        raise _invalid(
            f"partition {index} would have no leader: of its replicas {list(replicas)} none is up, "
            "name one that is"
        )


def new_partition(cluster: Cluster, replicas: Sequence[int]) -> PartitionImage:
    """A partition on these brokers; those that are there are in sync, for there is nothing to have yet."""
    in_sync = tuple(filter(cluster.is_active, replicas))
    if not in_sync:
        raise ApiError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"replicas {list(replicas)}: none of these brokers is up to lead the partition",
        )
    return PartitionImage(
        replicas=tuple(replicas),
        isr=in_sync,
        leader=in_sync[0],
        directories=tuple(map(cluster.default_directory, replicas)),
    )


def _invalid(message: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
