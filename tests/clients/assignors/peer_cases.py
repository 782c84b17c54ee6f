"""Random groups for the assignors: members, topics, racks and memories such as a group's life brings forth.

A case is lived through, not drawn: a group that some assignor served gets members, topics and partitions more
or less, some members miss rounds and come back with old memories, and now and then two claim the same.
"""

import base64
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from headrace.base.ids import TopicPartition
from headrace.clients.assignors import make_assignor
from headrace.clients.assignors.consumer_partition_assignor import PartitionInfo, Subscription

RACKS = ("r1", "r2", "r3")
Racks = list[list[str | None]]


@dataclass(frozen=True)
class Case:
    """What goes into one call of an assignor."""

    assignor: str
    racks: dict[str, Racks]
    subscriptions: dict[str, Subscription]

    @property
    def topics(self) -> dict[str, list[PartitionInfo]]:
        return {
            topic: [
                PartitionInfo(number, frozenset(rack for rack in each if rack is not None))
                for number, each in enumerate(racks)
            ]
            for topic, racks in self.racks.items()
        }

    def to_json(self) -> dict[str, Any]:
        members = [member_json(member, each) for member, each in self.subscriptions.items()]
        return {"assignor": self.assignor, "topics": self.racks, "members": members}


def member_json(member: str, subscription: Subscription) -> dict[str, Any]:
    data = subscription.user_data
    return {
        "id": member,
        "topics": subscription.topics,
        "user_data": None if data is None else base64.b64encode(data).decode(),
        "owned": subscription.owned_partitions,
        "generation": subscription.generation,
        "rack": subscription.rack,
        "instance": subscription.instance_id,
    }


def random_topics(rng: Random) -> dict[str, Racks]:
    with_racks = rng.random() < 0.6
    replicas = rng.randint(1, 3)
    racks: tuple[str | None, ...] = RACKS if rng.random() < 0.8 else (*RACKS, None, "r9")
    return {
        f"{rng.choice(('orders', 'a', 'B', 'z.y'))}-{number}": [
            rng.sample(racks, replicas) if with_racks else [None] for _ in range(rng.randint(1, 9))
        ]
        for number in range(rng.randint(1, 5))
    }


def random_member(
    rng: Random, topics: list[str], *, alike: bool, with_racks: bool
) -> tuple[str, Subscription]:
    name = f"{rng.choice(('c', 'consumer', 'ü', '𐀀', 'ｚ'))}-{rng.randrange(10**6)}"
    wanted = topics if alike else rng.sample(topics, rng.randint(1, len(topics)))
    if rng.random() < 0.05:
        wanted = [*wanted, "missing"]
    rack = rng.choice((*RACKS, "r7", "", None)) if with_racks and rng.random() < 0.9 else None
    instance = f"i{rng.randrange(1000)}-{name}" if rng.random() < 0.2 else None
    return name, Subscription(tuple(wanted), rack=rack, instance_id=instance)


def random_case(rng: Random, assignor: str) -> Case:
    """A group after some rounds."""
    racks = random_topics(rng)
    alike, with_racks = rng.random() < 0.5, rng.random() < 0.5
    names = sorted(racks)
    members = dict(
        random_member(rng, names, alike=alike, with_racks=with_racks)
        for _ in range(rng.randint(1, 7) if rng.random() < 0.9 else rng.randint(10, 40))
    )
    case = Case(assignor, racks, members)
    for generation in range(1, rng.randint(1, 4)):
        case = _next_round(rng, case, generation, alike=alike, with_racks=with_racks)
    return case


def _next_round(rng: Random, case: Case, generation: int, *, alike: bool, with_racks: bool) -> Case:
    given = make_assignor(case.assignor).assign(case.topics, case.subscriptions)
    members = {}
    for member, subscription in case.subscriptions.items():
        fate = rng.random()
        if fate < 0.15:
            continue  # it left
        members[member] = (
            subscription  # it missed the round and remembers an earlier one
            if fate < 0.25
            else _remember(rng, case.assignor, subscription, given[member], generation)
        )
    names = sorted(case.racks)
    for _ in range(rng.choice((0, 0, 1, 1, 2, 5))):
        name, newcomer = random_member(rng, names, alike=alike, with_racks=with_racks)
        members[name] = newcomer
    if not members:
        return case
    if not alike and rng.random() < 0.3:
        member = rng.choice(list(members))
        wanted = tuple(rng.sample(names, rng.randint(1, len(names))))
        members[member] = replace(members[member], topics=wanted)
    if rng.random() < 0.2:  # one claims what was given to another, as after a round that it did not hear of
        member, owner = rng.choice(list(members)), rng.choice(list(given))
        since = rng.choice((generation, generation, generation - 1))
        members[member] = _remember(rng, case.assignor, members[member], given[owner], since)
    racks = {
        topic: partitions + partitions[: rng.choice((0, 0, 1))] for topic, partitions in case.racks.items()
    }
    return Case(case.assignor, racks, members)


def _remember(
    rng: Random, name: str, before: Subscription, given: list[TopicPartition], generation: int
) -> Subscription:
    assignor = make_assignor(name)
    assignor.on_assignment(given, generation)
    if rng.random() < 0.03:
        return replace(before, user_data=rng.randbytes(rng.randint(0, 9)))
    owned = tuple(given) if name == "cooperative-sticky" else ()
    return replace(
        before,
        user_data=assignor.user_data(before.topics),
        owned_partitions=owned,
        generation=generation if rng.random() < 0.9 else -1,
    )
