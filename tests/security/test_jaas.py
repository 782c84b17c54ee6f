"""JAAS lines: what is read out of them, and what no line can do."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.security.jaas import LOGIN_MODULES, JaasError, parse_jaas

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


def test_a_line_of_kafkas_documentation() -> None:
    entry = parse_jaas(
        f"""{PLAIN} required
        username="admin"
        password="admin-secret" // who the broker is
        user_admin="admin-secret" /* and who
        comes */ user_alice='al"ice';"""
    )
    assert entry.mechanisms == ("PLAIN",)
    assert (entry.username, entry.password) == ("admin", "admin-secret")
    assert entry.users == {"admin": "admin-secret", "alice": 'al"ice'}


def test_escapes_and_bare_words() -> None:
    entry = parse_jaas(rf'{PLAIN} required username=a.b-c$d password="a\"b\\c\t;=//";')
    assert (entry.username, entry.password) == ("a.b-c$d", 'a"b\\c\t;=//')


def test_options_are_not_shown() -> None:
    assert "secret" not in repr(parse_jaas(f'{PLAIN} required password="secret" user_a="secret";'))


@pytest.mark.parametrize(
    "module",
    [
        "com.sun.security.auth.module.JndiLoginModule",
        "com.sun.security.auth.module.LdapLoginModule",
        "com.sun.security.auth.module.NTLoginModule",
        "org.apache.kafka.common.security.plain.PlainLoginModulE",
        "os.system",
    ],
)
def test_no_other_login_module_is_taken(module: str) -> None:
    """CVE-2023-25194, CVE-2025-27818, CVE-2025-27819."""
    with pytest.raises(JaasError, match="no login module that is known"):
        parse_jaas(f'{module} required user.provider.url="ldap://evil";')


@pytest.mark.parametrize(
    "line",
    [
        "",
        ";",
        "hunter",
        f"{PLAIN}",
        f"{PLAIN} required",
        f"{PLAIN} perhaps;",
        f"{PLAIN} required password=;",
        f"{PLAIN} required password=hunter=x;",
        f"{PLAIN} required hunter;",
        f'{PLAIN} required password="hunter;',
        f'{PLAIN} required password="hunt\ner";',
        f"{PLAIN} required password=hunt@er;",
        f"{PLAIN} required; {PLAIN} required;",
        f"{PLAIN} required; hunter",
        "hunt@er required;",
    ],
)
def test_what_is_wrong_is_told_without_a_value(line: str) -> None:
    with pytest.raises(JaasError) as failure:
        parse_jaas(line)
    assert "hunt" not in str(failure.value)


WORDS = [*LOGIN_MODULES, "required", "=", ";", '"', "'", "\\", "//", "/*", "*/", " ", "\n", "user_a"]


@settings(derandomize=True, max_examples=300, deadline=None)
@given(st.lists(st.one_of(st.sampled_from(WORDS), st.text(max_size=5)), max_size=20).map("".join))
def test_any_text_is_an_entry_or_an_error(text: str) -> None:
    try:
        entry = parse_jaas(text)
    except JaasError:
        return
    assert entry.module in LOGIN_MODULES


@settings(derandomize=True, max_examples=200, deadline=None)
@given(st.dictionaries(st.from_regex(r"[a-z_]{1,8}", fullmatch=True), st.text(max_size=12), max_size=4))
def test_any_value_survives_its_quotes(options: dict[str, str]) -> None:
    def quoted(value: str) -> str:
        escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r")
        return f'"{escaped}"'

    line = f"{PLAIN} required {' '.join(f'{k}={quoted(v)}' for k, v in options.items())};"
    assert parse_jaas(line).options == options
