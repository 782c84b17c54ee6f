"""JAAS lines, read as data: `org.apache.kafka…PlainLoginModule required username="alice" password="…";`.

In Java such a line names a class that is loaded and run, which let whoever may set it run code in a broker or
a worker (CVE-2023-25194, CVE-2025-27818, CVE-2025-27819). Here the name is a word: a few are known, each
stands for one or two mechanisms, and any other is refused. Nothing is loaded or called.

A line has exactly one module. Errors name what is wrong and where, never a value: values are secrets.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from headrace.security.sasl.mechanism import GSSAPI, OAUTHBEARER, PLAIN, SCRAM_SHA_256, SCRAM_SHA_512

_PACKAGE: Final = "org.apache.kafka.common.security."
LOGIN_MODULES: Final[Mapping[str, tuple[str, ...]]] = {
    _PACKAGE + "plain.PlainLoginModule": (PLAIN,),
    _PACKAGE + "scram.ScramLoginModule": (SCRAM_SHA_256, SCRAM_SHA_512),
    _PACKAGE + "oauthbearer.OAuthBearerLoginModule": (OAUTHBEARER,),
    "com.sun.security.auth.module.Krb5LoginModule": (GSSAPI,),
}
"""The modules that are known, and the mechanisms that each is for."""

_FLAGS: Final = frozenset({"required", "requisite", "sufficient", "optional"})
KEYTAB_OPTION: Final = "keyTab"
"""The file with a principal's keys, of Kerberos."""

USER_PREFIX: Final = "user_"
"""PLAIN's users on a server: `user_alice="password"`."""

JAAS_CHARACTERS_MAX: Final = 1 << 20
"""Room for some ten thousand users; nobody writes a longer line by hand."""

_TOKEN: Final = re.compile(
    r"(?P<space>\s+|//[^\n]*|/\*.*?\*/)"
    r'|"(?P<double>(?:[^"\\\n\r]|\\.)*)"'
    r"|'(?P<single>(?:[^'\\\n\r]|\\.)*)'"
    r"|(?P<word>[\w$.\-]+)"
    r"|(?P<sign>[=;])",
    re.DOTALL,
)
_ESCAPES: Final = {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f", "a": "\a", "v": "\v"}


class JaasError(ValueError):
    """A line that is not taken; the message says why, and shows no value."""


@dataclass(frozen=True, slots=True)
class JaasEntry:
    """One login module with its options. The options do not show when it is printed."""

    module: str
    options: Mapping[str, str] = field(repr=False)

    @property
    def mechanisms(self) -> tuple[str, ...]:
        return LOGIN_MODULES[self.module]

    @property
    def username(self) -> str:
        return self.options.get("username", "")

    @property
    def password(self) -> str:
        return self.options.get("password", "")

    @property
    def users(self) -> dict[str, str]:
        """PLAIN's users and their passwords, on a server."""
        at = len(USER_PREFIX)
        return {name[at:]: text for name, text in self.options.items() if name.startswith(USER_PREFIX)}


def parse_jaas(text: str) -> JaasEntry:
    """The one login module of a line; JaasError where it is another thing."""
    if len(text) > JAAS_CHARACTERS_MAX:
        raise JaasError(f"{len(text)} characters are too many: at most {JAAS_CHARACTERS_MAX}")
    tokens = _tokens(text)
    module = _word(tokens, "a login module")
    if module not in LOGIN_MODULES:
        raise JaasError(
            f"{_shown(module)} is no login module that is known here: give one of {', '.join(LOGIN_MODULES)}"
        )
    flag = _word(tokens, "`required` behind the login module")
    if flag.lower() not in _FLAGS:
        raise JaasError("behind the login module comes `required`")
    options = dict(_options(tokens))
    if next(tokens, None) is not None:
        raise JaasError("one login module is expected, and there is more behind its `;`")
    return JaasEntry(module, options)


def _options(tokens: Iterator[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    for kind, key in tokens:
        if (kind, key) == ("sign", ";"):
            return
        if kind != "word":
            raise JaasError("an option is NAME=VALUE: its name is missing")
        if next(tokens, None) != ("sign", "="):
            raise JaasError("an option is NAME=VALUE: there is no `=` behind a name")
        kind, value = next(tokens, ("sign", ""))
        if kind == "sign":
            raise JaasError("an option has no value behind its `=`")
        yield key, value
    raise JaasError("there is no `;` at the end")


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise JaasError(f"character {at + 1} begins nothing that belongs there: is a value not quoted?")
        at = match.end()
        kind = match.lastgroup
        if kind in ("double", "single"):
            yield "text", re.sub(r"\\(.)", _unescaped, match[kind], flags=re.DOTALL)
        elif kind in ("word", "sign"):
            yield kind, match[kind]


def _unescaped(match: re.Match[str]) -> str:
    return _ESCAPES.get(match[1], match[1])


def _word(tokens: Iterator[tuple[str, str]], what: str) -> str:
    kind, text = next(tokens, ("", ""))
    if kind != "word":
        raise JaasError(f"{what} is missing")
    return text


def _shown(word: str) -> str:
    """A class name. What stands in its place may be anything, a password too."""
    return repr(word) if re.fullmatch(r"(?:[a-z]\w{0,40}\.){1,12}[A-Z]\w{0,80}", word) else "the first word"
