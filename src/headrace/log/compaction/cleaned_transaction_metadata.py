"""Transactions as compaction meets them: whose records were aborted, and which markers nobody needs any more.

Records of an aborted transaction go. Its marker, like that of a committed one, may go once no batch of the
transaction is left, and then only after `delete.retention.ms`, like any delete marker: a reader that has
begun with the records must still learn how they ended. While a batch is left, also an empty one, the entry in
the transaction index stays too.
"""

from headrace.base.chunks import Buffer
from headrace.log.transaction_index import AbortedTxn
from headrace.records.batch import BatchHeader, ControlType, read_control_type


class CleanedTransactionMetadata:
    """The transactions that are open where the walk is. Batches must come in the order of their offsets.

    A walk that begins at a `start` does not meet the markers before it: what ended there is over, and later
    records of the same producers count.
    """

    def __init__(self, aborted: list[AbortedTxn], start: int = 0) -> None:
        met = (txn for txn in aborted if txn.last_offset >= start)
        self._to_come = sorted(met, key=lambda txn: txn.first_offset, reverse=True)
        self._aborted: dict[int, AbortedTxn] = {}
        self._seen: set[int] = set()
        self._kept: list[AbortedTxn] = []

    def on_batch_read(self, header: BatchHeader) -> bool:
        """Whether a data batch is part of an aborted transaction."""
        if not header.is_transactional:
            return False
        self._begin_up_to(header.last_offset)
        self._seen.add(header.producer_id)
        return header.producer_id in self._aborted

    def on_control_batch_read(self, header: BatchHeader, batch: Buffer) -> bool:
        """Whether a control batch is a marker of a transaction that has no batch left."""
        self._begin_up_to(header.last_offset)
        if not header.record_count:
            return True
        control_type = read_control_type(batch)
        if control_type not in (ControlType.ABORT, ControlType.COMMIT):
            return False
        aborted = self._aborted.pop(header.producer_id, None)
        if header.producer_id not in self._seen:
            return True
        self._seen.remove(header.producer_id)
        if aborted is not None and control_type is ControlType.ABORT:
            self._kept.append(aborted)
        return False

    def take_kept(self) -> list[AbortedTxn]:
        """Index entries that stay, of the markers since the last call."""
        kept, self._kept = self._kept, []
        return kept

    def _begin_up_to(self, offset: int) -> None:
        while self._to_come and self._to_come[-1].first_offset <= offset:
            txn = self._to_come.pop()
            self._aborted[txn.producer_id] = txn
