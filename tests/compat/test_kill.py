"""The short form of kill.py: five kills, and files that Apache Kafka reads afterwards."""

from collections.abc import Iterator

import pytest

from tests.compat import brokers, kill
from tests.compat.brokers import Broker, OutsideBroker
from tests.compat.dump_check import check_files


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with brokers.under_test(tmp_path_factory.mktemp("kill")) as broker:
        if isinstance(broker, OutsideBroker):
            pytest.skip("COMPAT_BOOTSTRAP names a broker that is not ours to kill")
        kill.run(broker, rounds=5, seed=20)
        yield broker
        broker.stop()


def test_what_was_acknowledged_survives_kills(killed: Broker) -> None:
    assert killed.is_running


@pytest.mark.java
def test_apache_kafka_reads_every_file(killed: Broker) -> None:
    check_files(killed)
