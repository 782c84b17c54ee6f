"""The consumer on its loop: what a poll does, and what goes on between polls.

A poll lets the group membership do what the user must see, plans what has to be found out (metadata,
committed offsets, resets), sends fetches, and returns rows that have arrived; without any it waits for news.
Work that asks brokers runs as one task beside the polls (`_work`), so that a poll can return in time whatever
happens there. Failures that the user must hear of are kept and raised by the next poll, once.
"""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any, Final

from headrace.base.ids import TopicPartition
from headrace.clients.config import ClientConfig
from headrace.clients.errors import ClientError, ClosedError, WakeupError
from headrace.clients.internals.background import in_caller
from headrace.clients.internals.client_metrics import MetricName
from headrace.clients.internals.client_telemetry_reporter import ClientTelemetryReporter
from headrace.clients.internals.consumer.commit_request_manager import CommitRequestManager
from headrace.clients.internals.consumer.completed_fetch import CompletedFetch, ConsumerRecord, Deserializer
from headrace.clients.internals.consumer.consumer_coordinator import ConsumerCoordinator
from headrace.clients.internals.consumer.consumer_membership_manager import ConsumerMembershipManager
from headrace.clients.internals.consumer.fetch_collector import FetchCollector
from headrace.clients.internals.consumer.fetcher import Fetcher
from headrace.clients.internals.consumer.group_coordinator_client import (
    GroupCoordinatorClient,
    Membership,
    may_pass,
)
from headrace.clients.internals.consumer.membership_manager import MembershipManager
from headrace.clients.internals.consumer.offset_fetcher import OffsetFetcher
from headrace.clients.internals.consumer.subscription_state import (
    PartitionStates,
    SubscriptionState,
    TopicPartitionState,
)
from headrace.clients.internals.environment import ClientEnvironment
from headrace.clients.internals.network_client import MetadataUpdater, NetworkClient
from headrace.clients.offsets import OffsetAndMetadata


