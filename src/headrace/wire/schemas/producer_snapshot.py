"""The `.snapshot` file of a partition: what is known of each producer at an offset.

The version stands in front as int16 and is always 1; the checksum covers what follows it.
"""

from __future__ import annotations

from dataclasses import field

from headrace.wire.notation import int16, int32, int64, message, struct, uint32


@struct
class ProducerEntry:
    producer_id: int64 = 0
    epoch: int16 = 0
    last_sequence: int32 = 0
    last_offset: int64 = 0
    offset_delta: int32 = 0
    timestamp: int64 = 0
    coordinator_epoch: int32 = 0
    current_txn_first_offset: int64 = 0


@message(versions=range(1, 2))
class ProducerSnapshot:
    crc: uint32 = 0
    producer_entries: list[ProducerEntry] = field(default_factory=list)
