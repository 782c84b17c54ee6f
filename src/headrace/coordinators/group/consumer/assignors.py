"""The assignors a broker offers for consumer groups, `range` and `uniform`: who should read which partition.

Each is a pure function from a GroupSpec (members and topics) to a GroupAssignment, and gives equal answers to
equal specs.
"""

import heapq
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from headrace.coordinators.group.consumer.member import PartitionId, Partitions
from headrace.coordinators.group.consumer.subscription import Racks

GroupAssignment = dict[str, dict[bytes, frozenset[int]]]
"""What an assignor returns: partitions by topic id, for each member."""

_Loads = dict[str, set[PartitionId]]


@dataclass(frozen=True, slots=True)
class MemberSpec:
    """A member as an assignor sees it. `current` is its target so far, which a sticky assignor keeps."""

    topics: frozenset[bytes]
    instance_id: str | None = None
    rack_id: str | None = None
    current: Partitions = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class GroupSpec:
    """Members by id; topics by id, as the racks of each partition. Every subscribed topic is known."""

    members: dict[str, MemberSpec]
    topics: dict[bytes, Racks]


def assign_range(spec: GroupSpec) -> GroupAssignment:
    """Cut each topic into as many runs of neighbouring partitions as it has subscribers.

    The first members get one more where it does not divide evenly. Members keep the same order for every
    topic, so topics with equal partitions and subscribers are cut alike, and who reads partition 3 of one
    reads partition 3 of the others: what joins between topics need. Static members come first, by instance,
    so that a restart does not move anything.
    """
    target_assignment: GroupAssignment = {member_id: {} for member_id in spec.members}
    order = sorted(spec.members, key=lambda member_id: _range_order(spec, member_id))
    for topic_id, racks in spec.topics.items():
        subscribers = [each for each in order if topic_id in spec.members[each].topics]
        if not subscribers:
            continue
        share, extra = divmod(len(racks), len(subscribers))
        start = 0
        for position, member_id in enumerate(subscribers):
            end = start + share + (position < extra)
            if end > start:
                target_assignment[member_id][topic_id] = frozenset(range(start, end))
            start = end
    return target_assignment


def _range_order(spec: GroupSpec, member_id: str) -> tuple[bool, str]:
    instance_id = spec.members[member_id].instance_id
    return (instance_id is None, instance_id or member_id)


def assign_uniform(spec: GroupSpec) -> GroupAssignment:
    """Spread partitions evenly, and move as few as possible.

    Where all members subscribe to the same topics, an even spread is a quota: everyone keeps what it has up
    to that, and the rest goes to whoever is below. Where subscriptions differ, the least loaded subscriber
    takes each partition, and then partitions move from the more to the less loaded while that makes the
    spread more even. Among equals a member in a rack that holds a replica is preferred; balance and
    stickiness come first.
    """
    if not spec.members:
        return {}
    loads = _kept(spec)
    subscriptions = {member.topics for member in spec.members.values()}
    if len(subscriptions) == 1:
        _fill_quotas(spec, loads, next(iter(subscriptions)))
    else:
        lightest = _Lightest(spec, loads)
        _spread(spec, loads, lightest)
        _even_out(loads, lightest)
    return {member_id: _by_topic(load) for member_id, load in loads.items()}


def _kept(spec: GroupSpec) -> _Loads:
    """What each member has and may keep: it still subscribes, the partition exists, nobody before has it."""
    taken: set[PartitionId] = set()
    loads: _Loads = {}
    for member_id, member in sorted(spec.members.items()):
        load = loads[member_id] = set()
        for topic_id, partitions in member.current.items():
            if topic_id in member.topics:
                count = len(spec.topics[topic_id])
                load.update((topic_id, each) for each in partitions if each < count)
        load -= taken
        taken |= load
    return loads


def _by_topic(load: set[PartitionId]) -> dict[bytes, frozenset[int]]:
    topics: defaultdict[bytes, list[int]] = defaultdict(list)
    for topic_id, partition in load:
        topics[topic_id].append(partition)
    return {topic_id: frozenset(topics[topic_id]) for topic_id in sorted(topics)}


def _unassigned(spec: GroupSpec, loads: _Loads) -> list[PartitionId]:
    taken = set().union(*loads.values())
    wanted = frozenset[bytes]().union(*(member.topics for member in spec.members.values()))
    return [
        (topic_id, partition)
        for topic_id in sorted(wanted)
        for partition in range(len(spec.topics[topic_id]))
        if (topic_id, partition) not in taken
    ]


def _is_near(spec: GroupSpec, member_id: str, partition: PartitionId) -> bool:
    rack = spec.members[member_id].rack_id
    return rack is not None and rack in spec.topics[partition[0]][partition[1]]


# --- all subscribe alike ---


