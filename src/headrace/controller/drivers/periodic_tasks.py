"""What the active controller does by itself, at Kafka's intervals: it drives `LeaderBalance` and unclean
elections, and forgets delegation tokens that have expired (Kafka's PeriodicTaskControlManager).

A round that has more to do goes on after a short while, so that requests are decided in between. What cannot
be decided just now is tried again at the next interval.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from headrace.base.errors import ApiError
from headrace.base.futures import ignore
from headrace.controller.cluster_state import ClusterState
from headrace.controller.controller_result import ControllerResult
from headrace.controller.delegation_token_control import expired_tokens
from headrace.controller.partition_control import LeaderBalance, elect_where_nobody_leads

logger = logging.getLogger(__name__)

MORE_S: Final = 0.05
"""Between the steps of one round."""

Decide = Callable[[Callable[[], ControllerResult[bool]]], "asyncio.Future[bool]"]


class PeriodicTasks:
    """Runs between `start` and `stop`. `cluster` gives the controller's picture as it is."""

    def __init__(
        self,
        decide: Decide,
        cluster: Callable[[], ClusterState],
        *,
        loop: asyncio.AbstractEventLoop,
        wall_ms: Callable[[], int],
    ) -> None:
        self._decide = decide
        self._cluster = cluster
        self._loop = loop
        self._wall_ms = wall_ms
        self._balance = LeaderBalance()
        self._timers: dict[str, asyncio.TimerHandle] = {}

    def start(self) -> None:
        self.stop()
        self._balance = LeaderBalance()
        self._later("balance", self._interval_s("balance"))
        self._later("unclean", self._interval_s("unclean"))
        self._later("tokens", self._interval_s("tokens"))

    def stop(self) -> None:
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def _interval_s(self, work: str) -> float:
        config = self._cluster().config
        if work == "balance":
            return float(config.int("leader.imbalance.check.interval.seconds"))
        if work == "tokens":
            return config.int("delegation.token.expiry.check.interval.ms") / 1000
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
            logger.info("leaders and tokens are left as they are: %s", error)
            self._later(work, self._interval_s(work))
            return
        # What is decided need not be committed before the next step is thought about.
        done.add_done_callback(ignore)

    def _step(self, work: str) -> ControllerResult[bool]:
        cluster = self._cluster()
        if work == "tokens":
            decision = expired_tokens(cluster, self._wall_ms())
        else:
            decision = self._balance.step(cluster) if work == "balance" else elect_where_nobody_leads(cluster)
        if decision.records and work == "tokens":
            logger.info("%d delegation tokens have expired", len(decision.records))
        elif decision.records:
            logger.info("%d leaders change (%s)", len(decision.records), work)
        self._later(work, MORE_S if decision.reply else self._interval_s(work))
        return decision
