"""DescribeClientQuotas: what Apache Kafka answers to the same filters."""

import pytest

from tests.server.beside_kafka.compare import assert_answers_as_kafka


@pytest.mark.parametrize("title", ["Filters", "What is no filter"])
def test_as_kafka_answers(title: str) -> None:
    assert_answers_as_kafka("client_quotas", title)
