"""Drives the replica fetchers: one for each node that leads what this one follows, each on a channel of its
own.

Partitions are told with every change of theirs (`follow`) and go to the fetcher of their leader. A fetcher
asks again as soon as it is answered; the leader makes it wait, not we. Answers are taken while their bytes
still lie where they were received: what is appended was copied once, by the kernel. What is large is
appended in slices, as its connection's turns come.

A fetcher without partitions ends, and its channel with it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Protocol

from headrace.base.clock import Clock
from headrace.base.ids import NO_LEADER
from headrace.replication.follower_log import Slices
from headrace.replication.leader_endpoint import PartitionFetchState, Request, Response
from headrace.replication.partition import Partition
from headrace.replication.replica_fetcher import FetchLimits, PendingFetch, ReplicaFetcher
from headrace.replication.replication_quotas import ReplicaQuota
from headrace.tiered.aux_state import RemoteLogAuxState, RemoteLogAuxStates

logger = logging.getLogger(__name__)

SOCKET_TIMEOUT_MS = 30_000  # Kafka's replica.socket.timeout.ms


class LeaderChannel(Protocol):
    """A way to another node."""

    def ask(
        self, request: Request, *, timeout_ms: int, take: Callable[[Response], Slices | None]
    ) -> asyncio.Future[None]:
        """Have `take` called with the response, whose bytes are gone when it returns, or when the slices
        that it gives have been gone through; then the future is done. It fails where there is no response.
        """
        ...

    def close(self) -> None: ...


class ReplicaFetcherManager:
    """All that this node follows. `connect` makes a channel to a node, by its id; nothing is fetched before
    `begin`, when the node's broker epoch is known.
    """

    def __init__(
        self,
        connect: Callable[[int], LeaderChannel],
        *,
        node_id: int,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        limits: FetchLimits | None = None,
        throttle: ReplicaQuota | None = None,
        timeout_ms: int = SOCKET_TIMEOUT_MS,
        tails: RemoteLogAuxStates | None = None,
        executor: Executor | None = None,
    ) -> None:
        """`tails` are given where topics can be tiered, and `executor` for what blocks on their store."""
        self.tails = tails
        self.executor = executor
        self._connect = connect
        self._node_id = node_id
        self._loop = loop
        self._clock = clock
        self._limits = limits or FetchLimits()
        self._throttle = throttle or ReplicaQuota()
        self._timeout_ms = timeout_ms
        self._broker_epoch: int | None = None
        self._by_leader: dict[int, _FetcherDriver] = {}
        self._leaders: dict[Partition, int] = {}

    def begin(self, broker_epoch: int) -> None:
        self._broker_epoch = broker_epoch
        for driven in self._by_leader.values():
            self._set_out(driven)

    def stop(self) -> None:
        """Ask nothing more, and take no answer."""
        self._broker_epoch = None
        for driven in self._by_leader.values():
            driven.stop()
        self._by_leader.clear()
        self._leaders.clear()

    def follow(self, partition: Partition) -> None:
        """A partition changed: follow its leader, where that is another node."""
        leader_id = partition.leader_id
        is_led_elsewhere = leader_id not in (NO_LEADER, self._node_id) and partition.log is not None
        before = self._leaders.pop(partition, None)
        if before is not None and (not is_led_elsewhere or before != leader_id):
            self._leave(partition, before)
        if is_led_elsewhere:
            self._leaders[partition] = leader_id
            driven = self._by_leader.get(leader_id)
            if driven is None:
                driven = self._by_leader[leader_id] = _FetcherDriver(self, leader_id)
            driven.core.follow(partition)
            if self._broker_epoch is not None:
                self._set_out(driven)

    def look_again(self, partition: Partition) -> None:
        """A log was synced: where that was waited for, go on."""
        driven = self._by_leader.get(self._leaders.get(partition, NO_LEADER))
        if driven is not None:
            driven.core.look_again(partition)
            driven.wake()

    def _leave(self, partition: Partition, leader_id: int) -> None:
        driven = self._by_leader[leader_id]
        driven.core.leave(partition)
        if not len(driven.core):
            del self._by_leader[leader_id]
            driven.stop()

    def _set_out(self, driven: _FetcherDriver) -> None:
        assert self._broker_epoch is not None
        driven.core.broker_epoch = self._broker_epoch
        driven.wake()


class _FetcherDriver:
    """One fetcher on its way."""

    def __init__(self, fetchers: ReplicaFetcherManager, leader_id: int) -> None:
        self._all = fetchers
        self._leader_id = leader_id
        self._channel: LeaderChannel | None = None
        self._woken: asyncio.Handle | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._stopped = False
        self.core = ReplicaFetcher(
            node_id=fetchers._node_id,
            limits=fetchers._limits,
            throttle=fetchers._throttle,
            tails=fetchers.tails,
        )

    def wake(self) -> None:
        """Look for something to ask, once for all that comes in this turn of the loop."""
        if self._woken is None and not self._stopped:
            self._woken = self._all._loop.call_soon(self._ask_all)

    def stop(self) -> None:
        self._stopped = True
        for handle in (self._woken, self._timer):
            if handle is not None:
                handle.cancel()
        if self._channel is not None:
            self._channel.close()

    def _ask_all(self) -> None:
        self._woken = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._all._broker_epoch is None:
            return
        now_ms = self._all._clock.monotonic_ms()
        while (asked := self.core.next_request(now_ms)) is not None:
            self._ask(asked)
        wanted, self.core.tails_wanted = self.core.tails_wanted, []
        for followed in wanted:
            self._fetch_tail(followed)
        due_ms = self.core.due_ms()
        if due_ms is not None:
            self._timer = self._all._loop.call_later(max(due_ms - now_ms, 1) / 1000, self.wake)

    def _ask(self, asked: PendingFetch) -> None:
        if self._channel is None:
            self._channel = self._all._connect(self._leader_id)
        done = self._channel.ask(
            asked.request, timeout_ms=self._all._timeout_ms, take=lambda response: self._take(asked, response)
        )
        done.add_done_callback(lambda over: self._over(asked, over))

    def _take(self, asked: PendingFetch, response: Response) -> Slices | None:
        if self._stopped:
            return None
        clock = self._all._clock
        return self.core.take(asked, response, clock.monotonic_ms(), clock.now_ms())

    def _over(self, asked: PendingFetch, over: asyncio.Future[None]) -> None:
        error = asyncio.CancelledError() if over.cancelled() else over.exception()
        if self._stopped:
            return
        if error is not None:
            logger.info("node %d does not answer: %s", self._leader_id, error)
            self.core.failed(asked, self._all._clock.monotonic_ms())
        self.wake()

    def _fetch_tail(self, followed: PartitionFetchState) -> None:
        tails, segment = self._all.tails, followed.tail
        assert tails is not None, "only the remote tier finds segments"
        assert segment is not None
        done = self._all._loop.run_in_executor(self._all.executor, tails.read, segment)
        done.add_done_callback(lambda over: self._tail_came(followed, over))

    def _tail_came(self, followed: PartitionFetchState, over: asyncio.Future[RemoteLogAuxState]) -> None:
        error = asyncio.CancelledError() if over.cancelled() else over.exception()
        if self._stopped:
            return
        if error is not None:
            logger.error("%s cannot start yet: %s", followed.partition.topic_partition, error)
        clock = self._all._clock
        self.core.take_tail(
            followed, over.result() if error is None else None, clock.monotonic_ms(), clock.now_ms()
        )
        self.wake()
