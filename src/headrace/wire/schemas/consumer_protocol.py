"""What consumers of a classic group say to each other through the broker, which never looks inside.

A subscription goes into JoinGroup, an assignment comes out of SyncGroup; both start with their version as
int16. Every later version may be read as an earlier one, since fields are only added at the end.
"""

from __future__ import annotations

from dataclasses import field
from typing import Annotated

from headrace.wire.notation import IGNORABLE, Since, int32, message, struct


@struct
class TopicPartition:
    topic: str = ""
    partitions: list[int32] = field(default_factory=list)


@message(versions=range(4))
class ConsumerProtocolSubscription:
    topics: list[str] = field(default_factory=list)
    user_data: bytes | None = None
    # cooperative rebalancing (KIP-429)
    owned_partitions: Annotated[list[TopicPartition], Since(1), IGNORABLE] = field(default_factory=list)
    generation_id: Annotated[int32, Since(2), IGNORABLE] = -1  # of the owned partitions (KIP-792)
    rack_id: Annotated[str | None, Since(3), IGNORABLE] = None  # rack-aware assignment (KIP-881)


@message(versions=range(4))
class ConsumerProtocolAssignment:
    assigned_partitions: list[TopicPartition] = field(default_factory=list)
    user_data: bytes | None = None
