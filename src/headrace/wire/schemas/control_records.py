"""Control records of partitions: the key that gives the type, the marker that ends a transaction (KIP-98)."""

from __future__ import annotations

from headrace.wire.notation import int16, int32, message


@message(versions=range(1))
class ControlRecordTypeSchema:
    # 0 abort, 1 commit, 2 leader change, 3/4 snapshot header/footer, 5 kraft version, 6 voters
    type: int16 = 0


@message(versions=range(1))
class EndTxnMarker:
    coordinator_epoch: int32 = 0
