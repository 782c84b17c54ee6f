"""A leader whose disk is full: what it has stays readable, and another replica takes what is written."""

import asyncio

import pytest

from headrace.log.log_directory import RUNNING, surviving_epoch
from headrace.metadata.directory_id import LOST
from headrace.testing.disk import Crash
from tests.simulation.test_replicated_nodes import Script, T, play


def place_of(script: Script, node_id: int) -> bytes | None:
    """Where the cluster believes a node's replica to be."""
    newest = max(script.cluster.nodes.values(), key=lambda node: node.image.offset)
    return newest.image.topics_by_name[T.topic].partitions[0].directory_of(node_id)


def fill_disk(script: Script, node_id: int) -> None:
    script.cluster.machine(node_id).disk.faults.is_full = True


def make_room(script: Script, node_id: int) -> None:
    script.cluster.machine(node_id).disk.faults.is_full = False


def brokers_apart(seed: int) -> Script:
    """A controller that has room, whatever happens to the brokers."""
    return Script(seed, nodes=4, roles={1: "controller", 2: "broker", 3: "broker", 4: "broker"})


@pytest.mark.parametrize("script", [Script(11), brokers_apart(12)], ids=["combined", "apart"])
def test_another_replica_leads_while_the_leaders_disk_is_full(script: Script) -> None:
    async def work() -> None:
        await script.create()
        await script.write(3)
        await script.cluster.until(lambda: len(script.in_sync()) == 3)
        first, everyone = script.leader(), script.in_sync()
        assert first is not None
        place = place_of(script, first)
        fill_disk(script, first)
        await script.write(3)
        assert script.leader() in everyone - {first}
        assert first not in script.in_sync()
        assert place_of(script, first) == LOST
        make_room(script, first)
        await script.cluster.until(lambda: script.in_sync() == everyone, "all are in sync again")
        await script.cluster.until(lambda: place_of(script, first) == place, "its place is known again")
        await script.write(2)
        await script.until_equal(*everyone)

    play(script, work)


def test_one_that_is_alone_in_sync_goes_on_leading() -> None:
    script = Script(13, min_insync_replicas="1")

    async def work() -> None:
        await script.create(replicas=1)
        await script.write(3)
        leader = script.leader()
        assert leader is not None
        fill_disk(script, leader)
        assert not await script.try_to_write(leader, b"no room")
        assert script.leader() == leader
        assert script.values(leader) == script.acknowledged
        make_room(script, leader)
        await script.write(1)

    play(script, work)


def test_one_that_handed_over_and_has_room_again_leads_where_nobody_else_is_left() -> None:
    script = brokers_apart(14)

    async def work() -> None:
        await script.create()
        await script.write(3)
        first = script.leader()
        assert first is not None
        second, third = {2, 3, 4} - {first}
        script.cluster.kill(third)
        await script.write(1)
        assert script.in_sync() == {first, second}
        fill_disk(script, first)
        assert not await script.try_to_write(first, b"no room")
        await script.cluster.until(lambda: script.leader() == second, "the other leads")
        assert place_of(script, first) == LOST
        script.cluster.kill(second)
        await script.cluster.until(lambda: script.leader() is None, "nobody leads")
        make_room(script, first)
        await script.cluster.until(lambda: script.leader() == first, "it leads again")
        assert script.values(first) == script.acknowledged

    play(script, work)


@pytest.mark.parametrize("seed", range(16, 20))
def test_a_power_cut_a_full_disk_and_a_replica_out_of_sync_lose_nothing(seed: int) -> None:
    """One disk lost something, fewer than `min.insync.replicas`: whoever has all must lead, however late it
    comes, and neither who lost it nor who never had it.
    """
    script = brokers_apart(seed)

    async def work() -> None:
        await script.create()
        await script.write(3)
        await script.until_equal(2, 3, 4)
        cut = script.leader()
        assert cut is not None
        whole, behind = {2, 3, 4} - {cut}
        script.cluster.kill(behind)
        await script.write(5)
        assert script.in_sync() == {cut, whole}
        script.cluster.kill(cut, Crash.POWER_CUT)
        fill_disk(script, whole)
        await script.cluster.start(cut, behind)
        await asyncio.sleep(5)
        script.cluster.kill(whole)
        await asyncio.sleep(5)
        make_room(script, whole)
        await script.cluster.start(whole)
        await script.write(2)
        await script.until_equal(2, 3, 4)

    play(script, work)


