"""What only the simulated network can be asked for: partitions, silence, machines that vanish."""

import asyncio
import contextlib
import errno

import pytest

from headrace.testing.conditions import Conditions
from headrace.testing.loop import SimulatedLoop
from headrace.testing.network import VirtualNetwork
from headrace.testing.scheduler import Scheduler


class Two:
    """Machines `left` and `right` with a connection between them."""

    def __init__(self, seed=0, conditions=None):
        self.scheduler = Scheduler(seed)
        self.network = VirtualNetwork(self.scheduler, conditions or Conditions(short_rate=0, split_rate=0))
        self.loops = {name: SimulatedLoop(self.scheduler, name=name) for name in ("left", "right")}
        self.hosts = {name: self.network.attach(name, loop) for name, loop in self.loops.items()}
        self.listening = self.hosts["right"].listen("0.0.0.0", 9092, backlog=2)
        self.left = self.hosts["left"].connect("right", 9092)
        self.scheduler.run(lambda: self.listening.readable() and self.left.writable())
        self.right = self.listening.accept()

    def let_pass(self, seconds):
        self.scheduler.run_for(seconds)

    @staticmethod
    def read(stream):
        buffer = bytearray(1000)
        return bytes(buffer[: stream.recv_into(buffer)])

    @staticmethod
    def error_of(stream):
        with pytest.raises(OSError) as raised:  # noqa: PT011 - its number is what the callers check
            stream.recv_into(bytearray(1))
        return raised.value.errno


def test_a_partition_holds_bytes_back_until_it_heals():
    two = Two()
    two.network.partition(["left"], ["right"])
    two.left.send([b"hello"])
    two.let_pass(5)
    assert not two.right.readable()
    two.network.heal()
    two.let_pass(2)
    assert two.read(two.right) == b"hello"


def test_one_way_lets_the_other_way_through():
    two = Two()
    two.network.block("left", "right")
    two.left.send([b"blocked"])
    two.right.send([b"passes"])
    two.let_pass(5)
    assert two.read(two.left) == b"passes"
    assert not two.right.readable()


def test_a_sender_learns_that_nothing_gets_through():
    two = Two(conditions=Conditions(unacknowledged_s_max=30))
    two.network.partition(["left"], ["right"])
    two.left.send([b"hello"])
    two.let_pass(40)
    assert two.error_of(two.left) == errno.ETIMEDOUT
    assert not two.right.readable(), "the other side has heard nothing"


def test_connecting_through_a_partition_times_out_or_succeeds_once_healed():
    two = Two()
    two.network.partition(["left"], ["right"])
    late, lucky = (two.hosts["left"].connect("right", 9092) for _ in range(2))
    two.let_pass(2)
    assert not late.writable()
    lucky.close()
    two.let_pass(20)
    assert two.error_of(late) == errno.ETIMEDOUT
    lucky = two.hosts["left"].connect("right", 9092)
    two.network.heal()
    two.let_pass(2)
    assert lucky.writable()


def test_a_killed_process_says_goodbye_through_its_kernel():
    two = Two()
    two.right.send([b"last words"])
    two.loops["right"].kill()
    two.network.detach(two.hosts["right"], power_cut=False)
    two.let_pass(1)
    assert two.read(two.left) == b"last words"
    assert two.read(two.left) == b""
    refused = two.hosts["left"].connect("right", 9092)
    two.let_pass(1)
    assert two.error_of(refused) == errno.ECONNREFUSED


def test_a_machine_without_power_says_nothing_until_it_is_back():
    two = Two()
    two.right.send([b"lost"])
    two.loops["right"].kill()
    two.network.detach(two.hosts["right"], power_cut=True)
    two.let_pass(1)
    assert not two.left.readable(), "half open: the peer is gone and nobody said so"
    two.left.send([b"anybody there?"])
    two.let_pass(5)
    assert not two.left.readable()
    two.network.attach("right", SimulatedLoop(two.scheduler, name="right again"))
    two.let_pass(5)
    assert two.error_of(two.left) == errno.ECONNRESET


def test_a_cut_connection_breaks_at_both_ends():
    two = Two()
    two.left.send([b"lost"])
    (stream,) = two.network.connections("left", "right")
    two.network.cut(stream)
    assert two.error_of(two.left) == two.error_of(two.right) == errno.ECONNRESET
    assert two.read(two.right) == b""


def test_a_silenced_connection_swallows_everything_and_others_do_not():
    two = Two()
    two.network.silence(two.network.connections()[0])
    two.left.send([b"swallowed"])
    two.right.send([b"swallowed"])
    other = two.hosts["left"].connect("right", 9092)
    two.let_pass(10)
    assert not two.left.readable()
    assert not two.right.readable()
    assert other.writable()
    two.let_pass(60)
    assert two.error_of(two.left) == errno.ETIMEDOUT


def test_a_full_backlog_makes_newcomers_wait():
    two = Two()
    newcomers = [two.hosts["left"].connect("right", 9092) for _ in range(3)]
    two.let_pass(0.5)
    assert sum(each.writable() for each in newcomers) == 2
    two.listening.accept()
    two.let_pass(5)
    assert all(each.writable() for each in newcomers)


def test_loopback_listeners_are_for_their_own_machine():
    two = Two()
    two.hosts["right"].listen("127.0.0.1", 9093, backlog=5)
    stranger = two.hosts["left"].connect("right", 9093)
    friend = two.hosts["right"].connect("localhost", 9093)
    two.let_pass(1)
    assert two.error_of(stranger) == errno.ECONNREFUSED
    assert friend.writable()


def test_a_paused_process_still_has_a_kernel_that_receives():
    two = Two()
    two.loops["right"].pause()
    two.left.send([b"hello"])
    newcomer = two.hosts["left"].connect("right", 9092)
    two.let_pass(1)
    assert newcomer.writable()
    assert two.read(two.right) == b"hello"


def test_machines_are_found_by_address_and_keep_it():
    two = Two()
    address = two.right.local[0]
    two.network.detach(two.hosts["right"], power_cut=True)
    again = two.network.attach("right", SimulatedLoop(two.scheduler, name="again"))
    again.listen("", 9092, backlog=5)
    stream = two.hosts["left"].connect(address, 9092)
    two.let_pass(1)
    assert stream.writable()
    assert stream.peer == (address, 9092)


def test_the_seed_chooses_delays_and_pieces():
    def story(seed):
        two = Two(seed, Conditions(split_rate=0.9, loss_rate=0.2))
        pieces = []

        async def listen():
            event = asyncio.Event()
            two.loops["right"].add_reader(two.right.fileno(), event.set)
            while sum(map(len, pieces)) < 900:
                event.clear()
                await event.wait()
                with contextlib.suppress(BlockingIOError):
                    pieces.append(two.read(two.right))
            two.loops["right"].remove_reader(two.right.fileno())

        two.left.send([b"x" * 900])
        two.loops["right"].run_until_complete(listen())
        return tuple(map(len, pieces)), two.scheduler.trace.digest()

    assert story(1) == story(1)
    assert len({story(seed) for seed in range(10)}) == 10
