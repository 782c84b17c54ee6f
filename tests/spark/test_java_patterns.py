"""Patterns in Java's syntax: those that are taken mean what they mean to Java, others are refused by name."""

from typing import TYPE_CHECKING

import pytest

from headrace.spark.java_patterns import java_pattern
from headrace.spark.option_values import OptionError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TAKEN = [
    "orders",
    "orders.*",
    "orders-[0-9]+",
    r"orders\.eu",
    r"\Qorders.eu\E|logs",
    r"(?<first>[a-z])\k<first>b",
    r"([a-z])\1b",
    r"\p{Lower}+",
    r"[\p{Lu}\d_-]+",
    r"\P{Alpha}+",
    r"\p{L}{3}",
    "(?i)ORDERS",
    "(?:orders|logs)(-eu)?",
    "(?!logs).*",
    "a*+b",
    "(?>a*)b",
    "^orders$",
    r"orders\z",
    r"\w+-\d{1,3}",
    "[^a-z]+",
    "[a|b~]+",
    ".*[._-]eu",
]
REFUSED = {
    "[a-z&&[^b]]": "'&&' in a class",
    "[a[bc]]": r"'\[b' in a class",
    "(?P<name>a)": r"'\(\?P'",
    "(?<n>a)(?(n)b)": r"'\(\?\('",
    "(?#note)a": r"'\(\?#'",
    "a(?i)b": r"'\(\?i'",
    r"\x41": r"\\x",
    r"\p{Greek}": r"\\p\{Greek\}",
    r"\R": r"\\R",
    "[]a]": r"\[\]",
    "[a--z]": "'--' in a class",
    "a{,3}": "begins no count",
    "a\\": "a backslash at its end",
    "[a": "a class without its end",
    "(a": "is no pattern",
    "*a": "is no pattern",
}
NAMES = [
    *("orders", "ORDERS", "orders.eu", "ordersXeu", "orders-1", "orders-12", "orders-eu", "logs", "logs-eu"),
    *("aab", "ab", "b", "aaab", "abc", "A_1-", "-1", "a|b~", "eu", "x_eu", "__", "ABC"),
]


def test_what_is_taken_means_what_it_means_to_java(spark: "SparkSession") -> None:
    java = spark._jvm.java.util.regex.Pattern  # type: ignore[union-attr]
    for pattern in TAKEN:
        ours = java_pattern(pattern)
        theirs = [name for name in NAMES if java.matches(pattern, name)]
        assert [name for name in NAMES if ours.fullmatch(name)] == theirs, pattern
        assert theirs or pattern == "a*+b", pattern


@pytest.mark.parametrize(("pattern", "said"), REFUSED.items())
def test_what_differs_is_refused(pattern: str, said: str) -> None:
    with pytest.raises(OptionError, match=f"option subscribePattern: .*{said}"):
        java_pattern(pattern)