def test_the_mark_that_a_disk_did_not_take_is_left_later() -> None:
    """Without it a kill would be taken for a loss."""
    script = brokers_apart(21)

    async def work() -> None:
        await script.create()
        script.cluster.kill(2)
        faults = script.cluster.machine(2).disk.faults
        faults.concerns = lambda path: RUNNING in path
        faults.write_error_rate = 1.0
        await script.cluster.start(2)
        disk = script.cluster.machine(2).disk
        epoch = script.cluster.nodes[2].image.brokers[2].epoch
        assert surviving_epoch(disk, "/data") != epoch
        disk.faults.clear()
        await script.cluster.until(lambda: surviving_epoch(disk, "/data") == epoch, "the mark is there")

    play(script, work)


def test_where_all_disks_are_full_everybody_waits_for_room_and_nothing_is_lost() -> None:
    script = brokers_apart(15)

    async def work() -> None:
        await script.create()
        await script.write(3)
        await script.until_equal(2, 3, 4)
        for node_id in (2, 3, 4):
            fill_disk(script, node_id)
        first = script.leader()
        assert first is not None
        assert not await script.try_to_write(first, b"no room")
        # Brokers without room do not learn that another one shall lead: whoever asks reads from the first.
        await asyncio.sleep(10)
        assert not await script.try_to_write(first, b"still none")
        assert script.values(first) == script.acknowledged
        for node_id in (2, 3, 4):
            make_room(script, node_id)
        await script.write(2)
        await script.cluster.until(lambda: script.in_sync() == {2, 3, 4}, "all are in sync again")
        await script.until_equal(2, 3, 4)

    play(script, work)


@pytest.mark.parametrize("seed", range(22, 26))
def test_a_controller_without_room_hands_over_and_is_back_when_there_is_some(seed: int) -> None:
    """Otherwise nobody could be made leader of what a broker led that dies meanwhile."""
    roles = dict.fromkeys((1, 5, 6), "controller") | dict.fromkeys((2, 3, 4), "broker")
    script = Script(seed, nodes=6, roles=roles)

    async def work() -> None:
        await script.create()
        await script.write(3)
        await script.until_equal(2, 3, 4)
        active, leader = script.cluster.controller_id(), script.leader()
        assert active is not None
        assert leader is not None
        fill_disk(script, active)
        killed_at = script.cluster.world.virtual_s
        script.cluster.kill(leader)
        await script.cluster.until(lambda: script.leader() not in (None, leader), "another broker leads")
        assert script.cluster.world.virtual_s - killed_at < 5
        await script.write(2)
        await asyncio.sleep(60)
        assert script.cluster.controller_id() not in (None, active)
        make_room(script, active)
        newest = max(node.image.offset for node in script.cluster.nodes.values())
        await script.cluster.until(
            lambda: script.cluster.nodes[active].image.offset >= newest, "it has learnt what was decided"
        )

    play(script, work)


APART = {1: "controller", 2: "broker", 3: "broker", 4: "broker"}


@pytest.mark.parametrize(("seed", "roles"), [(31, APART), (32, APART), (11, None), (33, None)])
def test_a_follower_without_room_leaves_the_in_sync_set_at_once(
    seed: int, roles: dict[int, str] | None
) -> None:
    """Nobody who waits for all in-sync replicas waits until it has lagged for long enough; nor where the
    full node votes in the quorum too.
    """
    script = Script(seed, nodes=4 if roles else 3, roles=roles, replica_lag_time_max_ms="30000")

    async def work() -> None:
        await script.create()
        await script.write(3)
        await script.cluster.until(lambda: len(script.in_sync()) == 3)
        everyone = script.in_sync()
        full = min(everyone - {script.leader(), script.cluster.controller_id()})
        fill_disk(script, full)
        began = script.world.virtual_s
        await script.write(5)
        assert script.world.virtual_s - began < 3
        assert full not in script.in_sync()
        make_room(script, full)
        await script.cluster.until(lambda: script.in_sync() == everyone, "all are in sync again")
        await script.write(1)
        await script.until_equal(*everyone)

    play(script, work)
