"""Clients of any Kafka: a producer, a consumer and an admin client, each with a sync and an async face.

    from headrace import Admin, Consumer, Producer

All that a user needs is exported here and, under the same names, by `headrace`. A module is loaded when one
of its names is first used: a command that needs no client pays for none.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from headrace.base.error_codes import ErrorCode
    from headrace.base.ids import TopicPartition
    from headrace.clients.admin import Admin, AsyncAdmin
    from headrace.clients.consumer import AsyncConsumer, Consumer
    from headrace.clients.errors import (
        AbortableError,
        AuthenticationError,
        BufferFullError,
        ClientError,
        ClosedError,
        CommitFailedError,
        FencedError,
        GroupBusyError,
        LogTruncatedError,
        NoOffsetError,
        NoPartitionError,
        NoSuchGroupError,
        NoSuchTopicError,
        RebalancingError,
        RefusedError,
        StaleEpochError,
        TimedOutError,
        UnreachableError,
        UnsupportedError,
        WakeupError,
    )
    from headrace.clients.internals.admin.acls import AclBinding, AclBindingFilter
    from headrace.clients.internals.admin.cluster import (
        BrokerDescription,
        ClusterDescription,
        FeatureLevels,
        LogDirDescription,
        QuorumInfo,
        QuorumMember,
        RaftVoterEndpoint,
    )
    from headrace.clients.internals.admin.configs import ConfigEntry, ResourceKind
    from headrace.clients.internals.admin.delegation_tokens import DelegationToken
    from headrace.clients.internals.admin.groups import GroupDescription, GroupListing, MemberDescription
    from headrace.clients.internals.admin.quotas import ClientQuota
    from headrace.clients.internals.admin.reassignments import PartitionReassignment
    from headrace.clients.internals.admin.scram_users import (
        UserScramCredential,
        UserScramCredentialDeletion,
        UserScramCredentialUpsertion,
    )
    from headrace.clients.internals.admin.share_groups import (
        ShareGroupDescription,
        ShareMemberDescription,
        SharePartitionOffsetInfo,
    )
    from headrace.clients.internals.admin.topics import TopicDescription, TopicListing, TopicPartitionInfo
    from headrace.clients.internals.admin.transactions import (
        ActiveProducer,
        TransactionDescription,
        TransactionListing,
    )
    from headrace.clients.internals.consumer.completed_fetch import ConsumerRecord
    from headrace.clients.internals.consumer.group_coordinator_client import ConsumerGroupMetadata
    from headrace.clients.internals.consumer.subscription_state import RebalanceListener
    from headrace.clients.internals.producer.core import ProducerInterceptor
    from headrace.clients.internals.producer.partitioners import Partitioner
    from headrace.clients.internals.producer.producer_batch import Delivery, RecordMetadata
    from headrace.clients.internals.producer.transaction_state import PreparedTxnState
    from headrace.clients.internals.share.core import ShareRecord
    from headrace.clients.offsets import OffsetAndMetadata, OffsetAndTimestamp, OffsetSpec
    from headrace.clients.processor import Output, Processor
    from headrace.clients.producer import ArrowStream, AsyncProducer, Producer
    from headrace.clients.share_consumer import AsyncShareConsumer, ShareConsumer
    from headrace.settings.definition import SettingError
    from headrace.wire.schemas.share_fetch import AcknowledgeType

__all__ = [
    "AbortableError",
    "AcknowledgeType",
    "AclBinding",
    "AclBindingFilter",
    "ActiveProducer",
    "Admin",
    "ArrowStream",
    "AsyncAdmin",
    "AsyncConsumer",
    "AsyncProducer",
    "AsyncShareConsumer",
    "AuthenticationError",
    "BrokerDescription",
    "BufferFullError",
    "ClientError",
    "ClientQuota",
    "ClosedError",
    "ClusterDescription",
    "CommitFailedError",
    "ConfigEntry",
    "Consumer",
    "ConsumerGroupMetadata",
    "ConsumerRecord",
    "DelegationToken",
    "Delivery",
    "ErrorCode",
    "FeatureLevels",
    "FencedError",
    "GroupBusyError",
    "GroupDescription",
    "GroupListing",
    "LogDirDescription",
    "LogTruncatedError",
    "MemberDescription",
    "NoOffsetError",
    "NoPartitionError",
    "NoSuchGroupError",
    "NoSuchTopicError",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "OffsetSpec",
    "Output",
    "PartitionReassignment",
    "Partitioner",
    "PreparedTxnState",
    "Processor",
    "Producer",
    "ProducerInterceptor",
    "QuorumInfo",
    "QuorumMember",
    "RaftVoterEndpoint",
    "RebalanceListener",
    "RebalancingError",
    "RecordMetadata",
    "RefusedError",
    "ResourceKind",
    "SettingError",
    "ShareConsumer",
    "ShareGroupDescription",
    "ShareMemberDescription",
    "SharePartitionOffsetInfo",
    "ShareRecord",
    "StaleEpochError",
    "TimedOutError",
    "TopicDescription",
    "TopicListing",
    "TopicPartition",
    "TopicPartitionInfo",
    "TransactionDescription",
    "TransactionListing",
    "UnreachableError",
    "UnsupportedError",
    "UserScramCredential",
    "UserScramCredentialDeletion",
    "UserScramCredentialUpsertion",
    "WakeupError",
]

_HOMES: Final = {
    "headrace.base.error_codes": ("ErrorCode",),
    "headrace.base.ids": ("TopicPartition",),
    "headrace.clients.admin": (
        "Admin",
        "AsyncAdmin",
    ),
    "headrace.clients.consumer": (
        "AsyncConsumer",
        "Consumer",
    ),
    "headrace.clients.errors": (
        "AbortableError",
        "AuthenticationError",
        "BufferFullError",
        "ClientError",
        "ClosedError",
        "CommitFailedError",
        "FencedError",
        "GroupBusyError",
        "LogTruncatedError",
        "NoOffsetError",
        "NoPartitionError",
        "NoSuchGroupError",
        "NoSuchTopicError",
        "RebalancingError",
        "RefusedError",
        "StaleEpochError",
        "TimedOutError",
        "UnreachableError",
        "UnsupportedError",
        "WakeupError",
    ),
    "headrace.clients.internals.admin.cluster": (
        "BrokerDescription",
        "ClusterDescription",
        "FeatureLevels",
        "LogDirDescription",
        "QuorumInfo",
        "QuorumMember",
        "RaftVoterEndpoint",
    ),
    "headrace.clients.internals.admin.configs": (
        "ConfigEntry",
        "ResourceKind",
    ),
    "headrace.clients.internals.admin.groups": (
        "GroupDescription",
        "GroupListing",
        "MemberDescription",
    ),
    "headrace.clients.internals.admin.acls": ("AclBinding", "AclBindingFilter"),
    "headrace.clients.internals.admin.delegation_tokens": ("DelegationToken",),
    "headrace.clients.internals.admin.quotas": ("ClientQuota",),
    "headrace.clients.internals.admin.reassignments": ("PartitionReassignment",),
    "headrace.clients.internals.admin.scram_users": (
        "UserScramCredential",
        "UserScramCredentialDeletion",
        "UserScramCredentialUpsertion",
    ),
    "headrace.clients.internals.admin.share_groups": (
        "ShareGroupDescription",
        "ShareMemberDescription",
        "SharePartitionOffsetInfo",
    ),
    "headrace.clients.internals.admin.topics": (
        "TopicDescription",
        "TopicListing",
        "TopicPartitionInfo",
    ),
    "headrace.clients.internals.admin.transactions": (
        "ActiveProducer",
        "TransactionDescription",
        "TransactionListing",
    ),
    "headrace.clients.share_consumer": ("AsyncShareConsumer", "ShareConsumer"),
    "headrace.clients.internals.share.core": ("ShareRecord",),
    "headrace.wire.schemas.share_fetch": ("AcknowledgeType",),
    "headrace.clients.internals.consumer.completed_fetch": ("ConsumerRecord",),
    "headrace.clients.internals.consumer.group_coordinator_client": ("ConsumerGroupMetadata",),
    "headrace.clients.internals.consumer.subscription_state": ("RebalanceListener",),
    "headrace.clients.internals.producer.core": ("ProducerInterceptor",),
    "headrace.clients.internals.producer.partitioners": ("Partitioner",),
    "headrace.clients.internals.producer.producer_batch": (
        "Delivery",
        "RecordMetadata",
    ),
    "headrace.clients.internals.producer.transaction_state": ("PreparedTxnState",),
    "headrace.clients.offsets": (
        "OffsetAndMetadata",
        "OffsetAndTimestamp",
        "OffsetSpec",
    ),
    "headrace.clients.processor": (
        "Output",
        "Processor",
    ),
    "headrace.clients.producer": (
        "ArrowStream",
        "AsyncProducer",
        "Producer",
    ),
    "headrace.settings.definition": ("SettingError",),
}

_HOME_OF: Final = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOME_OF[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
