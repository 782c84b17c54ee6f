"""ConsumerGroupHeartbeat answers as Apache Kafka does."""

from tests.server.beside_kafka.compare import assert_answers_as_kafka


def test_answers_as_kafka() -> None:
    assert_answers_as_kafka("consumer_group_heartbeat")


def test_both_protocols_in_one_group_as_in_kafka() -> None:
    assert_answers_as_kafka("consumer_group_migration")
