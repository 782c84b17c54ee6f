"""The producers of a Python worker.

Spark keeps its Python workers and gives them one task after another. Making a producer means a connection, a
look at the cluster and a producer id from the controller, for every task of every micro-batch; so one that
served a task well is kept for the next with the same settings. One whose task failed is closed at once,
whatever is still on its way: the task will be run again, and nobody waits for the rest of this attempt.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from headrace.clients import Producer
from headrace.settings.definition import SettingError
from headrace.spark.sink.errors import SinkError

# At least once means that the in-sync replicas have it, and that a retry inside a task doubles nothing.
_FIXED: Final = {"acks": "all", "enable.idempotence": "true"}
_SAME: Final = {"acks": {"all", "-1"}, "enable.idempotence": {"true"}}

_idle: dict[tuple[object, ...], list[Producer]] = {}


def producer_settings(given: Mapping[str, str]) -> dict[str, str]:
    """The user's settings with what the sink stands for; SinkError where they contradict it."""
    for name, allowed in _SAME.items():
        if name in given and str(given[name]).lower() not in allowed:
            raise SinkError(
                f"kafka.{name}={given[name]}: the sink writes with {name}={_FIXED[name]}, since a task "
                "that says it is done must have written for good; leave the option out"
            )
    return {"client.id": "headrace-spark", **given, **_FIXED}


@contextmanager
def lent_producer(settings: Mapping[str, str]) -> Iterator[Producer]:
    """A producer for one task."""
    # A fork has its parent's table and none of its threads.
    key = (os.getpid(), *sorted(settings.items()))
    idle = _idle.setdefault(key, [])
    producer = idle.pop() if idle else opened_producer(settings)
    try:
        yield producer
    except BaseException:
        producer.close(timeout_ms=0)
        raise
    idle.append(producer)


def opened_producer(settings: Mapping[str, str]) -> Producer:
    """SinkError where settings are wrong."""
    try:
        return Producer(settings)
    except SettingError as error:
        raise SinkError(f"a kafka.* option is wrong: {error}") from error
