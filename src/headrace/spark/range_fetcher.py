"""Fetches one range of offsets after another for the tasks of a Python worker.

A worker outlives its tasks, so its fetchers do too: connections, versions and metadata are kept for the next
task (`borrowed_fetcher`), which makes a micro-batch cheap. The consumer's core does the fetching, on a loop
in a thread of its own; it runs ahead of the task by a bounded number of bytes, so that the network, decoding
here and Spark's reading go on at the same time.

Where records that the driver planned are not to be had (aged out, cut off, their topic deleted), a `DataLoss`
is raised; who reads decides whether to go on behind it.
"""

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from headrace.base.error_codes import ErrorCode
from headrace.base.ids import TopicPartition
from headrace.clients import OffsetSpec
from headrace.clients.config import CONSUMER, ClientConfig
from headrace.clients.errors import (
    ClientError,
    LogTruncatedError,
    NoOffsetError,
    RefusedError,
    TimedOutError,
)
from headrace.clients.internals.background import Background
from headrace.clients.internals.consumer.completed_fetch import CompletedFetch
from headrace.clients.internals.consumer.core import ConsumerCore
from headrace.clients.internals.environment import system_environment
from headrace.clients.internals.offset_lookup import find_offsets
from headrace.spark.options import ReadOptions
from headrace.spark.ranges import OffsetRange
from headrace.spark.worker import WorkerClients

# One answer is one Arrow batch: large enough that Spark's cost of a batch does not show. Two wait, one is on
# its way and one is being decoded, so a task holds some five of these whatever the backlog is.
FETCH_BYTES: Final = 4 * 1024 * 1024
_DEFAULTS: Final = {
    "max.partition.fetch.bytes": str(FETCH_BYTES),
    "fetch.max.bytes": str(2 * FETCH_BYTES),
    # All that is wanted is there already; only a log that is shorter than planned makes a broker wait.
    "fetch.max.wait.ms": "100",
}
# What the source relies on, whatever the user says.
_OURS: Final = {
    "auto.offset.reset": "none",
    "enable.auto.commit": "false",
    "allow.auto.create.topics": "false",
}
_POLL_MS: Final = 1000
# A broker that was just started may not know a topic yet; one that is unknown for longer is gone.
_GONE_AFTER_MS: Final = 5000


class DataLossError(Exception):
    """Planned records that are not there; `resume_at` is where the partition goes on."""

    def __init__(self, text: str, resume_at: int) -> None:
        super().__init__(text)
        self.resume_at = resume_at


class RangeFetcher:
    """A consumer of one partition at a time."""

    def __init__(self, options: ReadOptions) -> None:
        settings = {**_DEFAULTS, "client.id": options.group_id_prefix, **options.settings, **_OURS}
        self._config = ClientConfig(CONSUMER, settings)
        self._patience_ms = options.poll_timeout_ms
        self._background = Background("headrace-spark")
        environment = system_environment(self._background.loop, self._config)
        # Those are for rows; columns have kernels of their own.
        environment = replace(environment, load_kernels=lambda: None)
        with self._background.closed_on_error():
            self._core = self._background.call(ConsumerCore, environment, self._config)
        self._now_ms = environment.now_ms

    def close(self) -> None:
        with contextlib.closing(self._background):
            self._background.run(self._core.close, 1000)

    @property
    def buffered_bytes(self) -> int:
        """What has arrived and waits for the task."""
        return self._core.positions.buffered_bytes()

    def rest(self) -> None:
        """Stop fetching until the next range."""
        self._background.call(self._core.assign, ())

    def chunks(self, wanted: OffsetRange) -> Iterator[tuple[int, CompletedFetch]]:
        """What the broker has of a range, as it came, each with the offset to read it from.

        DataLossError where part of it is not there; TimedOutError where nothing comes for too long.
        """
        partition, position = wanted.topic_partition, wanted.start
        self._background.call(self._begin, wanted)
        moved_ms = self._now_ms()
        while position < wanted.end:
            try:
                arrived = self._background.run(self._core.poll_chunks, _POLL_MS)
            except (NoOffsetError, LogTruncatedError) as error:
                raise self._lost(partition, position, error) from error
            for offset, chunk in arrived:
                yield offset, chunk
                position = chunk.end
            now_ms = self._now_ms()
            if arrived:
                moved_ms = now_ms
            else:
                self._check_patience(wanted, position, now_ms - moved_ms)

    def _begin(self, wanted: OffsetRange) -> None:
        self._core.assign(())  # else the partition would keep what was buffered of an earlier range
        self._core.assign((wanted.topic_partition,))
        (state,) = self._core.positions
        state.seek(wanted.start)
        state.fetch_until = wanted.end
        self._core.news()

    def _check_patience(self, wanted: OffsetRange, position: int, waited_ms: int) -> None:
        partition, trouble = wanted.topic_partition, self._core.metadata_updater.trouble
        gone = isinstance(trouble, RefusedError) and trouble.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if gone and waited_ms >= _GONE_AFTER_MS:
            raise DataLossError(f"topic {wanted.topic!r} was deleted before {wanted} were read", wanted.end)
        if waited_ms < self._patience_ms:
            return
        end = self._readable_end(partition)
        if 0 <= end <= position:
            raise DataLossError(
                f"{partition} ends at offset {end} now, but {wanted} were planned", wanted.end
            )
        why = f": {trouble}" if trouble is not None else ""
        raise TimedOutError(
            f"nothing of {partition} came at offset {position} for {waited_ms / 1000:.1f} s"
            f" (kafkaConsumer.pollTimeoutMs is {self._patience_ms}){why}"
        )

    def _readable_end(self, partition: TopicPartition) -> int:
        """How far the last answer said that there is something to read; -1 before any."""
        state = self._core.positions.get(partition)
        if state is None:
            return -1
        return state.last_stable_offset if self._core.fetcher.is_committed else state.high_watermark

    def _lost(self, partition: TopicPartition, position: int, error: ClientError) -> DataLossError:
        """Why an offset is out of range, and where records are."""
        earliest, latest = self._ends(partition)
        if position < earliest:
            what = f"{partition} begins at offset {earliest} now: the records from {position} on are gone"
            return DataLossError(what, earliest)
        return DataLossError(f"{partition} ends at offset {latest} now, before {position}: {error}", latest)

    def _ends(self, partition: TopicPartition) -> tuple[int, int]:
        client = self._core.client
        first = self._background.run(find_offsets, client, {partition: OffsetSpec.EARLIEST})
        last = self._background.run(find_offsets, client, {partition: OffsetSpec.LATEST})
        return first[partition].offset, last[partition].offset


# Those that no task of this worker uses now.
_FETCHERS: Final = WorkerClients(RangeFetcher.close)


@contextlib.contextmanager
def borrowed_fetcher(options: ReadOptions) -> Iterator[RangeFetcher]:
    """A fetcher with these settings: one that an earlier task has left, or a new one."""
    key = (*sorted(options.settings.items()), options.group_id_prefix, options.poll_timeout_ms)
    with _FETCHERS.lent(key, lambda: RangeFetcher(options)) as fetcher:
        yield fetcher
        fetcher.rest()
