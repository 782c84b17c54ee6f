"""Kafka's names of loggers lead to modules that are there."""

from importlib.util import find_spec

import pytest

from headrace.telemetry.kafka_loggers import KAFKA_LOGGERS, own_loggers


@pytest.mark.parametrize("name", sorted(KAFKA_LOGGERS))
def test_a_name_stands_for_modules_of_ours(name):
    assert not [each for each in own_loggers(name) if find_spec(each) is None]


def test_our_own_names_stand_for_themselves():
    assert own_loggers("headrace.raft") == ("headrace.raft",)
