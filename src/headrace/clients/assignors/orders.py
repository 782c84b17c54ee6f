"""The orders in which Java looks at members, topics and partitions, where the outcome hangs on them.

Two kinds matter. Strings are compared by UTF-16 code units, not by code points; the two differ for a client
id with characters beyond the basic plane. And hash tables are walked in the order of their buckets: which of
two equally loaded members keeps one partition more is decided by that. Java fixes how strings hash; how its
tables place hashes is not written down but has been the same since Java 8, so walking the same way makes
our leader and a Java leader give the same assignment.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeVar

from headrace.base.ids import TopicPartition
from headrace.clients.assignors.consumer_partition_assignor import Subscription

T = TypeVar("T")

_BUCKETS_MIN: Final = 16
_MASK: Final = 0xFFFFFFFF


def code_units(text: str) -> bytes:
    """A key that sorts strings as Java does."""
    return text.encode("utf-16-be", "surrogatepass")


def string_hash(text: str) -> int:
    """Java's hash of a string, unsigned."""
    units = code_units(text)
    result = 0
    for at in range(0, len(units), 2):
        result = 31 * result + (units[at] << 8 | units[at + 1]) & _MASK
    return result


def partition_hash(partition: TopicPartition) -> int:
    """Java's hash of a topic and a number, unsigned."""
    return 31 * (31 + partition.partition) + string_hash(partition.topic) & _MASK


def hash_order(items: Iterable[T], item_hash: Callable[[T], int]) -> list[T]:
    """Items in the order of a Java hash table that they were put into one after the other."""
    listed = list(items)
    buckets = _BUCKETS_MIN
    while len(listed) > buckets * 3 // 4:
        buckets *= 2
    return sorted(listed, key=lambda item: _bucket(item_hash(item), buckets))


def _bucket(number: int, buckets: int) -> int:
    return (number ^ number >> 16) & buckets - 1


def hashed_members(subscriptions: Mapping[str, Subscription]) -> list[str]:
    """Members in the order in which Java's coordinator hands them to an assignor."""
    return hash_order(subscriptions, string_hash)


def ranked_members(subscriptions: Mapping[str, Subscription]) -> list[str]:
    """Members in the order that outlives a restart: static ones by instance id, then the others by id."""

    def rank(member: str) -> tuple[bool, bytes]:
        instance_id = subscriptions[member].instance_id
        return instance_id is None, code_units(member if instance_id is None else instance_id)

    return sorted(hashed_members(subscriptions), key=rank)
