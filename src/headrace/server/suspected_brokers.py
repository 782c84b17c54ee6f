"""Brokers that may just have died: clients that ask for a leader are told of the next one.

A client whose broker died asks another one at once, and that one may not know better yet: it takes some
milliseconds until the controller has fenced the dead broker and the log has told everybody. A client that
hears of the same leader again waits for its back-off before it asks once more, up to a second. So an answer
that names a broker in doubt is held back until the image changes, the doubt ends, or a second has passed: it
would be of no use.

A broker is in doubt when a connection to it ended that was up (`suspect`), and until one has lasted again
(`trust`). A process that dies does not close all its connections in the same moment, and this node's may be
the last: so a broker is asked whether it is there before it is named, where there is a way to (`ask`). One
that lives answers within a fraction of a millisecond; one that is slow is named all the same.

Who was suspected stays listed among the brokers for some seconds though it is fenced (`lingering`):
librdkafka forgets a partition's leader where the same answer names another one and leaves the last one out,
and finds it again only when its next second begins.
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import Final, TypeVar

T = TypeVar("T")

DOUBT_S: Final = 1.0
"""As long as an answer is held back at most: electing another controller takes a fraction of it."""

LINGER_S: Final = 3.0
"""For so long after a suspicion a broker stays listed: clients have heard of its successors by then."""


class SuspectedBrokers:
    """Who is in doubt, and the answers that are held back for it.

    `ask` gives, for a broker, a future that is done when it has answered, is in doubt, or takes its time;
    None where it need not or cannot be asked.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        ask: "Callable[[int], asyncio.Future[None] | None]" = lambda broker_id: None,
    ) -> None:
        self._loop = loop
        self._ask = ask
        self._ends: dict[int, asyncio.TimerHandle] = {}
        self._suspected: dict[int, float] = {}
        self._held: dict[Callable[[], bool], None] = {}

    def suspect(self, broker_id: int) -> None:
        self._suspected[broker_id] = self._loop.time()
        if broker_id not in self._ends:
            self._ends[broker_id] = self._loop.call_later(DOUBT_S, self.trust, broker_id)

    def lingering(self) -> set[int]:
        """Brokers that were suspected lately."""
        if self._suspected:
            since = self._loop.time() - LINGER_S
            self._suspected = {each: at for each, at in self._suspected.items() if at > since}
        return set(self._suspected)

    def trust(self, broker_id: int) -> None:
        """It lives, or it is not worth waiting any longer."""
        timer = self._ends.pop(broker_id, None)
        if timer is not None:
            timer.cancel()
            self.look_again()

    def look_again(self) -> None:
        """Leaders may have changed: answer whoever can be told of others now."""
        for try_again in list(self._held):
            if try_again():
                self._held.pop(try_again, None)

    def close(self) -> None:
        """Answer everybody with what is known."""
        for broker_id in list(self._ends):
            self.trust(broker_id)

    def settled(
        self, answer: Callable[[], T], names: Callable[[T], Iterable[int]]
    ) -> "T | asyncio.Future[T]":
        """The answer, now or as soon as none of the brokers it names is in doubt."""
        first = answer()
        named = set(names(first))
        asked = [each for each in map(self._ask, named) if each is not None]
        if not asked and self._are_trusted(named):
            return first
        held: asyncio.Future[T] = self._loop.create_future()

        def try_again() -> bool:
            if not held.done():
                later = answer()
                if self._are_trusted(names(later)):
                    held.set_result(later)
            return held.done()

        def when_asked(_: object) -> None:
            if not all(each.done() for each in asked) or held.done():
                return
            if self._are_trusted(named):
                held.set_result(first)  # all of them live: it need not be made again, which may take long
            elif not try_again():
                self._held[try_again] = None

        for each in asked:
            each.add_done_callback(when_asked)
        if not asked:
            self._held[try_again] = None
        return held

    def _are_trusted(self, broker_ids: Iterable[int]) -> bool:
        return not self._ends or self._ends.keys().isdisjoint(broker_ids)
