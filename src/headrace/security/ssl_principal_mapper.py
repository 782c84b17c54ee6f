r"""A certificate's name becomes a user's name by rules (ssl.principal.mapping.rules, KIP-371).

    RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/,RULE:^.*CN=([a-zA-Z0-9.]*).*$/$1@example/L,DEFAULT

The first rule whose pattern fits the whole name counts. What stands behind the last slash makes it lower (L)
or upper case (U). DEFAULT is the name as it is: RFC 2253's form, as Java writes it.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, NamedTuple

from cryptography import x509
from cryptography.x509.name import Name, NameAttribute, RelativeDistinguishedName
from cryptography.x509.oid import NameOID

from headrace.settings.definition import SettingError

_RULE: Final = re.compile(r"\s*(?:(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?))\s*(?:,\s*|$)")
# RFC 2253's keywords. Java writes all others by their numbers, with the value as bytes.
_KEYWORDS: Final = {
    NameOID.COMMON_NAME: "CN",
    NameOID.COUNTRY_NAME: "C",
    NameOID.LOCALITY_NAME: "L",
    NameOID.STATE_OR_PROVINCE_NAME: "ST",
    NameOID.STREET_ADDRESS: "STREET",
    NameOID.ORGANIZATION_NAME: "O",
    NameOID.ORGANIZATIONAL_UNIT_NAME: "OU",
    NameOID.DOMAIN_COMPONENT: "DC",
    NameOID.USER_ID: "UID",
}
_SPECIAL: Final = re.compile(r'([,+"\\<>;])')


class _Rule(NamedTuple):
    pattern: re.Pattern[str] | None  # None: DEFAULT
    replacement: str
    case: str


class SslPrincipalMapper:
    """The rules of one listener."""

    def __init__(self, rules: str, setting: str = "ssl.principal.mapping.rules") -> None:
        """SettingError where the text is none."""
        self._rules = tuple(_parse(rules, setting))

    def name_of(self, distinguished_name: str) -> str | None:
        """The user's name; None where no rule fits."""
        for rule in self._rules:
            if rule.pattern is None:
                return distinguished_name
            if rule.pattern.fullmatch(distinguished_name):
                name = rule.pattern.sub(rule.replacement, distinguished_name)
                return {"L": name.lower(), "U": name.upper()}.get(rule.case, name)
        return None


def _parse(rules: str, setting: str) -> list[_Rule]:
    parsed, at = [], 0
    text = rules.strip()
    while at < len(text):
        found = _RULE.match(text, at)
        if found is None:
            raise SettingError(setting, f"{text[at:]!r} is neither DEFAULT nor RULE:PATTERN/REPLACEMENT/[LU]")
        at = found.end()
        parsed.append(_Rule(None, "", "") if found[1] else _rule(found, setting))
    return parsed


def _rule(found: re.Match[str], setting: str) -> _Rule:
    try:
        pattern = re.compile(found[2])
        groups = pattern.groups
    except re.error as error:
        raise SettingError(setting, f"{found[2]!r} is no pattern: {error}") from None
    replacement = re.sub(
        r"\$(\d)",
        lambda group: rf"\g<{group[1]}>" if int(group[1]) <= groups else group[0],
        found[3].replace("\\", "\\\\"),
    )
    return _Rule(pattern, replacement, found[4])


@lru_cache(maxsize=1024)
def distinguished_name(certificate: bytes) -> str:
    """The subject of a certificate (DER), as Java's X500Principal.getName() writes it: RFC 2253."""
    return name_text(x509.load_der_x509_certificate(certificate).subject)


def name_text(name: Name) -> str:
    """A name in RFC 2253's form: the most special part first."""
    return ",".join(map(_part, reversed(name.rdns)))


def _part(part: RelativeDistinguishedName) -> str:
    return "+".join(map(_attribute, part))


def _attribute(attribute: NameAttribute[str | bytes]) -> str:
    keyword = _KEYWORDS.get(attribute.oid)
    if keyword is None or not isinstance(attribute.value, str):
        return f"{attribute.oid.dotted_string}=#{_der(attribute).hex()}"
    return f"{keyword}={_escaped(attribute.value)}"


def _escaped(value: str) -> str:
    value = _SPECIAL.sub(r"\\\1", value)
    if value.startswith((" ", "#")):
        value = "\\" + value
    if value.endswith(" ") and len(value) > 1:
        value = value[:-1] + "\\ "
    return value


def _der(attribute: NameAttribute[str | bytes]) -> bytes:
    """The value as it stands in a certificate: tag, length, bytes."""
    value = attribute.value if isinstance(attribute.value, bytes) else attribute.value.encode()
    tag = attribute._type.value
    size = len(value)
    length = (
        bytes([size])
        if size < 128
        else bytes([0x80 + (size.bit_length() + 7) // 8]) + size.to_bytes((size.bit_length() + 7) // 8, "big")
    )
    return bytes([tag]) + length + value
