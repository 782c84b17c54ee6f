"""Replica lists that a client chose itself, and partitions made of them."""

from collections.abc import Sequence

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.controller.cluster import Cluster
from headrace.metadata.topics import PartitionImage


def check_replicas(cluster: Cluster, replicas: Sequence[int], *, factor: int | None = None) -> None:
    """INVALID_REPLICA_ASSIGNMENT unless these are different, registered brokers, `factor` of them."""
    if not replicas:
        raise _invalid("The manual partition assignment includes an empty replica list.")
    before: int | None = None
    for broker_id in sorted(replicas):
        if broker_id not in cluster.image.brokers:
            raise _invalid(
                f"The manual partition assignment includes broker {broker_id}, but no such broker is "
                "registered."
            )
        if broker_id == before:
            raise _invalid(f"The manual partition assignment includes the broker {before} more than once.")
        before = broker_id
    if factor is not None and len(replicas) != factor:
        raise _invalid(
            f"The manual partition assignment includes a partition with {len(replicas)} replica(s), "
            "but this is "
            f"not consistent with previous partitions, which have {factor} replica(s)."
        )


def check_assignment(cluster: Cluster, replicas: Sequence[int], *, index: int, factor: int | None) -> None:
    """The same for a new partition, which also needs a broker to lead it."""
    check_replicas(cluster, replicas, factor=factor)
    if not any(map(cluster.is_active, replicas)):
        raise _invalid(
            f"All brokers specified in the manual partition assignment for partition {index} are "
            "fenced or in "
            "controlled shutdown."
        )


def new_partition(cluster: Cluster, replicas: Sequence[int]) -> PartitionImage:
    """A partition on these brokers; those that are there are in sync, for there is nothing to have yet."""
    in_sync = tuple(filter(cluster.is_active, replicas))
    if not in_sync:
        raise ApiError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Unable to replicate the partition {len(replicas)} time(s): All brokers are currently "
            "fenced or in "
            "controlled shutdown.",
        )
    return PartitionImage(
        replicas=tuple(replicas),
        isr=in_sync,
        leader=in_sync[0],
        directories=tuple(map(cluster.default_directory, replicas)),
    )


def _invalid(message: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
