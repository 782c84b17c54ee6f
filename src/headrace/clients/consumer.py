"""A simple consumer that waits: it reads the partitions it is given, from the offsets it is given.

`poll` keeps one long fetch on its way to every broker that leads something, and returns what the first
answers bring. A fetch that is not answered in time stays on its way and is looked at by the next poll.
Records of aborted transactions are read like others; markers are not shown.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import InvalidBytesError
from headrace.base.ids import NO_LEADER, NO_TOPIC_ID, TopicPartition
from headrace.clients.cluster import Cluster
from headrace.clients.connection import Pending
from headrace.clients.errors import ClientError, RefusedError, TimedOutError, UnreachableError, error_code
from headrace.records.batch import batches, crc_matches, read_records
from headrace.wire.schemas.fetch import FetchPartition, FetchRequest, FetchTopic

# How long a broker holds a fetch for records to come.
LONG_POLL_MS: Final = 500
FETCH_BYTES: Final = 16 * 1024 * 1024
PARTITION_BYTES: Final = 1024 * 1024
# Fetch names topics by id from this version on; a broker without ids is spoken to in the one before.
_FIRST_WITH_IDS: Final = 13
_PAUSE_MS: Final = 100


class ConsumedRecord(NamedTuple):
    """A record and where it was read."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


class Consumer:
    """Reads records from `positions` on, which move as records are returned."""

    def __init__(self, cluster: Cluster, positions: Mapping[TopicPartition, int]) -> None:
        self.positions = dict(positions)
        self.ends: dict[TopicPartition, int] = {}
        self.trouble: ClientError | None = None  # why nothing can be read now; it may pass
        self._cluster = cluster
        self._fetching: dict[int, Pending] = {}

    def at_end(self) -> bool:
        """Whether everything that was there at the last answers has been returned."""
        return all(self.positions[each] >= self.ends.get(each, 1 << 63) for each in self.positions)

    def poll(self, timeout_ms: int) -> list[ConsumedRecord]:
        """The next records as soon as there are any; none when the time is up."""
        deadline = self._cluster.now_ms() + timeout_ms
        while True:
            records = self._poll_once(max(0, deadline - self._cluster.now_ms()))
            if records or self._cluster.now_ms() >= deadline:
                return records

    def _poll_once(self, timeout_ms: int) -> list[ConsumedRecord]:
        self._send_fetches()
        by_socket = {self._cluster.connection(node).fileno(): node for node in self._fetching}
        if not by_socket:
            self._cluster.pause(min(timeout_ms, _PAUSE_MS))
            return []
        # An answer may have been read already, together with that to another request on the same connection.
        ready = [node for node, pending in self._fetching.items() if pending.frame is not None]
        if not ready:
            sockets = self._cluster.world.waiter.readable(list(by_socket), timeout_ms)
            ready = [by_socket[socket] for socket in sockets]
        records: list[ConsumedRecord] = []
        for node in ready:
            try:
                response = self._cluster.connection(node).poll(self._fetching[node])
            except (UnreachableError, TimedOutError):
                self._lose(node)
                continue
            if response is not None:
                del self._fetching[node]
                self.trouble = None
                records += self._take(response)
        return records

    def _send_fetches(self) -> None:
        """Have a fetch on its way to every leader."""
        for node, partitions in self._by_leader().items():
            if node in self._fetching:
                continue
            ids_known = all(self._cluster.view.topic_id(each.topic) != NO_TOPIC_ID for each in partitions)
            at_most = None if ids_known else _FIRST_WITH_IDS - 1
            try:
                connection = self._cluster.connection(node)
                timeout_ms = self._cluster.timeout_ms
                self._fetching[node] = connection.send(
                    self._request(partitions), timeout_ms=timeout_ms, at_most=at_most
                )
            except (UnreachableError, TimedOutError):
                self._lose(node)

    def _by_leader(self) -> dict[int, list[TopicPartition]]:
        groups: dict[int, list[TopicPartition]] = {}
        unled = [each for each in self.positions if self._cluster.view.leader(each) == NO_LEADER]
        if unled:
            self._refresh({each.topic for each in unled})
        for partition in self.positions:
            leader = self._cluster.view.leader(partition)
            if leader != NO_LEADER:
                groups.setdefault(leader, []).append(partition)
        return groups

    def _refresh(self, topics: Iterable[str]) -> None:
        try:
            self._cluster.refresh(sorted(topics))
        except (UnreachableError, TimedOutError) as error:
            # Perhaps only a moment: the caller's deadline decides, and the next poll asks again.
            self.trouble = error
            self._cluster.pause(_PAUSE_MS)

    def _lose(self, node: int) -> None:
        self._fetching.pop(node, None)
        self._cluster.drop(node)
        self._refresh({each.topic for each in self.positions})

    def _request(self, partitions: Iterable[TopicPartition]) -> FetchRequest:
        topics: dict[str, FetchTopic] = {}
        for partition in partitions:
            topic_id = self._cluster.view.topic_id(partition.topic)
            topic = topics.setdefault(partition.topic, FetchTopic(topic=partition.topic, topic_id=topic_id))
            topic.partitions.append(
                FetchPartition(
                    partition=partition.partition,
                    fetch_offset=self.positions[partition],
                    partition_max_bytes=PARTITION_BYTES,
                )
            )
        return FetchRequest(
            max_wait_ms=LONG_POLL_MS, min_bytes=1, max_bytes=FETCH_BYTES, topics=list(topics.values())
        )

    def _take(self, response: Any) -> list[ConsumedRecord]:
        if response.error_code:
            raise RefusedError(response.error_code, "cannot fetch")
        names = {topic.topic_id: name for name, topic in self._cluster.view.topics.items()}
        records: list[ConsumedRecord] = []
        stale: set[str] = set()
        for topic in response.responses:
            name = topic.topic or names.get(topic.topic_id, "")
            for data in topic.partitions:
                partition = TopicPartition(name, data.partition_index)
                if data.error_code == ErrorCode.NONE:
                    self.ends[partition] = data.high_watermark
                    records += self._read(partition, data.records)
                else:
                    stale.add(self._failed(partition, data.error_code))
        if stale:
            self._refresh(stale)
            self._cluster.pause(_PAUSE_MS)
        return records

    def _failed(self, partition: TopicPartition, code: int) -> str:
        """The topic to ask about anew, for an error that may pass; others raise."""
        failure = RefusedError(
            error_code(code), f"cannot read {partition} from offset {self.positions[partition]}"
        )
        if failure.retriable:
            return partition.topic
        raise failure

    def _read(self, partition: TopicPartition, data: Any) -> list[ConsumedRecord]:
        """The records of a partition's bytes from its position on, which moves behind them."""
        records: list[ConsumedRecord] = []
        position = self.positions[partition]
        buffer = memoryview(data or b"")
        try:
            for at, header in batches(buffer):
                if header.next_offset <= position:
                    continue
                if not crc_matches(buffer, at, header):
                    raise InvalidBytesError("its check sum does not match")
                if not header.is_control:
                    records += (
                        ConsumedRecord(
                            *partition, each.offset, each.timestamp, each.key, each.value, each.headers
                        )
                        for each in read_records(buffer, at)
                        if each.offset >= position
                    )
                position = header.next_offset
        except InvalidBytesError as error:
            raise ClientError(
                f"what the broker sent of {partition} at offset {position} is broken: {error}"
            ) from error
        self.positions[partition] = position
        return records
