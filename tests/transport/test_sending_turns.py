"""Connections with much to send take turns, one piece in each turn of the loop."""

import asyncio
from collections.abc import Callable
from typing import cast

from headrace.transport.sending_turns import SMALL_PIECES, SendingTurns


class Loop:
    """Whoever is called soon, is called when the test says so."""

    def __init__(self) -> None:
        self.soon: list[Callable[[], None]] = []

    def call_soon(self, callback: Callable[[], None]) -> None:
        self.soon.append(callback)

    def turn(self) -> None:
        soon, self.soon = self.soon, []
        for each in soon:
            each()


class Reader:
    """Has so many pieces to be sent."""

    def __init__(self, turns: SendingTurns, name: str, pieces: int, sent: list[str]) -> None:
        self._turns, self._name, self._pieces, self._sent = turns, name, pieces, sent
        turns.join(self)

    def take_turn(self) -> None:
        self._sent.append(self._name)
        self._pieces -= 1
        if self._pieces:
            self._turns.join(self)


def made() -> tuple[Loop, SendingTurns]:
    loop = Loop()
    return loop, SendingTurns(cast(asyncio.AbstractEventLoop, loop))


def test_each_turn_of_the_loop_sends_one_piece_and_readers_alternate() -> None:
    loop, turns = made()
    sent: list[str] = []
    for name, pieces in (("a", 3), ("b", 1), ("c", 2)):
        Reader(turns, name, pieces, sent)
    per_turn = []
    while loop.soon:
        before = len(sent)
        loop.turn()
        per_turn.append(len(sent) - before)
    assert "".join(sent) == "abcaca"
    assert per_turn == [1] * 6
    assert not turns.are_wanted


def test_one_that_fails_in_its_turn_does_not_hold_up_the_others() -> None:
    loop, turns = made()
    sent: list[str] = []

    class Broken:
        def take_turn(self) -> None:
            raise AssertionError

    turns.join(Broken())
    Reader(turns, "a", 2, sent)
    try:
        loop.turn()
    except AssertionError:
        sent.append("!")
    while loop.soon:
        loop.turn()
    assert "".join(sent) == "!aa"


def test_pieces_are_small_for_a_while_after_a_short_reply() -> None:
    _, turns = made()
    assert not turns.begin_piece()
    turns.note_short()
    assert [turns.begin_piece() for _ in range(SMALL_PIECES + 2)] == [True] * SMALL_PIECES + [False] * 2
