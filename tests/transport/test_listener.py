"""Letting connections in, and out again: limits, idle time, want of resources, the end."""

import asyncio
import errno

import pytest

from headrace.testing.loop import SimulatedLoop
from headrace.transport.connection_quotas import ConnectionQuotas
from headrace.transport.descriptors import Descriptors
from headrace.transport.idle import IdleReaper
from headrace.transport.limits import ConnectionLimits, ConnectionQuotaLimits, ListenerQuotaLimits
from headrace.transport.listener import ACCEPT_PAUSE_SECONDS, Listener
from headrace.transport.receive_memory import ReceiveMemory
from headrace.transport.system_network import SystemNetwork
from tests.transport.harness import Place, echo, frame, own_records


async def answers(peer):
    await peer.write(frame(b"there?"))
    return await peer.read_frame() == b"there?"


def test_a_full_node_accepts_again_when_one_leaves(place):
    async def main():
        listener = place.listen(echo, quotas=ConnectionQuotas(ConnectionQuotaLimits(connections_max=2)))
        one, two = await place.peer(listener), await place.peer(listener)
        assert await answers(one)
        assert await answers(two)
        third = await place.peer(listener)
        waiting = asyncio.ensure_future(answers(third))
        await place.turn(20)
        assert not waiting.done()
        assert len(listener.connections) == 2
        one.close()
        assert await waiting

    place.run(main())


def test_the_limit_counts_over_all_listeners(place):
    async def main():
        quotas = ConnectionQuotas(ConnectionQuotaLimits(connections_max=1))
        first, second = place.listen(echo, quotas=quotas), place.listen(echo, quotas=quotas)
        one = await place.peer(first)
        assert await answers(one)
        waiting = asyncio.ensure_future(answers(await place.peer(second)))
        await place.turn(20)
        assert not waiting.done()
        one.close()
        assert await waiting

    place.run(main())


def test_who_is_not_let_in_yet_waits_whoever_leaves_elsewhere(place):
    """A node's clients wait until it is ready, though members of the quorum come and go before."""

    async def main():
        quotas = ConnectionQuotas()
        quorum = place.listen(echo, quotas=quotas)
        clients = place.listen(echo, quotas=quotas, admit=False)
        member = await place.peer(quorum)
        assert await answers(member)
        waiting = asyncio.ensure_future(answers(await place.peer(clients)))
        member.close()
        await place.turn(20)
        assert not quorum.connections
        assert not waiting.done()
        assert not clients.connections
        clients.admit()
        assert await waiting

    place.run(main())


def test_brokers_get_in_at_the_cost_of_the_quietest(place):
    async def main():
        quotas = ConnectionQuotas(ConnectionQuotaLimits(connections_max=2), protected="BROKERS")
        clients = place.listen(echo, quotas=quotas)
        brokers = place.listen(echo, quotas=quotas, name="BROKERS")
        quiet, lively = await place.peer(clients), await place.peer(clients)
        assert await answers(quiet)
        assert await answers(lively)
        newest = list(clients.connections)[1]
        newest.active_at += 1
        assert await answers(await place.peer(brokers))
        assert await quiet.is_closed()
        assert await answers(lively)

    place.run(main())


def test_one_address_has_a_limit_of_its_own(place):
    async def main():
        quotas = ConnectionQuotas(ConnectionQuotaLimits(per_address_max=2))
        listener = place.listen(echo, quotas=quotas)
        peers = [await place.peer(listener) for _ in range(2)]
        assert all([await answers(peer) for peer in peers])
        assert await (await place.peer(listener)).is_closed()
        peers[0].close()
        await place.until(lambda: quotas.count == 1)
        assert await answers(await place.peer(listener))

    place.run(main())


