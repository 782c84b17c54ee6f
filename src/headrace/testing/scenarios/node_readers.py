"""Clients of a simulated node that read, and believe nothing that they can check.

A live consumer follows all partitions in one fetch session with long polls while faults happen, goes back
to an earlier offset now and then, and holds the node to one value per offset, for ever, without a gap. A
reader reads a partition once from its start. Both take nothing whose CRC does not match.
"""

from collections.abc import Callable
from typing import Any, Final

from headrace.base.error_codes import RETRIABLE, ErrorCode
from headrace.base.errors import InvalidBytesError
from headrace.records.batch import batches, crc_matches, read_records
from headrace.testing.scenarios.node_clients import TOPIC, Link
from headrace.testing.world import CheckFailedError
from headrace.wire.schemas.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData

VERSION: Final = 12
READ_BYTES: Final = 1 << 16
LIVE_READ_BYTES: Final = 8_000
# Errors of a node that is about to stop, or not ready yet.
PASSING: Final = RETRIABLE - {ErrorCode.CORRUPT_MESSAGE}
SESSION_LOST: Final = (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.INVALID_FETCH_SESSION_EPOCH)


class DamageSeenError(Exception):
    """A batch did not match its CRC, or was none: the reader refuses it, as every client does."""


class LiveConsumer:
    """Reads everything while it is written; `seen` is offset -> value for each partition."""

    def __init__(self, partitions: int, is_settled: Callable[[int, int], bool]) -> None:
        """`is_settled` tells whether what stands at a partition's offset must stay."""
        self.seen: list[dict[int, bytes]] = [{} for _ in range(partitions)]
        self.stopping = False
        self._is_settled = is_settled
        self._positions = dict.fromkeys(range(partitions), 0)
        self._told: dict[int, int] = {}
        self._session_id = 0
        self._session_epoch = 0

    async def run(self, link: Link) -> None:
        rng = link.own.rng
        while not self.stopping:
            if rng.random() < 0.03:
                self._go_back(rng.choice(list(self._positions)), rng.random())
            if rng.random() < 0.02:
                self._forget_session()
            reply = await link.ask(self._request(rng.choice([0, 100, 500])), VERSION, FetchResponse)
            if reply is None:
                self._forget_session()
            elif reply.error_code:
                if reply.error_code not in SESSION_LOST and reply.error_code not in PASSING:
                    raise CheckFailedError(f"a consumer was told {ErrorCode(reply.error_code).name}")
                self._forget_session()
                await link.pause()
            else:
                self._session_id = reply.session_id
                self._session_epoch = self._session_epoch + 1 if reply.session_id else 0
                taken = [self._take(data) for topic in reply.responses for data in topic.partitions]
                if not all(taken):
                    await link.pause()

    def _go_back(self, partition: int, luck: float) -> None:
        self._positions[partition] = int(self._positions[partition] * luck)

    def _forget_session(self) -> None:
        self._session_id = self._session_epoch = 0
        self._told.clear()

    def _request(self, max_wait_ms: int) -> FetchRequest:
        """All partitions to open a session, then only those whose position has changed."""
        changed = [
            FetchPartition(partition, fetch_offset=offset, partition_max_bytes=LIVE_READ_BYTES)
            for partition, offset in self._positions.items()
            if self._told.get(partition) != offset
        ]
        self._told = dict(self._positions)
        return FetchRequest(
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            max_bytes=READ_BYTES,
            session_id=self._session_id,
            session_epoch=self._session_epoch,
            topics=[FetchTopic(TOPIC, partitions=changed)] if changed else [],
        )

    def _take(self, data: PartitionData) -> bool:
        """Check what came of one partition; False where there was an error that passes."""
        partition = data.partition_index
        if data.error_code in PASSING:
            return False
        try:
            if data.error_code:
                raise DamageSeenError(ErrorCode(data.error_code).name)
            records = records_of(data.records)
        except DamageSeenError as error:
            self._excuse(partition, self._positions[partition] - 1, f"cannot be read: {error}")
            return False
        position = self._positions[partition]
        for offset, value in records:
            if offset < position:
                continue  # a batch is given whole
            if offset != position:
                self._excuse(partition, position, f"gave offset {offset} where {position} should be")
                return False
            if self.seen[partition].setdefault(offset, value) != value:
                self._excuse(partition, offset, f"changed the value at offset {offset}")
                return False
            position = offset + 1
        self._positions[partition] = position
        return True

    def _excuse(self, partition: int, offset: int, what: str) -> None:
        """What need not stay may be gone or be another now: look again at all that is there."""
        if self._is_settled(partition, offset):
            raise CheckFailedError(f"a consumer saw that partition {partition} {what}")
        self._positions[partition] = 0
        self.seen[partition].clear()


async def read_partition(link: Link, partition: int) -> list[tuple[int, bytes]]:
    """(offset, value) of everything from the start to the high watermark; DamageSeenError at a bad batch."""
    found: list[tuple[int, bytes]] = []
    offset = 0
    while True:
        part = FetchPartition(partition, fetch_offset=offset, partition_max_bytes=READ_BYTES)
        request = FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=READ_BYTES)
        request.topics = [FetchTopic(TOPIC, partitions=[part])]
        reply = await link.ask(request, VERSION, FetchResponse)
        data = None if reply is None or not reply.responses else reply.responses[0].partitions[0]
        if data is None or data.error_code in PASSING:
            await link.pause()
            continue
        if data.error_code:
            raise DamageSeenError(ErrorCode(data.error_code).name)
        records = records_of(data.records)
        found += [each for each in records if each[0] >= offset]
        if not records or found[-1][0] + 1 >= data.high_watermark:
            return found
        offset = found[-1][0] + 1


def records_of(data: Any) -> list[tuple[int, bytes]]:
    """(offset, value) of a fetch's bytes; DamageSeenError at a bad batch."""
    if not data:
        return []
    records = []
    try:
        for at, header in batches(data):
            if not crc_matches(data, at, header):
                raise DamageSeenError(f"the batch of offset {header.base_offset}")
            records += [(record.offset, record.value or b"") for record in read_records(data, at)]
    except InvalidBytesError as error:
        raise DamageSeenError(str(error)) from error
    return records
