"""What a node that cannot start yet tells whoever started it: for whom it waits, and since when that is odd.

A node of a cluster waits for the others for as long as it takes, and most often for a moment only. Where it
takes longer there may be a reason that nobody would find in silence: an address that is wrong, a cluster of
another id, an id that is taken.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Final, TypeVar

T = TypeVar("T")

ODD_AFTER_S: Final = 5.0
"""Longer than others of a cluster that starts take; less than somebody waits before they look."""
AGAIN_AFTER_S: Final = 30.0


async def telling(
    work: Coroutine[object, object, T], say: Callable[[str], None] | None, reason: Callable[[], str]
) -> T:
    """What the work returns; while it takes long, the reason is told now and then."""
    if say is None:
        return await work
    task = asyncio.ensure_future(work)
    wait_s = ODD_AFTER_S
    try:
        while not (await asyncio.wait([task], timeout=wait_s))[0]:
            say(reason())
            wait_s = AGAIN_AFTER_S
        return task.result()
    finally:
        task.cancel()