def _fill_quotas(spec: GroupSpec, loads: _Loads, topics: frozenset[bytes]) -> None:
    total = sum(len(spec.topics[topic_id]) for topic_id in topics)
    quota, extras = divmod(total, len(loads))
    # Those with the most keep the extra ones: fewer partitions move.
    room: dict[str, int] = {}
    for member_id in sorted(loads, key=lambda each: (-len(loads[each]), each)):
        limit = quota + (extras > 0)
        extras -= extras > 0
        load = loads[member_id]
        for partition in _excess(spec, member_id, load, limit):
            load.discard(partition)
        if len(load) < limit:
            room[member_id] = limit - len(load)
    rest = iter(_take_near(spec, loads, room, _unassigned(spec, loads)))
    for member_id, places in room.items():
        loads[member_id].update(islice(rest, places))


def _excess(spec: GroupSpec, member_id: str, load: set[PartitionId], limit: int) -> list[PartitionId]:
    """What a member gives up: partitions far from it first, then the last ones."""
    if len(load) <= limit:
        return []
    keep_first = sorted(load, key=lambda partition: (not _is_near(spec, member_id, partition), partition))
    return keep_first[limit:]


def _take_near(
    spec: GroupSpec, loads: _Loads, room: dict[str, int], partitions: list[PartitionId]
) -> list[PartitionId]:
    """Give out what lies in a rack of somebody who has room; the rest is returned."""
    by_rack: defaultdict[str, list[str]] = defaultdict(list)
    for member_id in room:
        rack = spec.members[member_id].rack_id
        if rack is not None:
            by_rack[rack].append(member_id)
    if not by_rack:
        return partitions
    rest = []
    for partition in partitions:
        near = [
            each for rack in sorted(spec.topics[partition[0]][partition[1]]) for each in by_rack.get(rack, ())
        ]
        taker = max(near, key=lambda each: room[each], default=None)
        if taker is None or room[taker] == 0:
            rest.append(partition)
        else:
            loads[taker].add(partition)
            room[taker] -= 1
    return rest


# --- subscriptions differ ---


class _Lightest:
    """The least loaded subscriber of a topic, and of a topic in a rack: heaps whose stale entries are skipped
    when they surface.
    """

    def __init__(self, spec: GroupSpec, loads: _Loads) -> None:
        self._members = spec.members
        self._loads = loads
        self._heaps: defaultdict[tuple[bytes, str | None], list[tuple[int, str]]] = defaultdict(list)
        for member_id in loads:
            self.changed(member_id)

    def changed(self, member_id: str) -> None:
        """The member's load is another now."""
        member = self._members[member_id]
        entry = (len(self._loads[member_id]), member_id)
        for topic_id in member.topics:
            heapq.heappush(self._heaps[topic_id, None], entry)
            if member.rack_id is not None:
                heapq.heappush(self._heaps[topic_id, member.rack_id], entry)

    def of(self, topic_id: bytes, rack: str | None = None) -> str | None:
        heap = self._heaps.get((topic_id, rack), [])
        while heap and heap[0][0] != len(self._loads[heap[0][1]]):
            heapq.heappop(heap)
        return heap[0][1] if heap else None

    def near(self, topic_id: bytes, racks: frozenset[str]) -> str:
        """One in one of these racks, if it is as little loaded as any."""
        anywhere = self.of(topic_id)
        assert anywhere is not None, "every wanted topic has a subscriber"
        for rack in sorted(racks):
            here = self.of(topic_id, rack)
            if here is not None and len(self._loads[here]) == len(self._loads[anywhere]):
                return here
        return anywhere


def _spread(spec: GroupSpec, loads: _Loads, lightest: _Lightest) -> None:
    """Topics with few subscribers first: they have the least choice."""
    subscribers = Counter(topic_id for member in spec.members.values() for topic_id in member.topics)
    partitions = _unassigned(spec, loads)
    partitions.sort(key=lambda partition: (subscribers[partition[0]], partition))
    for partition in partitions:
        taker = lightest.near(partition[0], spec.topics[partition[0]][partition[1]])
        loads[taker].add(partition)
        lightest.changed(taker)


def _even_out(loads: _Loads, lightest: _Lightest) -> None:
    """Move partitions to less loaded subscribers while two differ by two or more.

    Every move makes the sum of squared loads smaller, so it ends.
    """
    has_moved = True
    while has_moved:
        has_moved = False
        for giver in sorted(loads, key=lambda each: (-len(loads[each]), each)):
            while (move := _best_move(loads, lightest, giver)) is not None:
                partition, taker = move
                loads[giver].discard(partition)
                loads[taker].add(partition)
                lightest.changed(giver)
                lightest.changed(taker)
                has_moved = True


def _best_move(loads: _Loads, lightest: _Lightest, giver: str) -> tuple[PartitionId, str] | None:
    best: tuple[int, bytes, str] | None = None
    for topic_id in {partition[0] for partition in loads[giver]}:
        taker = lightest.of(topic_id)
        if taker is not None and len(loads[taker]) + 2 <= len(loads[giver]):
            candidate = (len(loads[taker]), topic_id, taker)
            best = candidate if best is None or candidate < best else best
    if best is None:
        return None
    _, topic_id, taker = best
    return max(partition for partition in loads[giver] if partition[0] == topic_id), taker


ASSIGNORS: Final[Mapping[str, Callable[[GroupSpec], GroupAssignment]]] = {
    "uniform": assign_uniform,
    "range": assign_range,
}
