"""Producers that a program has not closed when it ends: what they hold is sent then, or is said to be lost.

A sync producer's loop runs in a thread of its own, which still works while the interpreter ends: its records
are sent, for as long as EXIT_MS. The loop of an `AsyncProducer` is gone by then, so that what it holds can
only be counted. A process that was forked has none of its parent's threads, and none of its producers.
"""

import atexit
import logging
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from headrace.clients.internals.producer.core import ProducerCore

log = logging.getLogger(__name__)

EXIT_MS: Final = 10_000
"""A program that ends while no broker can be reached should not seem to hang."""

Close = Callable[[int], None]

_UNCLOSED: Final[dict["ProducerCore", Close | None]] = {}


def remember(core: "ProducerCore", close: Close | None = None) -> None:
    """A producer was made. `close`, with its time-out, works without an event loop of the caller's."""
    _UNCLOSED[core] = close


def forget(core: "ProducerCore") -> None:
    """It was closed."""
    _UNCLOSED.pop(core, None)


@atexit.register
def end_all() -> None:
    """Send what producers hold that nobody has closed, and say what could not be sent."""
    for core, close in list(_UNCLOSED.items()):
        waiting = core.batches.undecided()
        if waiting and close is not None:
            close(EXIT_MS)
        lost = sum(each.count or len(each.rows) for each in waiting if not each.is_done or each.error(0))
        if lost:
            log.warning(
                "%d record%s never written, because the program ended before: close a producer, or use it "
                "in a with statement",
                lost,
                " was" if lost == 1 else "s were",
            )


os.register_at_fork(after_in_child=_UNCLOSED.clear)
