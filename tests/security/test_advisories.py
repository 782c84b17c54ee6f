"""The table of advisories is whole and true: each has a test that names it, and each check is where the table
says, so that `python -m tests.security.advisories` takes it out and sees the test fail."""

import pytest

from tests.house.source import ROOT
from tests.security.advisories import ADVISORIES, FAILED, Advisory, exit_code_without, named_tests


def _title(advisory: Advisory) -> str:
    return f"{advisory.name}-{advisory.test.rpartition('/')[2]}-{advisory.written[:20]}"


@pytest.mark.parametrize("advisory", ADVISORIES, ids=_title)
def test_the_advisory_has_its_test_and_its_check(advisory: Advisory) -> None:
    assert named_tests(advisory), f"no test of {advisory.test} names {advisory.name}"
    if advisory.module:
        text = (ROOT / "src/headrace" / advisory.module).read_text()
        assert text.count(advisory.written) == 1, f"{advisory.module}: {advisory.written!r} is not there once"


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("advisory", [each for each in ADVISORIES if each.module], ids=_title)
def test_the_test_fails_without_the_check(advisory: Advisory) -> None:
    assert exit_code_without(advisory) == FAILED
