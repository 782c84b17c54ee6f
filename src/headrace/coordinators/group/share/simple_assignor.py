"""The `simple` assignor of share groups: every partition to at least one member, every member at least one
partition, and as many to one as to another.

Members share partitions, so where there are more members than partitions each partition goes to several. What
a member has it keeps as far as that is balanced. Where members subscribe to different topics, each topic is
given out among its own subscribers, to those with the least so far.
"""

from collections import Counter
from collections.abc import Iterable, Mapping

from headrace.base.ids import TopicId
from headrace.coordinators.group.share.share_group import PartitionId, Partitions


def assign_simply(
    subscriptions: Mapping[str, frozenset[TopicId]],
    partitions: Mapping[TopicId, Iterable[int]],
    current: Mapping[str, Partitions],
) -> dict[str, Partitions]:
    """What each member is to read. `partitions` are those that may be given out."""
    given: dict[str, set[PartitionId]] = {member_id: set() for member_id in sorted(subscriptions)}
    for subscribers, topic_ids in _alike(subscriptions):
        targets = [(each, index) for each in topic_ids for index in sorted(partitions.get(each, ()))]
        if targets:
            _share_out(subscribers, targets, given, current)
    return {member_id: _by_topic(owned) for member_id, owned in given.items()}


def _alike(subscriptions: Mapping[str, frozenset[TopicId]]) -> list[tuple[list[str], list[TopicId]]]:
    """Topics with the same subscribers, together with these."""
    subscribers: dict[TopicId, list[str]] = {}
    for member_id in sorted(subscriptions):
        for topic_id in subscriptions[member_id]:
            subscribers.setdefault(topic_id, []).append(member_id)
    alike: dict[tuple[str, ...], list[TopicId]] = {}
    for topic_id in sorted(subscribers):
        alike.setdefault(tuple(subscribers[topic_id]), []).append(topic_id)
    return [(list(members), topic_ids) for members, topic_ids in alike.items()]


def _share_out(
    members: list[str],
    targets: list[PartitionId],
    given: dict[str, set[PartitionId]],
    current: Mapping[str, Partitions],
) -> None:
    sharing = -(-len(members) // len(targets))
    readers = _keep(members, targets, sharing, given, current)
    load = {member_id: len(given[member_id]) for member_id in members}
    for target in targets:
        while readers[target] < sharing:
            free = (each for each in members if target not in given[each])
            chosen = min(free, key=lambda each: (load[each], each))
            given[chosen].add(target)
            load[chosen] += 1
            readers[target] += 1


def _keep(
    members: list[str],
    targets: list[PartitionId],
    sharing: int,
    given: dict[str, set[PartitionId]],
    current: Mapping[str, Partitions],
) -> Counter[PartitionId]:
    """Leave members what they have, up to an even share; how many then read each partition."""
    even, larger = divmod(len(targets) * sharing, len(members))
    wanted, readers = set(targets), Counter[PartitionId]()
    for member_id in members:
        kept = 0
        for owned in sorted(_pairs(current.get(member_id, {})) & wanted):
            if kept < even + (larger > 0) and readers[owned] < sharing:
                given[member_id].add(owned)
                readers[owned] += 1
                kept += 1
        larger -= kept > even
    return readers


def _pairs(owned: Partitions) -> set[PartitionId]:
    return {(topic_id, index) for topic_id, indexes in owned.items() for index in indexes}


def _by_topic(owned: Iterable[PartitionId]) -> Partitions:
    topics: dict[TopicId, set[int]] = {}
    for topic_id, index in owned:
        topics.setdefault(topic_id, set()).add(index)
    return {topic_id: frozenset(indexes) for topic_id, indexes in topics.items()}
