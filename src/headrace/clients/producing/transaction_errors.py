"""What a coordinator's refusals mean for a transaction; what is in none of these an abort mends."""

from typing import Final

from headrace.base.error_codes import ErrorCode
from headrace.clients.errors import CommitFailedError

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


def out_of_group(what: str, code: int) -> CommitFailedError:
    """For a consumer whose group has gone on without it."""
    reason = ErrorCode(code).name.replace("_", " ").lower()
    return CommitFailedError(
        f"{what} ({reason}): its partitions belong to another member now; abort the transaction and poll"
    )
