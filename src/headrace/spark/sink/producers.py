"""The producers of the sink: which settings they have, and one that is kept for a worker's next task."""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Final

from headrace.settings.definition import SettingError
from headrace.spark.sink import SinkError
from headrace.spark.worker import WorkerClients

if TYPE_CHECKING:
    from headrace.clients import Producer

# At least once means that the in-sync replicas have it, and that a retry inside a task doubles nothing.
_FIXED: Final = {"acks": "all", "enable.idempotence": "true"}
_SAME: Final = {"acks": {"all", "-1"}, "enable.idempotence": {"true"}}

# Those that no task of this worker uses now. All they have sent is acknowledged: nothing to wait for.
_PRODUCERS: "Final[WorkerClients[Producer]]" = WorkerClients(lambda producer: producer.close(timeout_ms=0))


def producer_settings(given: Mapping[str, str]) -> dict[str, str]:
    """The user's settings with what the sink stands for; SinkError where they contradict it."""
    for name, allowed in _SAME.items():
        if name in given and str(given[name]).lower() not in allowed:
            raise SinkError(
                f"kafka.{name}={given[name]}: the sink writes with {name}={_FIXED[name]}, since a task "
                "that says it is done must have written for good; leave the option out"
            )
    return {"client.id": "headrace-spark", **given, **_FIXED}


def lent_producer(settings: Mapping[str, str]) -> "AbstractContextManager[Producer]":
    """A producer for one task."""
    return _PRODUCERS.lent(tuple(sorted(settings.items())), lambda: opened_producer(settings))


def opened_producer(settings: Mapping[str, str]) -> "Producer":
    """SinkError where settings are wrong."""
    from headrace.clients import Producer  # only tasks need one

    try:
        return Producer(settings)
    except SettingError as error:
        raise SinkError(f"a kafka.* option is wrong: {error}") from error
