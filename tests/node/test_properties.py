"""Java's .properties form: the cases of java.util.Properties' own description, in our words."""

import pytest

from headrace.node.properties_file import parse_properties


@pytest.mark.parametrize(
    ("text", "entries"),
    [
        ("a=1", {"a": "1"}),
        ("a = 1\r\nb: 2\rc 3\n", {"a": "1", "b": "2", "c": "3"}),
        ("  a.b=  spaces before, not after  ", {"a.b": "spaces before, not after  "}),
        ("# a=1\n  ! b=2\n\n\t\nc=3", {"c": "3"}),
        ("fruits = apple, \\\n         banana, \\\n\tpear", {"fruits": "apple, banana, pear"}),
        ("path=C:\\\\logs\\\\\nb=2", {"path": "C:\\logs\\", "b": "2"}),
        ("a\\ b\\=c\\:d=e", {"a b=c:d": "e"}),
        ("t=\\ta\\nb\\u0041\\q", {"t": "\ta\nbAq"}),
        ("empty=\nbare", {"empty": "", "bare": ""}),
        (
            "listeners=PLAINTEXT://:9092,CONTROLLER://:9093",
            {"listeners": "PLAINTEXT://:9092,CONTROLLER://:9093"},
        ),
        ("a=1\na=2", {"a": "2"}),
        ("a=1 \\", {"a": "1 "}),
        ("a=x # not a comment", {"a": "x # not a comment"}),
        ("a=b\\\n# still the value", {"a": "b# still the value"}),
    ],
)
def test_entries(text: str, entries: dict[str, str]) -> None:
    assert {name: entry.value for name, entry in parse_properties(text).items()} == entries


def test_the_line_of_an_entry_is_where_it_begins() -> None:
    text = "# first\na=1\n\nb=2,\\\n  3\nc=4\r\na=5"
    assert {name: entry.line for name, entry in parse_properties(text).items()} == {"a": 7, "b": 4, "c": 6}
