"""How good or bad a simulated network is: what every packet and every system call has to expect."""

import random
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Conditions:
    """The defaults are a quiet local network whose kernel still takes and gives less than was asked for."""

    latency_s_min: float = 0.000_05
    latency_s_max: float = 0.000_5
    # A packet that was lost arrives all the same, after its sender has sent it again.
    loss_rate: float = 0.0
    resend_s: float = 0.2
    # Chance that a call takes or gives only part of what it could.
    short_rate: float = 0.1
    # Chance that what is sent in one call arrives in several pieces.
    split_rate: float = 0.1
    # What a connection holds in one direction, in both kernels and on the way: beyond it the sender waits.
    buffer_bytes: int = 64 * 1024
    # An unanswered connection attempt is given up after this.
    connect_s_max: float = 10.0
    # Data that could not be brought to the other side for so long breaks the connection.
    unacknowledged_s_max: float = 60.0

    @classmethod
    def drawn(cls, rng: random.Random) -> "Conditions":
        """Anything from a perfect wire to a bad day."""
        return cls(
            latency_s_max=rng.choice([0.000_1, 0.000_5, 0.005, 0.05]),
            loss_rate=rng.choice([0.0, 0.0, 0.001, 0.02]),
            short_rate=rng.choice([0.0, 0.1, 0.5, 0.9]),
            split_rate=rng.choice([0.0, 0.1, 0.5, 0.9]),
            buffer_bytes=rng.choice([1_000, 16 * 1024, 64 * 1024, 512 * 1024]),
        )

    def latency_s(self, rng: random.Random) -> float:
        delay = rng.uniform(self.latency_s_min, self.latency_s_max)
        if self.loss_rate and rng.random() < self.loss_rate:
            delay += self.resend_s
        return delay

    def perhaps_fewer(self, rng: random.Random, count: int) -> int:
        """Of `count` bytes that could be moved, how many a call moves: all, or now and then fewer."""
        if count > 1 and self.short_rate and rng.random() < self.short_rate:
            return rng.randint(1, count)
        return count

    def pieces(self, rng: random.Random, data: bytes) -> list[bytes]:
        """The packets in which `data` travels."""
        if len(data) < 2 or not self.split_rate or rng.random() >= self.split_rate:
            return [data]
        cuts = sorted({rng.randrange(1, len(data)) for _ in range(rng.randint(1, 4))})
        return [data[start:end] for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True)]
