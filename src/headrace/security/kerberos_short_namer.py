r"""A principal of Kerberos becomes a user's name by rules (sasl.kerberos.principal.to.local.rules).

    RULE:[1:$1@$0](.*@EXAMPLE\.COM)s/@.*//,RULE:[2:$1](kafka)s/^.*$/broker/,DEFAULT

A rule is for names of so many parts (`[2:` for `kafka/host@REALM`); it makes a text of them, `$0` being the
realm, which its pattern must fit whole. `s/…/…/` then replaces the first match, with a g all of them; L or U
behind a slash make it lower or upper case. DEFAULT is the first part of names of this machine's own realm.
The first rule that gives a name counts, and a name in which `/` or `@` are left is none.
"""

import re
from typing import Final, NamedTuple

from headrace.settings.definition import SettingError

SETTING: Final = "sasl.kerberos.principal.to.local.rules"

_PRINCIPAL: Final = re.compile(r"([^/@\\]+)(?:/([^/@\\]+))?@([^/@\\]+)")
_RULE: Final = re.compile(
    r"(DEFAULT)|RULE:\[(\d*):([^\]]*)\](?:\(([^)]*)\))?(?:s/([^/]*)/([^/]*)/(g)?)?/?([LU])?"
)
_GROUP: Final = re.compile(r"\$(\d)")
_NOT_SIMPLE: Final = re.compile(r"[/@]")


class NoMatchingRuleError(Exception):
    """No rule makes a user's name of a principal."""


class _Rule(NamedTuple):
    parts: int  # 0: DEFAULT
    shape: str
    fits: re.Pattern[str] | None
    searched: re.Pattern[str] | None
    replacement: str
    is_repeated: bool
    case: str

    def name_of(self, parts: tuple[str, ...], default_realm: str) -> str | None:
        """`parts` are the realm and the name's."""
        if not self.parts:
            return parts[1] if parts[0] == default_realm else None
        if len(parts) - 1 != self.parts:
            return None
        text = _GROUP.sub(lambda group: _part(parts, int(group[1])), self.shape)
        if self.fits is not None and not self.fits.fullmatch(text):
            return None
        if self.searched is not None:
            text = self.searched.sub(self.replacement, text, count=0 if self.is_repeated else 1)
        return {"L": text.lower(), "U": text.upper()}.get(self.case, text)


class KerberosShortNamer:
    """The rules of one listener."""

    def __init__(self, rules: tuple[str, ...], default_realm: str, setting: str = SETTING) -> None:
        """SettingError where a rule is none."""
        self._default_realm = default_realm
        self._rules = [_parse(rule.strip(), setting) for rule in rules]

    def user_of(self, principal: str) -> str:
        """NoMatchingRuleError where no rule makes a simple name of it."""
        found = _PRINCIPAL.fullmatch(principal)
        if found is None:
            raise NoMatchingRuleError(f"{principal!r} is no principal of one or two parts and a realm")
        first, second, realm = found.groups()
        parts = (realm, first) if second is None else (realm, first, second)
        for rule in self._rules:
            name = rule.name_of(parts, self._default_realm)
            if name is None:
                continue
            if not name or _NOT_SIMPLE.search(name):
                raise NoMatchingRuleError(f"{principal!r} becomes {name!r}, which is no user's name")
            return name
        raise NoMatchingRuleError(f"no rule of {SETTING} fits {principal!r}")


def _part(parts: tuple[str, ...], index: int) -> str:
    if index >= len(parts):
        raise NoMatchingRuleError(f"a rule asks for part {index} of a name of {len(parts) - 1}")
    return parts[index]


def _parse(rule: str, setting: str) -> _Rule:
    found = _RULE.fullmatch(rule)
    if found is None:
        raise SettingError(setting, f"{rule!r} is neither DEFAULT nor RULE:[PARTS:FORM](PATTERN)s/FROM/TO/")
    if found[1]:
        return _Rule(0, "", None, None, "", False, "")
    parts = int(found[2] or 0)
    if not parts:
        raise SettingError(setting, f"{rule!r} says of how many parts its names are: RULE:[1:… or RULE:[2:…")
    try:
        fits = re.compile(found[4]) if found[4] is not None else None
        searched = re.compile(found[5]) if found[5] is not None else None
    except re.error as error:
        raise SettingError(setting, f"{rule!r} has no pattern: {error}") from None
    replacement = _replacement(found[6] or "", searched.groups if searched else 0)
    return _Rule(parts, found[3], fits, searched, replacement, bool(found[7]), found[8] or "")


def _replacement(text: str, groups: int) -> str:
    """Java's `$1` in Python's words."""
    return _GROUP.sub(
        lambda group: rf"\g<{group[1]}>" if int(group[1]) <= groups else group[0],
        text.replace("\\", "\\\\"),
    )
