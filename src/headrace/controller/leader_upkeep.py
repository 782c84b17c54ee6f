"""Drives `rebalancing`: what the active controller does about leaders, at Kafka's intervals.

A round that has more to do goes on after a short while, so that requests are decided in between. What cannot
be decided just now is tried again at the next interval.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from headrace.base.errors import ApiError
from headrace.controller.cluster import Cluster
from headrace.controller.decision import Decision
from headrace.controller.rebalancing import LeaderBalance, elect_where_nobody_leads

logger = logging.getLogger(__name__)

MORE_S: Final = 0.05
"""Between the steps of one round."""

Decide = Callable[[Callable[[], Decision[bool]]], "asyncio.Future[bool]"]


class LeaderUpkeep:
    """Runs between `start` and `stop`. `cluster` gives the controller's picture as it is."""

    def __init__(
        self, decide: Decide, cluster: Callable[[], Cluster], *, loop: asyncio.AbstractEventLoop
    ) -> None:
        self._decide = decide
        self._cluster = cluster
        self._loop = loop
        self._balance = LeaderBalance()
        self._timers: dict[str, asyncio.TimerHandle] = {}

    def start(self) -> None:
        self.stop()
        self._balance = LeaderBalance()
        self._later("balance", self._interval_s("balance"))
        self._later("unclean", self._interval_s("unclean"))

    def stop(self) -> None:
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def _interval_s(self, work: str) -> float:
        config = self._cluster().config
        if work == "balance":
            return float(config.int("leader.imbalance.check.interval.seconds"))
        return config.int("unclean.leader.election.interval.ms") / 1000

    def _later(self, work: str, delay_s: float) -> None:
        self._timers[work] = self._loop.call_later(delay_s, self._run, work)

    def _run(self, work: str) -> None:
        if work == "balance" and not self._cluster().config.bool("auto.leader.rebalance.enable"):
            self._later(work, self._interval_s(work))
            return
        try:
            done = self._decide(lambda: self._step(work))
        except ApiError as error:
            logger.info("leaders are left as they are: %s", error)
            self._later(work, self._interval_s(work))
            return
        # What is decided need not be committed before the next step is thought about.
        done.add_done_callback(_forget)

    def _step(self, work: str) -> Decision[bool]:
        cluster = self._cluster()
        decision = self._balance.step(cluster) if work == "balance" else elect_where_nobody_leads(cluster)
        if decision.records:
            logger.info("%d leaders change (%s)", len(decision.records), work)
        self._later(work, MORE_S if decision.reply else self._interval_s(work))
        return decision


def _forget(done: "asyncio.Future[bool]") -> None:
    """A failure of the log is told to those who wait for it."""
    if not done.cancelled():
        done.exception()
