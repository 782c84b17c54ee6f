"""`uniform`: partitions spread evenly, and as few as possible of them moved.

Where all members subscribe to the same topics, an even spread is a quota: everyone keeps what it has up to
that, and the rest goes to whoever is below. Where subscriptions differ, the least loaded subscriber takes
each partition, and then partitions move from the more to the less loaded while that makes the spread more
even. Among equals a member in a rack that holds a replica is preferred; balance and stickiness come first.
"""

import heapq
from collections import Counter, defaultdict
from itertools import islice

from headrace.coordinators.group.consumer.assignors.question import Question, Targets

Slot = tuple[bytes, int]
Loads = dict[str, set[Slot]]


def assign_uniform(question: Question) -> Targets:
    if not question.members:
        return {}
    loads = _kept(question)
    subscriptions = {member.topics for member in question.members.values()}
    if len(subscriptions) == 1:
        _fill_quotas(question, loads, next(iter(subscriptions)))
    else:
        lightest = _Lightest(question, loads)
        _spread(question, loads, lightest)
        _even_out(loads, lightest)
    return {member_id: _by_topic(load) for member_id, load in loads.items()}


def _kept(question: Question) -> Loads:
    """What each member has and may keep: it still subscribes, the partition exists, nobody before has it."""
    taken: set[Slot] = set()
    loads: Loads = {}
    for member_id, member in sorted(question.members.items()):
        load = loads[member_id] = set()
        for topic_id, partitions in member.current.items():
            if topic_id in member.topics:
                count = len(question.topics[topic_id])
                load.update((topic_id, each) for each in partitions if each < count)
        load -= taken
        taken |= load
    return loads


def _by_topic(load: set[Slot]) -> dict[bytes, frozenset[int]]:
    topics: defaultdict[bytes, list[int]] = defaultdict(list)
    for topic_id, partition in load:
        topics[topic_id].append(partition)
    return {topic_id: frozenset(topics[topic_id]) for topic_id in sorted(topics)}


def _unassigned(question: Question, loads: Loads) -> list[Slot]:
    taken = set().union(*loads.values())
    wanted = frozenset[bytes]().union(*(member.topics for member in question.members.values()))
    return [
        (topic_id, partition)
        for topic_id in sorted(wanted)
        for partition in range(len(question.topics[topic_id]))
        if (topic_id, partition) not in taken
    ]


def _is_near(question: Question, member_id: str, slot: Slot) -> bool:
    rack = question.members[member_id].rack_id
    return rack is not None and rack in question.topics[slot[0]][slot[1]]


# --- all subscribe alike ---


def _fill_quotas(question: Question, loads: Loads, topics: frozenset[bytes]) -> None:
    total = sum(len(question.topics[topic_id]) for topic_id in topics)
    quota, extras = divmod(total, len(loads))
    # Those with the most keep the extra ones: fewer partitions move.
    room: dict[str, int] = {}
    for member_id in sorted(loads, key=lambda each: (-len(loads[each]), each)):
        limit = quota + (extras > 0)
        extras -= extras > 0
        load = loads[member_id]
        for slot in _excess(question, member_id, load, limit):
            load.discard(slot)
        if len(load) < limit:
            room[member_id] = limit - len(load)
    rest = iter(_take_near(question, loads, room, _unassigned(question, loads)))
    for member_id, places in room.items():
        loads[member_id].update(islice(rest, places))


def _excess(question: Question, member_id: str, load: set[Slot], limit: int) -> list[Slot]:
    """What a member gives up: partitions far from it first, then the last ones."""
    if len(load) <= limit:
        return []
    keep_first = sorted(load, key=lambda slot: (not _is_near(question, member_id, slot), slot))
    return keep_first[limit:]


def _take_near(question: Question, loads: Loads, room: dict[str, int], slots: list[Slot]) -> list[Slot]:
    """Give out what lies in a rack of somebody who has room; the rest is returned."""
    by_rack: defaultdict[str, list[str]] = defaultdict(list)
    for member_id in room:
        rack = question.members[member_id].rack_id
        if rack is not None:
            by_rack[rack].append(member_id)
    if not by_rack:
        return slots
    rest = []
    for slot in slots:
        near = [each for rack in sorted(question.topics[slot[0]][slot[1]]) for each in by_rack.get(rack, ())]
        taker = max(near, key=lambda each: room[each], default=None)
        if taker is None or room[taker] == 0:
            rest.append(slot)
        else:
            loads[taker].add(slot)
            room[taker] -= 1
    return rest


# --- subscriptions differ ---


class _Lightest:
    """The least loaded subscriber of a topic, and of a topic in a rack: heaps whose stale entries are skipped
    when they surface.
    """

    def __init__(self, question: Question, loads: Loads) -> None:
        self._members = question.members
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


def _spread(question: Question, loads: Loads, lightest: _Lightest) -> None:
    """Topics with few subscribers first: they have the least choice."""
    subscribers = Counter(topic_id for member in question.members.values() for topic_id in member.topics)
    slots = _unassigned(question, loads)
    slots.sort(key=lambda slot: (subscribers[slot[0]], slot))
    for slot in slots:
        taker = lightest.near(slot[0], question.topics[slot[0]][slot[1]])
        loads[taker].add(slot)
        lightest.changed(taker)


def _even_out(loads: Loads, lightest: _Lightest) -> None:
    """Move partitions to less loaded subscribers while two differ by two or more.

    Every move makes the sum of squared loads smaller, so it ends.
    """
    has_moved = True
    while has_moved:
        has_moved = False
        for giver in sorted(loads, key=lambda each: (-len(loads[each]), each)):
            while (move := _best_move(loads, lightest, giver)) is not None:
                slot, taker = move
                loads[giver].discard(slot)
                loads[taker].add(slot)
                lightest.changed(giver)
                lightest.changed(taker)
                has_moved = True


def _best_move(loads: Loads, lightest: _Lightest, giver: str) -> tuple[Slot, str] | None:
    best: tuple[int, bytes, str] | None = None
    for topic_id in {slot[0] for slot in loads[giver]}:
        taker = lightest.of(topic_id)
        if taker is not None and len(loads[taker]) + 2 <= len(loads[giver]):
            candidate = (len(loads[taker]), topic_id, taker)
            best = candidate if best is None or candidate < best else best
    if best is None:
        return None
    _, topic_id, taker = best
    return max(slot for slot in loads[giver] if slot[0] == topic_id), taker
