"""Random groups: members that join, leave, die, dawdle; topics that grow; coordinators that restart.

After every step no partition is read by two members, and nobody reads what the group does not know of. Once
it is quiet, everyone has its target, and the spread is even.
"""

import random
from collections import Counter
from itertools import count

import pytest

from headrace.coordinators.group.consumer.consumer_group import owned_partitions
from tests.coordinators.consumer.consumer_world import Client, World, run_until_stable, topic_id

TOPICS = ("t", "u")


class Play:
    """One run under one seed."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.world = World()
        self.names = count()
        self.clients: list[Client] = []
        for name in TOPICS:
            self.world.topic(name, self.rng.randrange(1, 9))

    def step(self) -> None:
        moves = [self.join, self.leave, self.die, self.grow, self.restart, self.static_restart]
        weights = [4, 1, 1, 1, 1, 1]
        if self.clients and self.rng.random() < 0.8:
            moves, weights = [self.heartbeat, self.stay, self.let_go, self.wait], [4, 4, 3, 3]
        self.rng.choices(moves, weights)[0]()
        self.world.pass_time(0)
        for client in self.clients:
            if client.kept:
                client.hear()
        self.check()

    def join(self) -> None:
        if len(self.clients) < 8:
            at = next(self.names)
            options = {"instance_id": f"i{at}"} if self.rng.random() < 0.3 else {}
            client = Client(self.world, f"m{at}", TOPICS, options, lets_go_at_once=self.rng.random() < 0.5)
            self.clients.append(client)
            client.join()

    def _any(self) -> Client:
        return self.rng.choice(self.clients)

    def leave(self) -> None:
        if self.clients:
            client = self._any()
            self.clients.remove(client)
            client.hear()
            self.world.heartbeat(client.id, -1)

    def die(self) -> None:
        if self.clients:
            self.clients.remove(self._any())

    def static_restart(self) -> None:
        static = [client for client in self.clients if client.options]
        if static:
            client = self.rng.choice(static)
            client.hear()
            self.world.heartbeat(client.id, -2, **client.options)
            client.id = f"m{next(self.names)}"
            client.target, client.epoch = {}, 0
            client.join()

    def grow(self) -> None:
        name = self.rng.choice(TOPICS)
        self.world.topic(
            name, len(self.world.image.topics_by_name[name].partitions) + self.rng.randrange(1, 4)
        )

    def restart(self) -> None:
        self.world.restart()
        for client in self.clients:
            client.kept, client.release = [], None

    def heartbeat(self) -> None:
        self._any().heartbeat()

    def stay(self) -> None:
        self._any().stay()

    def let_go(self) -> None:
        self._any().let_go()

    def wait(self) -> None:
        self.world.pass_time(self.rng.choice((10, 300, 1_000, 20_000)))

    def check(self) -> None:
        members = self.world.protocol.groups["g"].members if self.world.protocol.groups else {}
        readers: Counter[tuple[bytes, int]] = Counter()
        for client in self.clients:
            if client.id in members:
                reads = {(topic_id(name), index) for name, each in client.owned.items() for index in each}
                assert reads <= set(owned_partitions(members[client.id])), (
                    f"{client.id} reads what is not its own"
                )
                readers.update(reads)
        assert all(number == 1 for number in readers.values()), "two members read the same partition"
        owned = Counter(slot for member in members.values() for slot in owned_partitions(member))
        assert all(number == 1 for number in owned.values()), "a partition has two owners"

    def quiet(self) -> None:
        for client in self.clients:
            client.lets_go_at_once = True
            client.let_go()
        for _ in range(60):  # longer than a session: the dead are gone
            self.world.pass_time(1_000)
            for client in self.clients:
                client.heartbeat()
            self.check()
        run_until_stable(self.world, *self.clients, rounds=3)


@pytest.mark.parametrize("seed", range(100))
def test_one_reader_at_a_time_and_all_are_served_in_the_end(seed: int) -> None:
    play = Play(seed)
    for _ in range(120):
        play.step()
    if not play.clients:
        play.join()
    play.quiet()
    wanted = {(name, index) for name in TOPICS for index in play.world.image.topics_by_name[name].partitions}
    owned = [
        {(name, index) for name, each in client.owned.items() for index in each} for client in play.clients
    ]
    assert sum(map(len, owned)) == len(wanted)
    assert set().union(*owned) == wanted
    assert max(map(len, owned)) - min(map(len, owned)) <= 1


@pytest.mark.parametrize("seed", range(20))
def test_a_restart_brings_back_the_same_group(seed: int) -> None:
    play = Play(seed)
    for _ in range(60):
        play.step()
    before = play.world.protocol.groups
    play.world.restart()
    after = play.world.protocol.groups
    for group in (*before.values(), *after.values()):
        group.assigned_at_ms, group.needs_metadata_refresh = None, False  # not in the log
    assert after == before