def test_an_address_may_have_an_exception(place):
    listener = place.listen(echo)
    overrides = {"10.0.0.7": 3}
    quotas = ConnectionQuotas(ConnectionQuotaLimits(per_address_max=1, per_address_overrides=overrides))
    quotas.join(listener)
    assert [quotas.enter(listener, "10.0.0.7") for _ in range(4)] == [True, True, True, False]
    assert [quotas.enter(listener, "10.0.0.8") for _ in range(2)] == [True, False]
    quotas.leave("10.0.0.8")
    assert quotas.enter(listener, "10.0.0.8")
    assert quotas.count == 4


def test_the_only_listener_for_clients_is_not_protected_though_brokers_use_it(place):
    """The usual file has one: with an exception for it, max.connections would limit nobody."""

    async def main():
        quotas = ConnectionQuotas(ConnectionQuotaLimits(connections_max=1), protected="PLAINTEXT")
        listener = place.listen(echo, quotas=quotas, name="PLAINTEXT")
        one = await place.peer(listener)
        assert await answers(one)
        waiting = asyncio.ensure_future(answers(await place.peer(listener)))
        await place.turn(20)
        assert not waiting.done()
        assert await answers(one)
        one.close()
        assert await waiting

    place.run(main())


def test_a_listener_has_a_limit_of_its_own_also_a_protected_one(place):
    async def main():
        of_brokers = {"BROKERS": ListenerQuotaLimits(connections_max=1)}
        quotas = ConnectionQuotas(ConnectionQuotaLimits(of_listeners=of_brokers), protected="BROKERS")
        clients = place.listen(echo, quotas=quotas)
        brokers = place.listen(echo, quotas=quotas, name="BROKERS")
        one = await place.peer(brokers)
        assert await answers(one)
        waiting = asyncio.ensure_future(answers(await place.peer(brokers)))
        assert await answers(await place.peer(clients))
        await place.turn(20)
        assert not waiting.done()
        one.close()
        assert await waiting

    place.run(main())


def test_a_lower_limit_closes_the_quietest_and_a_higher_one_lets_in(place):
    async def main():
        quotas = ConnectionQuotas(ConnectionQuotaLimits(connections_max=3))
        listener = place.listen(echo, quotas=quotas)
        peers = [await place.peer(listener) for _ in range(3)]
        assert all([await answers(peer) for peer in peers])
        next(iter(listener.connections)).active_at += 1
        quotas.reconfigure(ConnectionQuotaLimits(connections_max=1))
        assert await peers[1].is_closed()
        assert await peers[2].is_closed()
        assert await answers(peers[0])
        waiting = asyncio.ensure_future(answers(await place.peer(listener)))
        await place.turn(20)
        assert not waiting.done()
        quotas.reconfigure(ConnectionQuotaLimits(connections_max=2))
        assert await waiting

    place.run(main())


@pytest.mark.parametrize("of_listener", [False, True])
def test_new_connections_come_no_faster_than_their_rate(of_listener):
    place = Place("virtual")

    async def main():
        rate = ListenerQuotaLimits(creation_rate_max=5)
        limits = ConnectionQuotaLimits(of_listeners={"ONE": rate})
        if not of_listener:
            limits = ConnectionQuotaLimits(creation_rate_max=5)
        quotas = ConnectionQuotas(limits, now_s=place.loop.time)
        listener = place.listen(echo, quotas=quotas, name="ONE")
        began = place.loop.time()
        peers = [await place.peer(listener) for _ in range(25)]
        assert all(await asyncio.gather(*map(answers, peers)))
        assert 3.9 < place.loop.time() - began < 5, "five at once, then five in every second"

    place.run(main())
    place.close()


