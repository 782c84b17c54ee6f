"""Topics that belong to the system: clients see and read them, and never write to them."""

from typing import Final

OFFSETS_TOPIC: Final = "__consumer_offsets"
TRANSACTIONS_TOPIC: Final = "__transaction_state"
SHARE_STATE_TOPIC: Final = "__share_group_state"
METADATA_TOPIC: Final = "__cluster_metadata"
REMOTE_LOG_TOPIC: Final = "__remote_log_metadata"
"""Kafka does not count this one among its internal topics."""

INTERNAL_TOPICS: Final = frozenset({OFFSETS_TOPIC, TRANSACTIONS_TOPIC, SHARE_STATE_TOPIC})

NEVER_TIERED: Final = INTERNAL_TOPICS | {REMOTE_LOG_TOPIC, METADATA_TOPIC}
"""Who reads these reads them from a disk; and what is in the remote store is told by one of them."""
