"""A bell that a poll waits for: rung when anything changes that it should look at."""

import asyncio


class News:
    """Lives on one loop; one waits at a time."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiter: asyncio.Future[None] | None = None
        self._is_rung = False

    def ring(self) -> None:
        self._is_rung = True
        self._end_wait()

    def _end_wait(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def hush(self) -> None:
        """From here on only new rings count."""
        self._is_rung = False

    async def wait(self, milliseconds: float) -> None:
        """Until it rings, or the time is over; not at all where it has rung since the last `hush`."""
        if self._is_rung:
            return
        self._waiter = self._loop.create_future()
        timer = self._loop.call_later(milliseconds / 1000, self._end_wait)
        try:
            await self._waiter
        finally:
            timer.cancel()
            self._waiter = None