def test_descriptors_of_the_reserve_are_not_for_clients(caplog):
    """Who comes when only the reserve is left is refused, and finds the place of a quiet one afterwards."""
    place = Place("asyncio")

    async def main():
        probe = place.network.connect("127.0.0.1", place.listen(echo).address[1])
        descriptors = Descriptors(1 << 20, lambda: 0)
        quotas = ConnectionQuotas(descriptors=descriptors)
        clients = place.listen(echo, quotas=quotas)
        needed = place.listen(echo, quotas=ConnectionQuotas(descriptors=descriptors, giving_way=quotas))
        needed._for_cluster = True
        first = await place.peer(clients)
        assert await answers(first)
        descriptors.reserve = 1 << 20
        refused = await place.peer(clients)
        assert await refused.is_closed()
        assert await first.is_closed()
        assert quotas.count == 0
        assert await answers(await place.peer(needed))
        descriptors.reserve = 1 << 10
        assert await answers(await place.peer(clients))
        probe.close()

    with caplog.at_level("WARNING"):
        place.run(main())
    place.close()
    assert len(own_records(caplog)) == 1
    assert "the rest is kept for files; 1 quiet connections are closed" in caplog.text


def test_a_reserve_of_descriptors_leaves_room_for_clients():
    made = [Descriptors(limit, int) for limit in (20, 128, 1024, 10**6)]
    assert [each.reserve for each in made] == [10, 64, 512, 5120]
    assert [each.open_files_max for each in made] == [8, 51, 409, 4096]
    small = Descriptors(1024, lambda: 544)
    assert (small.kept, small.missing) == (512, 32)
    assert [small.may_serve(544, needed=needed) for needed in (False, True)] == [False, True]
    small.open_files = lambda: 100
    assert (small.kept, small.missing) == (412, 0), "what files have taken is theirs"
    assert [small.may_serve(number, needed=False) for number in (611, 612)] == [True, False]


class Exhausted:
    """A network whose listening socket is always readable, and can accept nothing for a while."""

    address = ("here", 1)

    def __init__(self, network, loop):
        self.network, self.loop = network, loop
        self.real = None
        self.attempts = []
        self.is_exhausted = True

    def listen(self, host, port, *, backlog):
        self.real = self.network.listen(host, port, backlog=backlog)
        self.address = self.real.address
        return self

    def fileno(self):
        return self.real.fileno()

    def accept(self):
        if self.is_exhausted:
            self.attempts.append(self.loop.time())
            raise OSError(errno.EMFILE, "too many open files")
        return self.real.accept()

    def close(self):
        self.real.close()


def test_want_of_descriptors_pauses_accepting_instead_of_spinning():
    place = Place("virtual")

    async def main():
        network = Exhausted(place.network, place.loop)
        listener = Listener(place.loop, network, memory=place.memory, on_frame=echo)
        listener.listen("127.0.0.1", 0)
        peer = await place.peer(listener)
        await place.until(lambda: len(network.attempts) == 5)
        gaps = [after - before for before, after in zip(network.attempts, network.attempts[1:], strict=False)]
        assert min(gaps) >= ACCEPT_PAUSE_SECONDS - 0.001
        network.is_exhausted = False
        assert await answers(peer)
        listener.close()

    place.run(main())
    place.close()


@pytest.mark.parametrize("kind", ["virtual", "virtual and mean"])
def test_a_quiet_connection_is_closed_and_a_lively_one_is_not(kind):
    place = Place(kind)

    async def main():
        listener = place.listen(echo, limits=ConnectionLimits(idle_ms_max=10_000))
        quiet, lively, half = [await place.peer(listener) for _ in range(3)]
        await half.write(frame(b"half a frame")[:7])
        start = place.loop.time()
        while place.loop.time() < start + 30:
            assert await answers(lively)
            await asyncio.sleep(1)
            if place.loop.time() < start + 9:
                assert len(listener.connections) == 3
        assert await quiet.is_closed()
        assert await half.is_closed()
        assert await answers(lively)

    place.run(main())
    place.close()


