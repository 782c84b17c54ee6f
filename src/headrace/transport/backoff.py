"""How long to wait before trying again: twice as long each time, up to a bound, never quite the same.

Kafka's reconnect.backoff.* and retry.backoff.* (KIP-144, KIP-580): the first wait is `first_ms`, each further
one doubles up to `most_ms`, and chance moves it by up to a fifth, so that many clients that lost the same
broker do not come back in step.
"""

import random
from dataclasses import dataclass
from typing import Final

JITTER: Final = 0.2


@dataclass(frozen=True, slots=True)
class Backoff:
    """The rule; how many attempts have failed is the caller's to count."""

    first_ms: int
    most_ms: int
    rng: random.Random

    def wait_ms(self, failures: int) -> float:
        """How long to wait after so many failures in a row; nothing before the first."""
        if failures <= 0 or self.first_ms <= 0:
            return 0.0
        plain = min(self.first_ms * 2.0 ** min(failures - 1, 30), max(self.most_ms, self.first_ms))
        return plain * self.rng.uniform(1 - JITTER, 1 + JITTER)
