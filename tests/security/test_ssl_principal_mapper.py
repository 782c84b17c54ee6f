"""Certificates' names become users' names by rules; the cases are those of Kafka's SslPrincipalMapperTest."""

import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID

from headrace.security.ssl_principal_mapper import SslPrincipalMapper, distinguished_name
from headrace.settings.definition import SettingError
from tests.security.certificates import Authority

RULES = (
    "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L, "
    "RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L, "
    "RULE:^cn=(.*?),ou=(.*?),dc=(.*?),dc=(.*?)$/$1@$2/U, "
    "RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/U, "
    "DEFAULT"
)


@pytest.mark.parametrize(
    ("name", "user"),
    [
        ("CN=Duke,OU=ServiceUsers,O=Org,C=US", "duke"),
        ("CN=Duke,OU=SME,O=mycp,L=Fulton,ST=MD,C=US", "duke@sme"),
        ("cn=duke,ou=sme,dc=mycp,dc=com", "DUKE@SME"),
        ("cN=duke,OU=JavaSoft,O=Sun Microsystems", "DUKE"),
        ("OU=JavaSoft,O=Sun Microsystems,C=US", "OU=JavaSoft,O=Sun Microsystems,C=US"),
    ],
)
def test_the_first_rule_that_fits_counts(name: str, user: str) -> None:
    assert SslPrincipalMapper(RULES).name_of(name) == user


def test_without_a_rule_that_fits_there_is_nobody() -> None:
    assert SslPrincipalMapper("RULE:^CN=(.*?),OU=x$/$1/").name_of("CN=a,OU=y") is None


def test_a_reference_to_a_group_that_is_not_there_is_a_text() -> None:
    assert SslPrincipalMapper("RULE:^CN=(.*?)$/$1@$2/").name_of("CN=a") == "a@$2"


@pytest.mark.parametrize(
    "rules", ["default", "DEFAUL", "DEFAULT/L", "RULE:CN=(.*?)$/$1", "RULE:^CN=(.*?$/$1/L", "RULE:a/b/LU"]
)
def test_what_is_no_rule_is_refused(rules: str) -> None:
    with pytest.raises(SettingError, match=r"ssl\.principal\.mapping\.rules"):
        SslPrincipalMapper(rules)


def test_names_are_written_as_java_writes_them() -> None:
    """RFC 2253: the last part first, specials escaped, keywords for a few, numbers and bytes for the rest."""
    name = x509.Name(
        [
            x509.NameAttribute(NameOID.COUNTRY_NAME, "US"),
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, "Doe, Inc."),
            x509.NameAttribute(NameOID.EMAIL_ADDRESS, "a@b"),
            x509.NameAttribute(NameOID.COMMON_NAME, "#1"),
        ]
    )
    certificate = Authority().sign(name).der
    assert distinguished_name(certificate) == r"CN=\#1,1.2.840.113549.1.9.1=#1603614062,O=Doe\, Inc.,C=US"
