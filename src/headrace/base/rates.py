"""How fast something happens, as Kafka measures it for quotas: over the last windows, or by a bucket.

A `SampledRate` is Kafka's Rate over a SampledStat: what happened is summed up in windows, and the rate is
their sum over the time that they span. That time is never less than all windows but one, so that a
short burst after a pause is measured against the whole span. A `TokenBucket` fills at the rate that is
allowed; what is taken may leave it below nothing, and then it must fill again (KIP-599).

Time is an argument, in milliseconds of a clock that does not jump.
"""

from collections import deque
from typing import Final, NamedTuple

MS: Final = 1000.0


class Windows(NamedTuple):
    """So many windows of this length: Kafka's `*quota.window.num` and `*quota.window.size.seconds`."""

    samples: int = 11
    size_ms: int = 1000

    @property
    def span_ms(self) -> int:
        return self.samples * self.size_ms


ELEVEN_SECONDS: Final = Windows()
"""Kafka's default."""


class _Sample:
    """What happened within one window."""

    __slots__ = ("last_ms", "start_ms", "sum")

    def __init__(self, now_ms: int, value: float) -> None:
        self.start_ms = self.last_ms = now_ms
        self.sum = value


class SampledRate:
    """What happened in a second, on the average of the last windows."""

    __slots__ = ("_samples", "_sum", "windows")

    def __init__(self, windows: Windows) -> None:
        self.windows = windows
        self._samples: deque[_Sample] = deque()
        self._sum = 0.0

    def record(self, value: float, now_ms: int) -> None:
        """So much happened; less than nothing takes back what was recorded."""
        self._forget_old(now_ms)
        samples = self._samples
        if samples and now_ms - samples[-1].start_ms < self.windows.size_ms:
            samples[-1].sum += value
            samples[-1].last_ms = now_ms
        else:
            samples.append(_Sample(now_ms, value))
        self._sum += value

    def rate(self, now_ms: int) -> float:
        """In a second."""
        span_ms = self._span_ms(now_ms)
        return self._sum / span_ms * MS

    def throttle_ms(self, limit: float, now_ms: int) -> int:
        """How long nothing may happen until the rate is down to the limit; 0 where it is not above it."""
        span_ms = self._span_ms(now_ms)
        rate = self._sum / span_ms * MS
        return 0 if rate <= limit else round((rate - limit) / limit * span_ms)

    def is_idle(self, now_ms: int) -> bool:
        """Nothing is remembered: a new one would be the same."""
        self._forget_old(now_ms)
        return not self._samples

    def _span_ms(self, now_ms: int) -> int:
        self._forget_old(now_ms)
        count, size_ms = self.windows
        elapsed_ms = now_ms - self._samples[0].start_ms if self._samples else 0
        missing = count - 1 - elapsed_ms // size_ms
        return max(elapsed_ms + missing * size_ms if missing > 0 else elapsed_ms, size_ms)

    def _forget_old(self, now_ms: int) -> None:
        samples, span_ms = self._samples, self.windows.span_ms
        while samples and now_ms - samples[0].last_ms >= span_ms:
            self._sum -= samples.popleft().sum
        if not samples:
            self._sum = 0.0


class TokenBucket:
    """Tokens come at a rate, and as many as come in all windows are kept."""

    __slots__ = ("_at_ms", "_tokens", "windows")

    def __init__(self, windows: Windows) -> None:
        self.windows = windows
        self._tokens = 0.0
        self._at_ms: int | None = None  # None: it is full

    def take(self, count: float, rate: float, now_ms: int) -> None:
        """There may be fewer than nothing afterwards."""
        self._fill(rate, now_ms)
        self._tokens -= count

    def throttle_ms(self, rate: float, now_ms: int) -> int:
        """How long until there are not less than none."""
        self._fill(rate, now_ms)
        return 0 if self._tokens >= 0 else round(-self._tokens / rate * MS)

    def is_full(self, rate: float, now_ms: int) -> bool:
        """A new one would be the same."""
        self._fill(rate, now_ms)
        return self._tokens >= self._burst(rate)

    def _burst(self, rate: float) -> float:
        return rate * self.windows.span_ms / MS

    def _fill(self, rate: float, now_ms: int) -> None:
        burst = self._burst(rate)
        if self._at_ms is None:
            self._tokens = burst
        else:
            self._tokens = min(burst, self._tokens + rate * (now_ms - self._at_ms) / MS)
        self._at_ms = now_ms
