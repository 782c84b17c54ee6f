"""Where a transactional producer stands, and what it may do there; what versions and refusals mean for it."""

from collections.abc import Awaitable, Callable
from enum import Enum
from typing import Final, NamedTuple

from headrace.base.error_codes import ErrorCode
from headrace.clients.errors import ClientError, CommitFailedError
from headrace.transport.versions import VersionTable
from headrace.wire.schemas import end_txn, produce, txn_offset_commit

# What depends on the transaction.version of a cluster (KIP-890).
PRODUCE_EXPLICIT: Final = produce.TRANSACTION_V2_SINCE - 1
"""The last version of Produce that takes no partition into a transaction by itself."""
END_EXPLICIT: Final = end_txn.TRANSACTION_V2_SINCE - 1
"""The last version of EndTxn that leaves the producer's epoch as it is."""
OFFSETS_EXPLICIT: Final = txn_offset_commit.TRANSACTION_V2_SINCE - 1
"""The last version of TxnOffsetCommit that needs an AddOffsetsToTxn before it."""
OFFSETS_BY_NAME: Final = txn_offset_commit.TOPIC_ID_SINCE - 1
"""The last version of TxnOffsetCommit that names topics: ids are no gain where a group is asked once."""
CONCURRENT_PAUSE_MS: Final = 20
"""The markers of the transaction before are still being written: that is over in a moment."""
_IMPLICIT_LEVEL: Final = 2

# What a coordinator's refusals mean; what is in none of these an abort mends.
FENCED: Final = frozenset({ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH})
FATAL: Final = frozenset(
    {
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.INVALID_TRANSACTION_TIMEOUT,
        ErrorCode.UNSUPPORTED_VERSION,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    }
)
NOT_A_MEMBER: Final = frozenset(
    {
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.STALE_MEMBER_EPOCH,
        ErrorCode.FENCED_MEMBER_EPOCH,
    }
)


class ProducerTxnState(Enum):
    """Where a transactional producer stands; the values complete "the producer …"."""

    UNINITIALIZED = "has not called init_transactions yet"
    READY = "has no open transaction"
    IN_TRANSACTION = "has an open transaction"
    PREPARED_TRANSACTION = "has a prepared transaction"
    COMMITTING_TRANSACTION = "is committing"
    ABORTING_TRANSACTION = "is aborting"
    ABORTABLE_ERROR = "has a transaction that can only be aborted"
    FATAL_ERROR = "can do nothing more"


# A commit or an abort whose answer did not come in time may be asked for again, but not be turned round.
MAY: Final = {
    "init_transactions": {ProducerTxnState.UNINITIALIZED},
    "begin_transaction": {ProducerTxnState.READY},
    "send": {ProducerTxnState.IN_TRANSACTION},
    "send_offsets_to_transaction": {ProducerTxnState.IN_TRANSACTION},
    "prepare_transaction": {ProducerTxnState.IN_TRANSACTION},
    "commit_transaction": {
        ProducerTxnState.IN_TRANSACTION,
        ProducerTxnState.PREPARED_TRANSACTION,
        ProducerTxnState.COMMITTING_TRANSACTION,
    },
    "abort_transaction": {
        ProducerTxnState.IN_TRANSACTION,
        ProducerTxnState.PREPARED_TRANSACTION,
        ProducerTxnState.ABORTABLE_ERROR,
        ProducerTxnState.ABORTING_TRANSACTION,
    },
}


class PreparedTxnState(NamedTuple):
    """Names a prepared transaction, for whoever decides about it. `str` of it can be stored."""

    producer_id: int
    epoch: int

    def __str__(self) -> str:
        return f"{self.producer_id}:{self.epoch}"

    @classmethod
    def parse(cls, text: str) -> "PreparedTxnState":
        """What `str` made a text of."""
        producer_id, _, epoch = text.partition(":")
        return cls(int(producer_id), int(epoch))


class Writes(NamedTuple):
    """What a transaction asks of the producer's batches."""

    seal: Callable[[], None]  # take no more rows into what is begun
    drain: Callable[[], Awaitable[None]]  # return when everything is decided
    drop: Callable[[ClientError], None]  # give up what is not on the wire


def is_implicit(versions: VersionTable) -> bool:
    """Whether partitions and groups join a transaction with their first write, and each has its own epoch."""
    return versions.features.get("transaction.version", 0) >= _IMPLICIT_LEVEL


def out_of_group(what: str, code: int) -> CommitFailedError:
    """For a consumer whose group has gone on without it."""
    reason = ErrorCode(code).name.replace("_", " ").lower()
    return CommitFailedError(
        f"{what} ({reason}): its partitions belong to another member now; abort the transaction and poll"
    )
