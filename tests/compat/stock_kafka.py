"""A node of Apache Kafka for tests of what works with either system; without its jars they are skipped."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import pytest

from headrace.testing.cluster import Cluster
from tests.compat import prepare
from tests.compat.brokers import NEVER_FENCED, ApacheKafkaBroker

EITHER = ["headrace", pytest.param("kafka", marks=pytest.mark.java)]
"""The systems to run a test with, as a fixture's parameters."""

KAFKA_SLOWLY = ["headrace", pytest.param("kafka", marks=[pytest.mark.java, pytest.mark.slow])]
"""Where nothing of ours takes part with Apache Kafka: its tools work with it, and need not each time."""


@contextmanager
def running_kafka(
    folders: pytest.TempPathFactory, settings: Mapping[str, str] | None = None
) -> Iterator[str]:
    """Where Apache Kafka listens."""
    with ApacheKafkaBroker(folders.mktemp("kafka") / "data", NEVER_FENCED | dict(settings or {})) as broker:
        try:
            broker.start()
        except prepare.UnavailableError as reason:
            pytest.skip(str(reason))
        yield broker.bootstrap
        broker.stop()


@contextmanager
def running_either(
    system: str, folders: pytest.TempPathFactory, settings: Mapping[str, str]
) -> Iterator[str]:
    """Where one of `EITHER` listens."""
    if system == "kafka":
        with running_kafka(folders, settings) as bootstrap:
            yield bootstrap
        return
    with Cluster(settings=dict(settings)) as cluster:
        yield cluster.bootstrap_servers
