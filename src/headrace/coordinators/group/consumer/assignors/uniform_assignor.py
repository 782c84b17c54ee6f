"""`uniform`: partitions spread evenly, and as few as possible of them moved.

Where all members subscribe to the same topics, an even spread is a quota: everyone keeps what it has up to
that, and the rest goes to whoever is below. Where subscriptions differ, the least loaded subscriber takes
each partition, and then partitions move from the more to the less loaded while that makes the spread more
even. Among equals a member in a rack that holds a replica is preferred; balance and stickiness come first.
"""

import heapq
from collections import defaultdict

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
        _spread(question, loads)
        _even_out(question, loads)
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
    rest = _take_near(question, loads, room, _unassigned(question, loads))
    for member_id, places in room.items():
        loads[member_id].update(rest[:places])
        del rest[:places]


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


def _subscribers(question: Question) -> dict[bytes, list[str]]:
    found: defaultdict[bytes, list[str]] = defaultdict(list)
    for member_id, member in sorted(question.members.items()):
        for topic_id in member.topics:
            found[topic_id].append(member_id)
    return found


def _spread(question: Question, loads: Loads) -> None:
    """Topics with few subscribers first: they have the least choice."""
    subscribers = _subscribers(question)
    slots = _unassigned(question, loads)
    slots.sort(key=lambda slot: (len(subscribers[slot[0]]), slot))
    for slot in slots:
        taker = min(
            subscribers[slot[0]],
            key=lambda each: (len(loads[each]), not _is_near(question, each, slot), each),
        )
        loads[taker].add(slot)


def _even_out(question: Question, loads: Loads) -> None:
    """Move partitions from the most loaded to less loaded subscribers while they differ by two or more.

    Every move makes the sum of squared loads smaller, so it ends. A member whose partitions nobody lighter
    may take is done until somebody it shares a topic with became lighter, which giving away can do: so
    whoever gave is looked at again, with its neighbours.
    """
    subscribers = _subscribers(question)
    heap = [(-len(load), member_id) for member_id, load in loads.items()]
    heapq.heapify(heap)
    while heap:
        size, giver = heapq.heappop(heap)
        if -size != len(loads[giver]):
            continue  # its load changed since: a newer entry stands for it
        move = _best_move(loads, subscribers, giver)
        if move is None:
            continue
        slot, taker = move
        loads[giver].discard(slot)
        loads[taker].add(slot)
        heapq.heappush(heap, (-len(loads[taker]), taker))
        for topic_id in question.members[giver].topics:
            for member_id in subscribers[topic_id]:
                if member_id == giver or len(loads[member_id]) >= len(loads[giver]) + 2:
                    heapq.heappush(heap, (-len(loads[member_id]), member_id))


def _best_move(loads: Loads, subscribers: dict[bytes, list[str]], giver: str) -> tuple[Slot, str] | None:
    best: tuple[int, bytes, str] | None = None
    for topic_id in {slot[0] for slot in loads[giver]}:
        taker = min(subscribers[topic_id], key=lambda each: (len(loads[each]), each))
        if len(loads[taker]) + 2 <= len(loads[giver]):
            candidate = (len(loads[taker]), topic_id, taker)
            best = candidate if best is None or candidate < best else best
    if best is None:
        return None
    _, topic_id, taker = best
    return max(slot for slot in loads[giver] if slot[0] == topic_id), taker
