"""Java's string hash; the expected values come from `"...".hashCode()` of a JVM."""

import pytest

from headrace.coordinators.coordinator_shard import java_string_hash, partition_for


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 0),
        ("a", 97),
        ("group", 98629247),
        ("polygenelubricants", -(2**31)),
        ("äöü", 226986),
        ("😀", 1772899),
    ],
)
def test_hash(text: str, expected: int) -> None:
    assert java_string_hash(text) == expected


def test_the_smallest_int_has_no_absolute_value() -> None:
    assert partition_for("polygenelubricants", 50) == 0
    assert partition_for("group", 50) == 98629247 % 50
