"""The loop stays awake where requests follow each other at once, and sleeps where they do not."""

from collections.abc import Callable

from headrace.transport.attention import CREDIT_MAX, SLEPT_NS, WAIT_NS, Attention


class Loop:
    """Whoever is called soon, is called when the test says so."""

    def __init__(self) -> None:
        self.soon: list[Callable[[], None]] = []
        self.now = 10**12

    def call_soon(self, callback: Callable[[], None]) -> None:
        self.soon.append(callback)

    def turn(self, nanoseconds: int = 3_000) -> bool:
        """One turn without sleep; False where the loop would sleep."""
        self.now += nanoseconds
        soon, self.soon = self.soon, []
        for each in soon:
            each()
        return bool(self.soon)

    def turns_until_asleep(self) -> int:
        turns = 0
        while self.soon:
            self.turn()
            turns += 1
        return turns


def made() -> tuple[Loop, Attention]:
    loop = Loop()
    return loop, Attention(loop, lambda: loop.now, int)  # type: ignore[arg-type]


def test_requests_now_and_then_are_not_waited_for() -> None:
    loop, attention = made()
    for _ in range(100):
        loop.now += 1_000_000
        attention.served()
        assert not loop.soon


def test_requests_that_follow_at_once_are_waited_for_a_moment() -> None:
    loop, attention = made()
    attention.served()
    loop.now += SLEPT_NS // 2
    attention.served()
    assert loop.soon
    for _ in range(50):
        assert loop.turn(20_000)  # nothing yet
        attention.served()
        assert loop.turn()
    assert WAIT_NS // 3_000 <= loop.turns_until_asleep() <= WAIT_NS // 3_000 + 3


def test_who_turns_slow_is_soon_let_go() -> None:
    loop, attention = made()
    for _ in range(CREDIT_MAX * 2):
        loop.now += 10_000
        attention.served()
        loop.turn()
    loop.turns_until_asleep()
    waited = 0
    for _ in range(20):
        loop.now += 1_000_000
        attention.served()
        waited += loop.turns_until_asleep() > 0
    assert waited < CREDIT_MAX / 2
