"""Random walks that Apache Kafka took first: every step of ours must be the same."""

import pytest

from tests.server.beside_kafka.compare import assert_answers_as_kafka


@pytest.mark.parametrize("name", ["data_walk", "group_walk"])
def test_the_same_walk(name: str) -> None:
    assert_answers_as_kafka(name)
