"""AlterClientQuotas: what Apache Kafka takes and refuses, and which quota binds a client then."""

import pytest

from tests.server.beside_kafka.compare import assert_answers_as_kafka


@pytest.mark.parametrize("title", ["What can be set", "What is refused", "Which quota binds a client"])
def test_as_kafka_answers(title: str) -> None:
    assert_answers_as_kafka("client_quotas", title)
