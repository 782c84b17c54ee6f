"""Clients of any Kafka: a producer, a consumer and an administrator, each with a sync and an async face.

    from headrace.clients import Admin, Consumer, Producer

The faces are loaded when they are first asked for: a command that needs none pays for none.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from headrace.clients.administering.face import Admin, AsyncAdmin
    from headrace.clients.consuming.async_face import AsyncConsumer
    from headrace.clients.consuming.coordinator import GroupMetadata, OffsetAndMetadata
    from headrace.clients.consuming.face import Consumer
    from headrace.clients.consuming.listener import RebalanceListener
    from headrace.clients.consuming.records import ConsumedRecord
    from headrace.clients.processor import Output, Processor
    from headrace.clients.producing.batch import Delivery, RecordMetadata
    from headrace.clients.producing.face import AsyncProducer, Producer
    from headrace.clients.producing.transaction_phases import PreparedTransaction

__all__ = [
    "Admin",
    "AsyncAdmin",
    "AsyncConsumer",
    "AsyncProducer",
    "ConsumedRecord",
    "Consumer",
    "Delivery",
    "GroupMetadata",
    "OffsetAndMetadata",
    "Output",
    "PreparedTransaction",
    "Processor",
    "Producer",
    "RebalanceListener",
    "RecordMetadata",
]

_HOMES: Final = {
    "Admin": "administering.face",
    "AsyncAdmin": "administering.face",
    "AsyncConsumer": "consuming.async_face",
    "AsyncProducer": "producing.face",
    "ConsumedRecord": "consuming.records",
    "Consumer": "consuming.face",
    "Delivery": "producing.batch",
    "GroupMetadata": "consuming.coordinator",
    "OffsetAndMetadata": "consuming.coordinator",
    "Output": "processor",
    "Processor": "processor",
    "PreparedTransaction": "producing.transaction_phases",
    "Producer": "producing.face",
    "RebalanceListener": "consuming.listener",
    "RecordMetadata": "producing.batch",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