def test_a_peer_that_waits_for_its_reply_is_not_idle():
    place = Place("virtual")

    async def main():
        slots = []
        listener = place.listen(
            lambda connection, data: slots.append(connection.begin_reply()),
            limits=ConnectionLimits(idle_ms_max=1_000),
        )
        peer = await place.peer(listener)
        await peer.write(frame(b"a long poll"))
        await asyncio.sleep(20)
        slots[0].send((frame(b"at last"),))
        assert await peer.read_frame() == b"at last"
        assert await peer.is_closed()

    place.run(main())
    place.close()


class Watched:
    def __init__(self):
        self.active_at = 0
        self.waits_for_us = False
        self.closed_at = None

    def abort(self, reason):
        self.closed_at = self.loop.time()


def test_idleness_is_kept_to_a_sixteenth_of_its_limit():
    loop = SimulatedLoop(seed=1)
    reaper = IdleReaper(loop, 1_600)
    connections = [Watched() for _ in range(50)]

    async def main():
        for number, connection in enumerate(connections):
            connection.loop = loop
            reaper.watch(connection)
            connection.watched_at = loop.time()
            await asyncio.sleep(0.037)
            if number % 2:
                connection.active_at = reaper.now
                connection.watched_at = loop.time()
        while any(connection.closed_at is None for connection in connections):
            await asyncio.sleep(0.01)

    loop.run_until_complete(main())
    for connection in connections:
        assert 1.6 <= connection.closed_at - connection.watched_at <= 1.9
    loop.close()


def test_the_last_replies_leave_before_the_end(place):
    async def main():
        slots = []
        listener = place.listen(lambda connection, data: slots.append(connection.begin_reply()))
        busy, idle = await place.peer(listener), await place.peer(listener)
        await busy.write(frame(b"one") + frame(b"two"))
        await place.until(lambda: len(slots) == 2)
        draining = asyncio.ensure_future(listener.drain(30))
        assert await idle.is_closed()
        place.loop.call_soon(slots[1].send, (frame(b"second"),))
        place.loop.call_soon(slots[0].send, (frame(b"first"),))
        assert await busy.read_frame() == b"first"
        assert await busy.read_frame() == b"second"
        assert await busy.is_closed()
        await draining

    place.run(main())


def test_the_end_does_not_wait_for_ever():
    place = Place("virtual")

    async def main():
        listener = place.listen(lambda connection, data: connection.begin_reply())
        peer = await place.peer(listener)
        await peer.write(frame(b"never answered"))
        (connection,) = listener.connections
        await place.until(lambda: connection.outstanding)
        start = place.loop.time()
        await listener.drain(5)
        assert place.loop.time() - start == pytest.approx(5, abs=0.1)
        assert await peer.is_closed()

    place.run(main())
    place.close()


def test_500_idle_connections_are_no_burden():
    place = Place("uvloop")

    async def main():
        listener = place.listen(echo, limits=ConnectionLimits())
        idle = [await place.peer(listener) for _ in range(500)]
        assert await answers(idle[250])
        await place.until(lambda: len(listener.connections) == 500)
        assert place.memory.held_bytes == 0
        for peer in idle:
            peer.close()
        await place.until(lambda: not listener.connections)

    place.run(main())
    place.close()


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost", ""])
def test_addresses_of_both_families(host):
    loop = asyncio.SelectorEventLoop()
    listener = Listener(loop, SystemNetwork(), memory=ReceiveMemory(loop), on_frame=echo)
    address = listener.listen(host, 0)
    seen = []

    async def main():
        for target in ["127.0.0.1", "::1"] if not host else [host]:
            _, writer = await asyncio.open_connection(target, address[1])
            writer.write(frame(b"x"))
            while not listener.connections:
                await asyncio.sleep(0)
            seen.append(next(iter(listener.connections)).peer[0])
            writer.close()
            while listener.connections:
                await asyncio.sleep(0)

    loop.run_until_complete(asyncio.wait_for(main(), 60))
    if not host:
        assert seen == ["127.0.0.1", "::1"]
    listener.close()
    loop.close()
