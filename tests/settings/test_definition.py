"""How a setting's text becomes a value, and what is said when it cannot."""

import pytest

from headrace.settings.definition import ConfigType, Setting, SettingError, parse, render
from headrace.settings.table import read_table


def setting(kind: ConfigType) -> Setting:
    return Setting("some.name", kind, None, "")


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (ConfigType.BOOLEAN, " TRUE ", True),
        (ConfigType.BOOLEAN, "false", False),
        (ConfigType.INT, "+5", 5),
        (ConfigType.INT, " -2147483648", -(2**31)),
        (ConfigType.SHORT, "32767", 32767),
        (ConfigType.LONG, "9223372036854775807", 2**63 - 1),
        (ConfigType.DOUBLE, "1e-1", 0.1),
        (ConfigType.DOUBLE, ".5", 0.5),
        (ConfigType.STRING, "  spaced out ", "spaced out"),
        (ConfigType.LIST, "", ()),
        (ConfigType.LIST, " a , b,c ", ("a", "b", "c")),
        (ConfigType.LIST, "a,b,a", ("a", "b")),
        (ConfigType.CLASS, "org.example.Thing", "org.example.Thing"),
        (ConfigType.PASSWORD, "s3cret", "s3cret"),
    ],
)
def test_text_becomes_the_value_it_stands_for(kind: ConfigType, text: str, value: object) -> None:
    assert parse(setting(kind), text) == value


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (ConfigType.BOOLEAN, "yes"),
        (ConfigType.BOOLEAN, ""),
        (ConfigType.INT, "1_000"),
        (ConfigType.INT, "2147483648"),
        (ConfigType.INT, "1.0"),
        (ConfigType.INT, ""),
        (ConfigType.SHORT, "32768"),
        (ConfigType.LONG, "9223372036854775808"),
        (ConfigType.LONG, "1k"),
        (ConfigType.DOUBLE, "one"),
        (ConfigType.DOUBLE, "1_0.0"),
        (ConfigType.DOUBLE, "nan"),
    ],
)
def test_text_that_does_not_fit_is_refused_by_name(kind: ConfigType, text: str) -> None:
    with pytest.raises(SettingError, match=r"some\.name") as caught:
        parse(setting(kind), text)
    assert repr(text) in str(caught.value)
    assert caught.value.setting == "some.name"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, None),
        (True, "true"),
        (7, "7"),
        (("a", "b"), "a,b"),
        (0.5, "0.5"),
        (0.0, "0.0"),
        (1e10, "1.0E10"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (0.00025, "2.5E-4"),
        (9999999.0, "9999999.0"),
        (2147483647.0, "2.147483647E9"),
    ],
)
def test_values_are_written_as_java_writes_them(
    value: bool | int | float | tuple[str, ...] | None, text: str
) -> None:
    assert render(value) == text


def test_a_table_reads_every_word_of_its_notation() -> None:
    settings = read_table("""
one.ms  long 5  high  1..  cluster-wide  < two.ms two.minutes*60000
    Milliseconds of one.
    No effect: it is only an example.
level  int -1  -1|1..9
    A level.
ratio  double 0.5  0..1
    A share.
words  list a  {a,b}  filled
    Some words.
word  string b  low  {a,b}  any-case  internal
    A word.
secret  password null  per-broker
    A secret.
must  int required
    A number.
""")
    one = settings["one.ms"]
    assert (one.kind, one.default, one.importance, one.update) == ("long", 5, "high", "cluster-wide")
    assert [(each.name, each.factor) for each in one.synonyms] == [("two.ms", 1), ("two.minutes", 60000)]
    assert (one.doc, one.effect) == ("Milliseconds of one.", "it is only an example.")
    assert parse(settings["level"], "-1") == -1
    assert parse(settings["word"], "A") == "A"
    assert settings["word"].internal
    assert settings["secret"].sensitive
    assert settings["must"].default_value is None
    for name, text in (("level", "0"), ("ratio", "1.5"), ("words", ""), ("words", "c"), ("word", "c")):
        with pytest.raises(SettingError, match=f"^{name}: '{text}' is not allowed: it must be "):
            parse(settings[name], text)
