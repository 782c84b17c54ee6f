"""Principals become users by rules. What Apache Kafka's KerberosShortNamer says of the same is beside them:
the answers were taken from it (4.3.1)."""

import pytest

from headrace.security.kerberos_short_namer import KerberosShortNamer, NoMatchingRuleError
from headrace.settings.definition import SettingError

REALM = "EXAMPLE.COM"


@pytest.mark.parametrize(
    ("rules", "principal", "user"),
    [
        (("DEFAULT",), "alice@EXAMPLE.COM", "alice"),
        (("DEFAULT",), "kafka/host@EXAMPLE.COM", "kafka"),
        (("DEFAULT",), "alice@OTHER.COM", None),
        (("DEFAULT",), "alice@example.com", None),
        (("RULE:[1:$1]",), "alice@OTHER.COM", "alice"),
        (("RULE:[1:$1]",), "kafka/host@OTHER.COM", None),
        (("RULE:[1:$1@$0]",), "alice@OTHER.COM", None),
        ((r"RULE:[1:$1@$0](.*@OTHER\.COM)s/@.*//",), "alice@OTHER.COM", "alice"),
        ((r"RULE:[1:$1@$0](.*@OTHER\.COM)s/@.*//",), "alice@OTHER.COM.EVIL", None),
        ((r"RULE:[1:$1@$0](.*@OTHER\.COM)s/@.*//",), "alice@OTHERxCOM", None),
        ((r"RULE:[1:$1@$0](OTHER)s/@.*//", "DEFAULT"), "alice@EXAMPLE.COM", "alice"),
        (("RULE:[2:$1-$2](kafka-.*)s/^kafka-//",), "kafka/node1@EXAMPLE.COM", "node1"),
        (("RULE:[2:$1](kafka)s/^.*$/broker/", "DEFAULT"), "kafka/node1@OTHER.COM", "broker"),
        (("RULE:[2:$1](kafka)s/^.*$/broker/", "DEFAULT"), "spark/node1@EXAMPLE.COM", "spark"),
        (("RULE:[1:$1]s/a/o/",), "banana@EXAMPLE.COM", "bonana"),
        (("RULE:[1:$1]s/a/o/g",), "banana@EXAMPLE.COM", "bonono"),
        (("RULE:[1:$1]s/(.)n/n$1/g",), "banana@EXAMPLE.COM", "bnanaa"),
        (("RULE:[1:$1]/L",), "Alice@EXAMPLE.COM", "alice"),
        (("RULE:[1:$1]/U",), "Alice@EXAMPLE.COM", "ALICE"),
        (("RULE:[1:$1]s/A/b/L",), "Alice@EXAMPLE.COM", "blice"),
        (("RULE:[1:x$1y]",), "alice@EXAMPLE.COM", "xalicey"),
    ],
)
def test_rules(rules: tuple[str, ...], principal: str, user: str | None) -> None:
    namer = KerberosShortNamer(rules, REALM)
    if user is not None:
        assert namer.user_of(principal) == user
        return
    with pytest.raises(NoMatchingRuleError):
        namer.user_of(principal)


@pytest.mark.parametrize(
    "principal",
    [
        "alice",
        "a/b/c@EXAMPLE.COM",
        "@EXAMPLE.COM",
        "a@b@EXAMPLE.COM",
        r"a\@b@EXAMPLE.COM",
        r"kafka\/x@EXAMPLE.COM",
    ],
)
def test_a_name_of_another_form_is_nobodys(principal: str) -> None:
    """The library writes `/` and `@` within a part with a backslash: such a name is no shorter one."""
    with pytest.raises(NoMatchingRuleError):
        KerberosShortNamer(("RULE:[1:$1]", "RULE:[2:$1]", "DEFAULT"), REALM).user_of(principal)


def test_a_rule_that_leaves_nothing_makes_no_user() -> None:
    with pytest.raises(NoMatchingRuleError):
        KerberosShortNamer(("RULE:[1:$1]s/.*//",), REALM).user_of("alice@EXAMPLE.COM")


@pytest.mark.parametrize(
    "rule",
    [
        "",
        "default",
        "RULE:[1:$1",
        "RULE:[0:$1]",
        "RULE:[:$1]",
        "RULE:[1:$1](()",
        "RULE:[1:$1]s/(/x/",
        "nobody",
    ],
)
def test_what_is_no_rule_is_refused(rule: str) -> None:
    with pytest.raises(SettingError, match=r"sasl\.kerberos\.principal\.to\.local\.rules"):
        KerberosShortNamer((rule,), REALM)
