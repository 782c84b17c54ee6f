"""Memory that is used again, and never while somebody looks into it."""

from headrace.tiered.window_memory import Buffers

SIZE = 1 << 16


def test_a_buffer_is_used_again() -> None:
    buffers = Buffers()
    first = buffers.take(SIZE)
    assert len(first) == SIZE
    buffers.give_back(first, bytes_max=SIZE)
    assert buffers.take(SIZE // 2) is not first
    assert buffers.take(SIZE) is first
    assert len(first) == SIZE
    assert buffers.bytes_free == 0


def test_one_that_somebody_looks_into_is_passed_over() -> None:
    buffers = Buffers()
    seen, other = buffers.take(SIZE), buffers.take(SIZE)
    window = memoryview(seen)
    reply = window[10:20]
    del window
    buffers.give_back(seen, bytes_max=2 * SIZE)
    buffers.give_back(other, bytes_max=2 * SIZE)
    assert buffers.take(SIZE) is other
    assert buffers.take(SIZE) is not seen
    reply.release()
    assert buffers.take(SIZE) is seen


def test_no_more_is_kept_than_allowed() -> None:
    buffers = Buffers()
    for _ in range(5):
        buffers.give_back(bytearray(SIZE), bytes_max=3 * SIZE)
    buffers.give_back(bytearray(SIZE // 2), bytes_max=3 * SIZE)
    assert buffers.bytes_free <= 3 * SIZE
    buffers.give_back(bytearray(4 * SIZE), bytes_max=3 * SIZE)
    assert buffers.bytes_free <= 3 * SIZE
