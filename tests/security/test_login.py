"""How a client or node is to log in: what cannot be is said at the start, with what can."""

import pytest

from headrace.clients import Admin
from headrace.security.login import check_mechanism
from headrace.security.sasl.mechanism import MECHANISMS
from headrace.settings.definition import SettingError


@pytest.mark.parametrize(
    ("mechanism", "why"),
    [
        ("PLAN", "PLAN is no SASL mechanism: give one of PLAIN"),
        ("gssapi", "gssapi is no SASL mechanism: give one of PLAIN"),
    ],
)
def test_a_mechanism_that_there_is_not_is_refused(mechanism: str, why: str) -> None:
    with pytest.raises(SettingError, match=why) as told:
        check_mechanism(mechanism, "sasl.mechanism")
    assert told.value.setting == "sasl.mechanism"
    with pytest.raises(SettingError, match=why):
        Admin(
            {
                "bootstrap.servers": "localhost:1",
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": mechanism,
            }
        )


def test_those_that_there_are_pass() -> None:
    for mechanism in MECHANISMS:
        check_mechanism(mechanism, "sasl.mechanism")
