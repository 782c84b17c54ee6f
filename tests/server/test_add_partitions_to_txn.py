"""AddPartitionsToTxn: clients add, brokers add and verify."""

import pytest

from tests.server.beside_kafka.compare import assert_answers_as_kafka


@pytest.mark.parametrize("section", ["Clients", "Brokers, v4", "Brokers, v5"])
def test_answers_as_kafka_does(section: str) -> None:
    assert_answers_as_kafka("add_partitions_to_txn", section)
