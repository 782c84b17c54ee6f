"""Validation gives the codes that a real Apache Kafka gave for the same bytes."""

import pytest

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.records.batch import read_records
from headrace.records.validate import InvalidRecords, ValidationRules, validate_produced
from headrace.settings.broker_config import BrokerConfig
from headrace.settings.topic import resolve_topic_config
from tests.records.produce_cases import TOPICS, Case, all_cases
from tests.records.raw_batches import NOW_MS

CASES = all_cases()


@pytest.fixture(scope="module")
def rules() -> dict[str, ValidationRules]:
    broker = BrokerConfig({}, check=False)
    return {
        name: ValidationRules.from_config(resolve_topic_config(broker, overrides))
        for name, overrides in TOPICS.items()
    }


def test_case_names_are_unique() -> None:
    assert len({case.name for case in CASES}) == len(CASES)


def answer(case: Case, rules: ValidationRules) -> tuple[int, tuple[int, ...]]:
    try:
        produced = validate_produced(
            memoryview(bytearray(case.batch)), rules=rules, now_ms=NOW_MS, api_version=case.version
        )
    except InvalidRecords as error:
        return error.code, tuple(index for index, _ in error.record_errors)
    except ApiError as error:
        return error.code, ()
    assert len(list(read_records(produced.buffer))) == produced.record_count
    return ErrorCode.NONE, ()


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_answers_like_kafka(case: Case, rules: dict[str, ValidationRules]) -> None:
    assert answer(case, rules[case.topic]) == (case.expected, case.bad_records)
