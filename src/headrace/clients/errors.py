"""What can go wrong for a client, told so that a person knows what happened and what to do."""

from typing import Final

from headrace.base.error_codes import RETRIABLE, ErrorCode
from headrace.base.ids import TopicPartition


class ClientError(Exception):
    """The text is for a person: what was tried, what happened, what would help."""


class UnreachableError(ClientError):
    """No broker could be reached, or one that could be was lost."""


class TimedOutError(ClientError):
    """The cluster did not answer, or did not become ready, in the time given."""


class BufferFullError(TimedOutError):
    """A producer's memory stayed full for max.block.ms."""


class ClosedError(ClientError):
    """The client was closed and can do nothing more."""


class UnsupportedError(ClientError):
    """The broker has no version of a request that this client speaks."""


class RefusedError(ClientError):
    """The cluster answered with an error code."""

    def __init__(self, code: int, what: str, detail: str | None = None) -> None:
        self.code = error_code(code)
        self.detail = detail or ""
        # Brokers often send the code's own name as the message; that tells a person nothing more.
        reason = detail if detail and detail != self.code.name else self.code.name.replace("_", " ").lower()
        advice = _ADVICE.get(self.code)
        super().__init__(f"{what}: {reason.rstrip('.')}" + (f"; {advice}" if advice else ""))

    @property
    def retriable(self) -> bool:
        """Whether the same request may succeed later."""
        return self.code in RETRIABLE


class AuthenticationError(RefusedError):
    """The cluster does not believe that this client is who it says, or the client the cluster."""


class NoSuchTopicError(RefusedError):
    """A topic that was meant to be there is not; waiting would not help."""

    def __init__(self, topic: str) -> None:
        super().__init__(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {topic!r}", "there is no such topic")
        self.topic = topic

    @property
    def retriable(self) -> bool:
        return False


class NoOffsetError(ClientError):
    """A partition has no offset to begin at, or one that is out of range, and no policy says what to do."""

    def __init__(self, text: str, partition: TopicPartition) -> None:
        super().__init__(text)
        self.partition = partition


class LogTruncatedError(ClientError):
    """Records that were read before are gone: the log was cut back by a new leader (KIP-320)."""

    def __init__(self, partition: TopicPartition, position: int, end_offset: int) -> None:
        super().__init__(
            f"the log of {partition} was cut back from offset {position} to {end_offset}: records that were "
            "read from there are no longer in it; seek to go on"
        )
        self.partition = partition
        self.end_offset = end_offset


class WakeupError(ClientError):
    """A poll was ended by `wakeup`."""


class CommitFailedError(ClientError):
    """The group has gone on without this member: its partitions are somebody else's now."""


class FencedError(RefusedError):
    """Another producer has taken over this transactional id: this one can do nothing more."""

    @property
    def retriable(self) -> bool:
        return False


class AbortableError(ClientError):
    """The open transaction cannot be committed any more: abort it, then begin another."""


class NoSuchGroupError(RefusedError):
    """A group that was meant to be there is not; waiting would not help."""

    def __init__(self, group_id: str, *, is_share: bool = False) -> None:
        kind, command = ("share group", "share-group") if is_share else ("group", "group")
        reason = f"there is no such {kind}; see what there is with `headrace {command} list`"
        super().__init__(ErrorCode.GROUP_ID_NOT_FOUND, f"group {group_id!r}", reason)


class GroupBusyError(RefusedError):
    """What was asked for can be done to a group without members only."""

    def __init__(self, group_id: str, what: str, *, is_share: bool = False) -> None:
        command, who = ("share-group", "crashed ones") if is_share else ("group", "crashed and static ones")
        reason = (
            f"it has members; stop its consumers first, and mind that {who} stay for their "
            f"session time-out (`headrace {command} describe {group_id} --members` shows who is there)"
        )
        super().__init__(ErrorCode.NON_EMPTY_GROUP, f"cannot {what} group {group_id!r}", reason)


class NoPartitionError(RefusedError):
    """A partition that was meant to be there is not; waiting would not help."""

    @property
    def retriable(self) -> bool:
        return False


class StaleEpochError(RefusedError):
    """The coordinator has given this member a newer epoch, which the next heartbeat will tell."""

    @property
    def retriable(self) -> bool:
        return True


class RebalancingError(RefusedError):
    """The group is about to share its partitions anew; a commit can be made after the next poll."""

    @property
    def retriable(self) -> bool:
        return False


def error_code(number: int) -> ErrorCode:
    """The code of a number; one of a newer Kafka's counts as an unknown error."""
    try:
        return ErrorCode(number)
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR


def raise_for(code: int, what: str, detail: str | None = None) -> None:
    """RefusedError unless the code says that all is well."""
    if code != ErrorCode.NONE:
        raise RefusedError(code, what, detail)


_ADVICE: Final = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "see what there is with `headrace topic list`",
    ErrorCode.TOPIC_ALREADY_EXISTS: "choose another name, or change it with `headrace topic alter`",
    ErrorCode.INVALID_REPLICATION_FACTOR: "ask for no more replicas than there are brokers",
    ErrorCode.MESSAGE_TOO_LARGE: "send smaller records, or raise the topic's max.message.bytes",
    ErrorCode.RECORD_LIST_TOO_LARGE: "send smaller records, or raise the topic's segment.bytes",
    ErrorCode.NOT_ENOUGH_REPLICAS: "wait until more replicas are in sync, or lower min.insync.replicas",
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: "the records are written, but on too few replicas",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "ask for the right to use this topic",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "ask for the right to do this on the cluster",
    ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED: "set delegation.token.secret.key, the same on all nodes",
    ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED: "log in first, by something else than a token",
    ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED: "ask for create_tokens on that user",
    ErrorCode.TOPIC_DELETION_DISABLED: "the brokers run with delete.topic.enable=false",
    ErrorCode.OFFSET_OUT_OF_RANGE: "read from the beginning or from a later offset",
    ErrorCode.LEADER_NOT_AVAILABLE: "no replica can lead it now; are its brokers up?",
    ErrorCode.PRODUCER_FENCED: "another producer uses this id, or its transaction took too long",
    ErrorCode.INVALID_PRODUCER_EPOCH: "another producer uses this id, or its transaction took too long",
    ErrorCode.INVALID_TRANSACTION_TIMEOUT: "lower transaction.timeout.ms, or raise the brokers' "
    "transaction.max.timeout.ms",
}
