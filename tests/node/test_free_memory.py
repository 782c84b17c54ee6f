"""Free memory is given back where it is much, and not again and again."""

import asyncio

from headrace.node.free_memory import FREE_BYTES_MIN, LOOK_SECONDS, FreeMemory, system_heap
from headrace.testing.loop import SimulatedLoop

MIB = 1 << 20


class FakeHeap:
    """Counts what is used, what is free, and what of that the system has back."""

    def __init__(self):
        self.used, self.free, self.given_back = 100 * MIB, 0, 0
        self.trims = 0

    def free_bytes(self):
        return self.free

    def resident_bytes(self):
        return self.used + self.free - self.given_back

    def trim(self):
        self.trims += 1
        self.given_back = self.free


def test_what_a_burst_took_is_given_back_once():
    heap, loop = FakeHeap(), SimulatedLoop()

    async def main():
        FreeMemory(loop, heap).watch()
        await asyncio.sleep(10 * LOOK_SECONDS)
        assert not heap.trims
        heap.used += 500 * MIB
        await asyncio.sleep(10 * LOOK_SECONDS)
        assert not heap.trims, "it is in use"
        heap.used, heap.free = 100 * MIB, 500 * MIB
        await asyncio.sleep(2 * LOOK_SECONDS)
        assert heap.resident_bytes() == 100 * MIB
        await asyncio.sleep(100 * LOOK_SECONDS)
        assert heap.trims == 1

    loop.run_until_complete(main())
    loop.close()


def test_a_second_burst_in_the_same_memory_is_given_back_too():
    heap, loop = FakeHeap(), SimulatedLoop()

    async def main():
        FreeMemory(loop, heap).watch()
        for _ in range(3):
            heap.free, heap.given_back = 500 * MIB, 0  # between two looks
            await asyncio.sleep(2 * LOOK_SECONDS)
            assert heap.resident_bytes() == 100 * MIB

    loop.run_until_complete(main())
    loop.close()


def test_little_is_kept():
    heap, loop = FakeHeap(), SimulatedLoop()

    async def main():
        FreeMemory(loop, heap).watch()
        heap.free = FREE_BYTES_MIN
        await asyncio.sleep(10 * LOOK_SECONDS)
        assert not heap.trims

    loop.run_until_complete(main())
    loop.close()


def test_this_process_has_a_heap_that_can_be_asked():
    heap = system_heap()
    if heap is not None:  # where the C library is another one there is nothing to do
        assert heap.resident_bytes() > MIB
        assert heap.free_bytes() >= 0
        heap.trim()
