"""Batches that wait: one queue for each partition, within a bound of memory.

A core: time is handed in. Any thread may append, under `lock`; everything else happens on the producer's
loop, under the same lock where it touches the queues. A batch is ready when it is full, when it has waited
for `linger_ms`, when there is no more memory, or when somebody flushes; one that has failed before is ready
after its pause. Memory is taken for a whole batch when it is begun, as Kafka's producer does; what it did not
need is given back when it is closed, the rest when it is decided.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterable
from itertools import takewhile
from typing import NamedTuple

from headrace.base.ids import NO_LEADER, TopicPartition
from headrace.clients.internals.producer.encoding import Row
from headrace.clients.internals.producer.producer_batch import ProducerBatch
from headrace.records.batch import NO_SEQUENCE
from headrace.records.header import HEADER_BYTES


class ReadyCheckResult(NamedTuple):
    """What could be sent now."""

    nodes: dict[int, list[TopicPartition]]  # leaders, with their partitions that have a batch ready
    unled: set[str]  # topics with a batch ready and a partition whose leader is not known
    next_ms: float  # when the next batch becomes ready by itself; infinity if none does


class RecordAccumulator:
    """Gathers rows into batches."""

    def __init__(
        self,
        *,
        batch_bytes: int,
        linger_ms: int,
        memory_bytes: int,
        delivery_ms: int,
        now_ms: Callable[[], int],
    ) -> None:
        self.lock = threading.Lock()
        self.batch_bytes = batch_bytes
        self.linger_ms = linger_ms
        self.memory_bytes = memory_bytes
        self.free_bytes = memory_bytes
        self._delivery_ms = delivery_ms
        self._queues: dict[TopicPartition, deque[ProducerBatch]] = {}
        self._undecided: dict[ProducerBatch, None] = {}
        self._hurries = 0  # how many flush
        self._now_ms = now_ms
        self.is_due = False  # somebody should tell the sender to look
        self.is_full = False  # a batch became full: the sender's thread should get its turn
        self.looked_at_ms = float("inf")  # when the sender looks by itself

    # Filling: under the lock

    def append(self, partition: TopicPartition, row: Row, size: int) -> tuple[ProducerBatch, int] | None:
        """The batch and the row's place in it; None without memory. `is_due` asks the sender to look."""
        if size > self.free_bytes and self.free_bytes < self.memory_bytes:
            return None
        queue = self._queues.get(partition)
        if queue is None:
            queue = self._queues[partition] = deque()
        batch = queue[-1] if queue else None
        if batch is None or size > batch.room:  # a closed one has none
            return self._begin(partition, queue, row, size), 0
        rows = batch.rows
        rows.append(row)
        batch.room -= size
        return batch, len(rows) - 1

    def _begin(
        self, partition: TopicPartition, queue: deque[ProducerBatch], row: Row, size: int
    ) -> ProducerBatch:
        """A new batch behind the last one. The sender need not hear of it if it looks in time anyway."""
        last = queue[-1] if queue else None
        now_ms = self._now_ms()
        if last is not None:
            if not last.is_closed:
                self._close(last)
                last.encode()
            self._is_full(queue)
        elif self.looked_at_ms > now_ms + self.linger_ms:
            self.is_due = True
        limit = max(HEADER_BYTES + size, min(self.batch_bytes, self.free_bytes))
        batch = ProducerBatch(partition, now_ms, limit)
        batch.rows.append(row)
        batch.room -= size
        queue.append(batch)  # now it is whole: a caller's thread may be interrupted anywhere
        self._undecided[batch] = None
        self.free_bytes -= limit
        return batch

    def _is_full(self, queue: deque[ProducerBatch]) -> None:
        """The last batch of a queue is closed. Behind others, it is looked at when those are answered."""
        self.is_full = True
        if len(queue) == 1:
            self.is_due = True

    def _close(self, batch: ProducerBatch) -> None:
        self.free_bytes += batch.close()

    def append_sealed(self, batch: ProducerBatch) -> bool:
        """Queue a batch that was made elsewhere; False without memory."""
        if batch.size > self.free_bytes and self.free_bytes < self.memory_bytes:
            return False
        queue = self._queues.setdefault(batch.partition, deque())
        self.is_full = True
        if not queue:
            self.is_due = True
        elif not queue[-1].is_closed:
            self._close(queue[-1])
            self._is_full(queue)
        queue.append(batch)
        self._undecided[batch] = None
        self.free_bytes -= batch.size
        return True

    def close_all(self) -> None:
        """Take no more rows into what is begun."""
        with self.lock:
            for queue in self._queues.values():
                if queue and not queue[-1].is_closed:
                    self._close(queue[-1])

    def waiting(self) -> list[ProducerBatch]:
        """Take all that is not on the wire out of the queues."""
        with self.lock:
            found = [batch for queue in self._queues.values() for batch in queue]
            for queue in self._queues.values():
                queue.clear()
        return found

    def loads(self, topic: str, count: int) -> list[int]:
        """How many batches wait for each of a topic's partitions."""
        queues = self._queues
        return [len(queues.get(TopicPartition(topic, number), ())) for number in range(count)]

    # Sending: on the loop

    def ready(self, leader: Callable[[TopicPartition], int], now_ms: float) -> ReadyCheckResult:
        """Whose batches can be sent, and when to look again."""
        nodes: dict[int, list[TopicPartition]] = {}
        unled: set[str] = set()
        next_ms = float("inf")
        with self.lock:
            hurries = self._hurries > 0 or self.free_bytes <= 0
            for partition, queue in self._queues.items():
                if not queue:
                    continue
                first = queue[0]
                is_due = first.is_closed or hurries
                due_ms = first.retry_at_ms if first.attempts else first.created_ms + self.linger_ms
                if due_ms > now_ms and (first.attempts or not is_due):
                    next_ms = min(next_ms, due_ms)
                    continue
                node = leader(partition)
                if node == NO_LEADER:
                    unled.add(partition.topic)
                else:
                    nodes.setdefault(node, []).append(partition)
        return ReadyCheckResult(nodes, unled, next_ms)

    def take(
        self, partitions: Iterable[TopicPartition], may_send: Callable[[ProducerBatch], bool], bytes_max: int
    ) -> tuple[list[ProducerBatch], bool]:
        """The first batch of each of these partitions that may leave, up to a request's size; and whether
        there is more.
        """
        taken: list[ProducerBatch] = []
        size = 0
        is_more = False
        with self.lock:
            for partition in partitions:
                queue = self._queues[partition]
                if not queue or not may_send(queue[0]):
                    continue
                size += queue[0].size
                if taken and size > bytes_max:
                    is_more = True
                    break
                batch = queue.popleft()
                self._close(batch)
                taken.append(batch)
                is_more = is_more or len(queue) > 1 or (bool(queue) and queue[0].is_closed)
        return taken, is_more

    def put_back(self, batch: ProducerBatch, retry_at_ms: float) -> None:
        """A batch has to be sent again: it goes to the front, by its sequence among others that came back."""
        batch.retry_at_ms = retry_at_ms
        with self.lock:
            queue = self._queues[batch.partition]
            at = 0
            if batch.base_sequence != NO_SEQUENCE:
                while at < len(queue) and _is_before(queue[at], batch):
                    at += 1
            queue.insert(at, batch)

    def expired(self, now_ms: float) -> list[ProducerBatch]:
        """Batches whose time is up, on the wire or not; those that wait leave their queue."""
        oldest_ms = now_ms - self._delivery_ms
        with self.lock:
            # In the order in which they were made: the first that is not late ends the search.
            late = list(takewhile(lambda batch: batch.created_ms <= oldest_ms, self._undecided))
            for batch in late:
                if not batch.is_on_wire:
                    self._close(batch)
                    queue = self._queues[batch.partition]
                    if batch in queue:
                        queue.remove(batch)
        return late

    def first_deadline_ms(self) -> float:
        """When the oldest batch's time is up."""
        with self.lock:
            oldest = next(iter(self._undecided), None)
        return float("inf") if oldest is None else oldest.created_ms + self._delivery_ms

    def decided(self, batch: ProducerBatch) -> None:
        """The batch's memory is free again."""
        with self.lock:
            if batch in self._undecided:
                del self._undecided[batch]
                self.free_bytes += batch.close() + batch.size

    def replace(self, batch: ProducerBatch, parts: tuple[ProducerBatch, ...], retry_at_ms: float) -> None:
        """A batch goes on as parts."""
        self.decided(batch)
        with self.lock:
            for part in parts:
                self._undecided[part] = None
                self.free_bytes -= part.size
        # Those without a sequence go to the very front, so the last goes first.
        for part in reversed(parts):
            self.put_back(part, retry_at_ms)

    # Flushing

    def undecided(self) -> list[ProducerBatch]:
        with self.lock:
            return list(self._undecided)

    def hurry(self, step: int) -> None:
        """Somebody flushes (+1), or is done with it (-1)."""
        with self.lock:
            self._hurries += step


def _is_before(other: ProducerBatch, batch: ProducerBatch) -> bool:
    """Whether another batch that came back was numbered earlier; sequences go from 2^31-1 back to 0."""
    if other.base_sequence == NO_SEQUENCE:
        return False
    return ((batch.base_sequence - other.base_sequence) & 0x7FFFFFFF) < 0x40000000
