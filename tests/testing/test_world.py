"""Machines that boot, crash and come back; scripts that wait for them."""

import asyncio

import pytest

from headrace.testing.disk import Crash
from headrace.testing.nemesis import Nemesis, Trouble
from headrace.testing.world import CheckFailedError, CrashedError, World


async def forever():
    await asyncio.get_running_loop().create_future()


def test_a_program_gets_its_machine():
    world = World(1)

    async def program(own):
        own.disk.make_folder("/data")
        await asyncio.sleep(2)
        return own.network.machine.name, own.clock.monotonic_ms(), own.loop is asyncio.get_running_loop()

    async def script():
        machine = world.machine("node")
        return await world.result(machine, machine.boot(program))

    name, now_ms, is_own_loop = world.run(script())
    assert name == "node"
    assert now_ms >= 1_002_000
    assert is_own_loop


def test_wall_clocks_differ_and_jump_and_monotonic_time_does_not():
    world = World(1)
    clocks = [world.machine(name).clock for name in "ab"]
    assert clocks[0].now_ms() != clocks[1].now_ms()
    before = clocks[0].now_ms(), clocks[0].monotonic_ms()
    clocks[0].jump(-3_600_000)
    assert (clocks[0].now_ms(), clocks[0].monotonic_ms()) == (before[0] - 3_600_000, before[1])


def test_a_machine_keeps_its_disk_over_a_crash():
    world = World(1)
    machine = world.machine("node")

    async def program(own):
        own.disk.make_folder("/data")
        own.disk.open(f"/data/boot-{machine.boots}", create=True)
        await forever()

    async def script():
        for _ in range(3):
            machine.boot(program)
            await asyncio.sleep(1)
            machine.crash(Crash.KILL)

    world.run(script())
    assert machine.disk.list("/data") == ["boot-1", "boot-2", "boot-3"]


def test_waiting_for_a_machine_that_crashes():
    world = World(1)
    machine = world.machine("node")

    async def program(own):
        await forever()

    async def script():
        task = machine.boot(program)
        world.driver.call_later(1, machine.crash, Crash.POWER_CUT)
        with pytest.raises(CrashedError):
            await world.result(machine, task)

    world.run(script())


def test_a_crash_in_the_middle_of_an_operation_ends_everything_there():
    world = World(1)
    machine = world.machine("node")
    reached = []

    async def program(own):
        try:
            own.disk.make_folder("/data")
            file = own.disk.open("/data/a", create=True)
            for number in range(10):
                file.write(number, [b"x"])
                reached.append(number)
        finally:
            await asyncio.sleep(0)
            reached.append("never")

    async def script():
        machine.boot(program)
        machine.crash_within(5, Crash.KILL)
        await asyncio.sleep(1)

    world.run(script())
    assert not machine.is_running
    assert reached == [0, 1, 2]
    assert 3 <= machine.disk.size("/data/a") <= 4


def test_a_supervised_program_comes_back():
    world = World(1)
    machine = world.machine("node")

    async def program(own):
        await asyncio.sleep(2)
        raise OSError("gone")

    async def script():
        world.keep_running(machine, program, may_end_with=(OSError,))
        await asyncio.sleep(1)
        machine.crash(Crash.POWER_CUT)
        await world.until(lambda: machine.boots == 4, timeout_s=60, what="three boots after the crash")

    world.run(script())
    assert machine.crashes == [Crash.POWER_CUT, Crash.KILL, Crash.KILL]


def test_a_supervised_program_must_not_end_with_another_error():
    world = World(1)

    async def program(own):
        await asyncio.sleep(2)
        raise ValueError("a mistake")

    world.keep_running(world.machine("node"), program, may_end_with=(OSError,))
    with pytest.raises(ValueError, match="a mistake"):
        world.run(asyncio.sleep(60))


def test_unsupervised_failures_and_stray_exceptions_break_the_run():
    async def fails(own):
        raise ValueError("a mistake")

    async def strays(own):
        own.loop.call_soon(lambda: 1 / 0)
        await forever()

    for program in (fails, strays):
        world = World(1)
        world.machine("node").boot(program)
        with pytest.raises(CheckFailedError, match="node"):
            world.run(asyncio.sleep(1))


def test_checks_are_made_after_every_step():
    world = World(1)
    seen = []

    def check():
        seen.append(world.scheduler.now_ns)
        if world.virtual_s > 1:
            raise CheckFailedError("late")

    world.check_every_step(check)
    with pytest.raises(CheckFailedError, match="late"):
        world.run(asyncio.sleep(5))
    assert len(seen) >= 2


def test_waiting_in_vain_is_told():
    world = World(1)
    with pytest.raises(CheckFailedError, match="the moon"):
        world.run(world.until(lambda: False, timeout_s=5, what="the moon"))


@pytest.mark.parametrize("kind", list(Trouble))
def test_every_kind_of_trouble_strikes_and_ends(kind):
    world = World(f"nemesis/{kind.name}")
    node, other = world.machine("node"), world.machine("other")

    async def program(own):
        own.disk.make_folder("/data")
        file = own.disk.open("/data/a", create=True)
        while True:
            if not own.disk.faults.is_full and not own.disk.faults.write_error_rate:
                file.write(0, [b"beat"])
            await asyncio.sleep(0.05)

    async def script():
        for machine in (node, other):
            world.keep_running(machine, program)
        nemesis = Nemesis(world, [node], [kind])
        await nemesis.rage(20)
        nemesis.calm()
        await world.until(lambda: node.is_running, timeout_s=5, what="the node is back")
        return nemesis.strikes

    assert set(world.run(script())) == {kind}
    assert world.network.can_pass(node.process.network, other.process.network)
    node.disk.open("/data/b", create=True).write(0, [b"works"])
