"""DescribeTransactions: ids in every state, known and not."""

from tests.server.beside_kafka.compare import assert_answers_as_kafka


def test_answers_as_kafka_does() -> None:
    assert_answers_as_kafka("list_transactions", "Described")