class PollSignal:
    """What a poll waits for: set when anything changes that it should look at. One waits at a time."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiter: asyncio.Future[None] | None = None
        self._is_set = False

    def set(self) -> None:
        self._is_set = True
        self._end_wait()

    def _end_wait(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def clear(self) -> None:
        """From here on only what comes later counts."""
        self._is_set = False

    async def wait(self, milliseconds: float) -> None:
        """Until it is set, or the time is over; not at all where it was set since the last `clear`."""
        if self._is_set:
            return
        self._waiter = self._loop.create_future()
        timer = self._loop.call_later(milliseconds / 1000, self._end_wait)
        try:
            await self._waiter
        finally:
            timer.cancel()
            self._waiter = None


# For so long the polls of a sync face may do without the loop, which commits, joins and asks for metadata.
_HERE_MS: Final = 20


class ConsumerCore:
    """A consumer on its loop, without a face. It is the `RebalanceHandler` of its membership."""

    def __init__(
        self,
        environment: ClientEnvironment,
        config: ClientConfig,
        *,
        key_deserializer: Deserializer | None = None,
        value_deserializer: Deserializer | None = None,
    ) -> None:
        self.environment = environment
        self.config = config
        self.client = NetworkClient(environment, config)
        self.reporter = ClientTelemetryReporter(self.client, self.metrics)
        self.positions = PartitionStates()
        self.subscription = SubscriptionState()
        self.fetch_collector = FetchCollector(
            self.positions,
            key_deserializer,
            value_deserializer,
            on_much=environment.load_kernels,
            metrics=self.client.metrics,
        )
        self._signal = PollSignal(environment.loop)
        self.metadata_updater = MetadataUpdater(self.client, on_news=self.news)
        self.fetcher = Fetcher(
            self.client,
            self.positions,
            on_news=self.news,
            on_stale=self.metadata_updater.request_update,
            on_out_of_range=self._out_of_range,
            on_failure=self.fail,
        )
        self.offset_fetcher = OffsetFetcher(
            self.client,
            self.positions,
            is_committed=self.fetcher.is_committed,
            on_failure=self.fail,
            on_stale=self.metadata_updater.request_update,
        )
        group_id = config.str("group.id")
        self.coordinator = GroupCoordinatorClient(self.client, group_id) if group_id else None
        self._member: MembershipManager | None = None
        self.commits = CommitRequestManager(
            self.client,
            self.positions,
            group=self.need_group,
            identity=lambda: self.identity,
            identity_for=self._identity_for,
            on_refusal=self._doubt_membership,
            begin=self.begin,
            is_automatic=config.bool("enable.auto.commit") and bool(group_id),
        )
        self.last_poll_ms = environment.now_ms()
        self._failure: ClientError | None = None
        self._is_woken = False
        self._working: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.is_closed = False
        self._poll_records = config.int("max.poll.records")
        self._here_until_ms = 0

    # What parts tell

    def news(self) -> None:
        """Something changed: a waiting poll looks again."""
        self._signal.set()

    def fail(self, error: ClientError) -> None:
        """For the next poll to raise."""
        self._failure = self._failure or error
        self.news()

    def wake_up(self) -> None:
        """End the current or next poll with WakeupError."""
        self._is_woken = True
        self.news()

    def _out_of_range(self, state: TopicPartitionState) -> None:
        self.offset_fetcher.apply_policy(state, f"has no record at offset {state.fetch_offset}")
        self.news()

    # Polling

    async def poll(self, timeout_ms: float, limit: int | None = None) -> list[ConsumerRecord]:
        """Up to `limit` records; none when the time is up."""
        wanted = limit or self._poll_records
        if not await self.arrive(timeout_ms):
            return []
        rows = self.fetch_collector.take(wanted)
        self.fetcher.send_fetches()
        return rows

    def poll_now(self, limit: int | None = None) -> list[ConsumerRecord]:
        """What a poll would return at once; nothing where it would first have to wait or call a listener."""
        if self.is_closed or self._failure is not None or self._is_woken:
            return []
        if self._member is not None and self._member.has_work:
            return []
        self.last_poll_ms = self.environment.now_ms()
        self.commits.commit_by_the_clock()
        rows = self.fetch_collector.take(limit or self._poll_records)
        if rows:
            self._plan_work()
            self.fetcher.send_fetches()
            self._here_until_ms = self.last_poll_ms + _HERE_MS
        return rows

    def poll_here(self, limit: int | None = None) -> list[ConsumerRecord]:
        """The same in the caller's thread, for a while: rows that were fetched need nothing of the loop."""
        if self.is_closed or self._failure is not None or self._is_woken:
            return []
        now_ms = self.environment.now_ms()
        if now_ms >= self._here_until_ms or (self._member is not None and self._member.has_work):
            return []
        self.last_poll_ms = now_ms
        rows, is_room = self.fetch_collector.take_on(limit or self._poll_records)
        if is_room:
            self.environment.loop.call_soon_threadsafe(self.fetcher.send_fetches)
        return rows

    async def poll_chunks(self, timeout_ms: float) -> list[tuple[int, CompletedFetch]]:
        """All that has arrived, not yet decoded: each chunk with the offset to read it from."""
        await self.arrive(timeout_ms)
        chunks = self.fetch_collector.detach()
        self.fetcher.send_fetches()
        return chunks

    def go_back(self, places: Mapping[TopicPartition, int]) -> None:
        """What was polled could not be read: the positions are where they were."""
        for partition, offset in places.items():
            state = self.positions.get(partition)
            if state is not None:
                state.seek(offset)

    async def arrive(self, timeout_ms: float) -> bool:
        """Do everything a poll does until there is data to take; False when the time is up."""
        deadline_ms = self.environment.now_ms() + timeout_ms
        while True:
            self._check_usable()
            self._signal.clear()
            self.last_poll_ms = self.environment.now_ms()
            self._raise_failure()
            if self._member is not None and self._member.has_work:
                await self._member.advance()
            self.commits.commit_by_the_clock()
            self._plan_work()
            next_ms = self.fetcher.send_fetches()
            if any(state.has_data and not state.is_paused for state in self.positions):
                return True
            left_ms = deadline_ms - self.environment.now_ms()
            if left_ms <= 0:
                return False
            # What was due before is under way, and sets the signal when it is done.
            pauses = [self.metadata_updater.retry_at_ms, *(state.retry_at_ms for state in self.positions)]
            next_ms = min([next_ms, *(each for each in pauses if each > self.last_poll_ms)])
            await self._signal.wait(min(left_ms, max(1.0, next_ms - self.environment.now_ms())))

    async def wait_for(self, condition: Callable[[], bool], timeout_ms: float) -> bool:
        """Work without taking rows until something holds; whether it does."""
        deadline_ms = self.environment.now_ms() + timeout_ms
        while not condition() and (left_ms := deadline_ms - self.environment.now_ms()) > 0:
            self._signal.clear()
            self._raise_failure()
            self._plan_work()
            await self._signal.wait(min(left_ms, float(self.client.retry.most_ms)))
        return condition()

    def _check_usable(self) -> None:
        if self.is_closed:
            raise ClosedError("the consumer is closed: make another one")
        if not (self.positions.states or self.subscription.is_group or self.subscription.is_manual):
            raise ClientError("there is nothing to read yet: subscribe to topics or assign partitions first")

    def _raise_failure(self) -> None:
        if self._is_woken:
            self._is_woken = False
            raise WakeupError("the poll was woken up")
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure

    # Work beside the polls

    def _plan_work(self) -> None:
        needs_metadata = self.metadata_updater.is_due
        needs_work = needs_metadata or self.offset_fetcher.has_work or self._unplaced()
        if needs_work and self._working is None and (self.positions.states or self.subscription.is_group):
            self._working = self.begin(self._work(needs_metadata))
            self._working.add_done_callback(self._worked)

    def _worked(self, task: "asyncio.Task[None]") -> None:
        self._working = None
        if not task.cancelled() and isinstance(error := task.exception(), ClientError):
            self.fail(error)
        self.news()

    def begin(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        task = self.environment.loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _unplaced(self) -> list[TopicPartitionState]:
        """Partitions without a position, for which nothing is under way."""
        now_ms = self.environment.now_ms()
        return [
            state
            for state in self.positions
            if state.position < 0 and state.reset_to is None and state.retry_at_ms <= now_ms
        ]

    async def _work(self, needs_metadata: bool) -> None:
        if needs_metadata:
            await self._refresh()
        await self._place(self._unplaced())
        await self.offset_fetcher.work()

    async def _refresh(self) -> None:
        everything = self.subscription.pattern is not None
        await self.metadata_updater.refresh(
            self._wanted_topics, lambda: self.positions.partitions, everything=everything
        )
        excludes = self.config.bool("exclude.internal.topics")
        if self.subscription.match(self.client.metadata.topics, excludes_internal=excludes) and self._member:
            self._member.subscription_changed()
        self.offset_fetcher.mark_stale_epochs()

    def _wanted_topics(self) -> set[str]:
        return {*self.subscription.topics, *(each.topic for each in self.positions.partitions)}

    async def _place(self, states: list[TopicPartitionState]) -> None:
        """Give a position to partitions without one: what the group committed, or the policy's."""
        if not states:
            return
        eras = {state.partition: state.era for state in states}
        committed: dict[TopicPartition, OffsetAndMetadata] = {}
        if self.coordinator is not None:
            try:
                committed = await self.coordinator.committed(eras, self.identity)
            except ClientError as error:
                if not may_pass(error):
                    raise
                self.offset_fetcher.pause(states)
                self.metadata_updater.trouble = error
                return
        self.offset_fetcher.place(states, eras, committed)

    # Commits

    @property
    def identity(self) -> Membership:
        if self._member is None:
            return Membership(instance_id=self.config.str("group.instance.id") or None)
        return self._member.identity

    def _identity_for(self, begun: Membership) -> Membership:
        if self._member is not None and self._member.is_out:
            raise self.need_group().not_a_member()
        if self._member is not None and not self._member.is_still(begun):
            raise self.need_group().of_an_earlier_generation()
        return self.identity

    def _doubt_membership(self) -> None:
        if self._member is not None:
            self._member.doubt()

    def need_group(self) -> GroupCoordinatorClient:
        if self.coordinator is None:
            raise ClientError("offsets are committed for a group: give a group.id")
        return self.coordinator

    # RebalanceHandler: what the membership asks

    @property
    def owned(self) -> set[TopicPartition]:
        return self.positions.partitions

    @property
    def topics(self) -> set[str]:
        return self.subscription.topics

    @property
    def pattern(self) -> str | None:
        return self.subscription.wanted

    def match_here(self) -> None:
        self.subscription.match_here()
        self.metadata_updater.request_update()

    async def before_rebalance(self) -> None:
        await self.commits.end()

    async def revoke(self, partitions: Iterable[TopicPartition]) -> None:
        given_up = sorted(partitions)
        if given_up:
            try:
                await in_caller(self.subscription.listener.on_revoked, given_up)
            finally:
                self.positions.remove(given_up)  # whatever the listener says: they are others' now

    async def lose(self, partitions: Iterable[TopicPartition]) -> None:
        self.commits.give_up()
        lost = sorted(partitions)
        if lost:
            try:
                await in_caller(self.subscription.listener.on_lost, lost)
            finally:
                self.positions.remove(lost)

    async def grant(self, partitions: Iterable[TopicPartition]) -> None:
        granted = sorted(partitions)
        self.positions.add(granted)
        self.commits.restart_clock()
        if any(self.client.metadata.leader(each).node < 0 for each in granted):
            self.metadata_updater.request_update()
        await in_caller(self.subscription.listener.on_assigned, granted)

    # Subscribing

    @property
    def is_assigned_by_coordinator(self) -> bool:
        return self.config.str("group.protocol").lower() == "consumer"

    def check_subscribable(self) -> None:
        """A refused subscription leaves everything as it was."""
        if self.coordinator is None:
            raise ClientError(
                "who subscribes shares topics with a group: give a group.id, "
                "or assign partitions to read them alone"
            )

    def join(self) -> None:
        """The subscription changed: become a member, or tell the group."""
        coordinator = self.need_group()
        self.metadata_updater.request_update()
        if self._member is None:
            kind = ConsumerMembershipManager if self.is_assigned_by_coordinator else ConsumerCoordinator
            self._member = kind(self.client, coordinator, self, on_failure=self.fail)
        self._member.subscription_changed()
        self.news()

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        self.subscription.to_partitions()
        self.positions.replace(partitions)
        self.metadata_updater.trouble = None  # it was of other partitions
        self.commits.restart_clock()
        self.metadata_updater.request_update()
        self.news()

    async def unsubscribe(self) -> None:
        """Leave the group, keep no partition."""
        await self._leave()
        self.subscription.clear()
        self.positions.replace(())

    async def _leave(self) -> None:
        await self.commits.end()
        member = self._member
        if member is not None:
            await self.revoke(self.owned)
            self._member = None
            await member.leave()

    def metrics(self) -> dict[MetricName, float]:
        values = self.client.metrics.of_consumer(self.environment.now_ms())
        return self.client.read_metrics("consumer-metrics", values)

    async def close(self, timeout_ms: int) -> None:
        """Commit, leave the group, and end."""
        if self.is_closed:
            return
        try:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._leave(), timeout_ms / 1000)
            await self.reporter.push_last()
        finally:
            self.reporter.close()
            self.is_closed = True
            self.fetcher.close()
            for task in self._tasks:
                task.cancel()
            self.client.close()
            self.news()
