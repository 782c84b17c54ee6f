"""Certificates of clients at a node that asks for them without need (ssl.client.auth=requested), and what
says which are good, changed over the wire while the node runs."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.clients import AclBinding, Admin, ClientError
from headrace.settings.not_yet import STANDARD_AUTHORIZER
from headrace.testing import Cluster
from tests.compat.clients.face import eventually
from tests.security.certificates import LOCAL, Authority, Credentials
from tests.security.test_revocation import crl, pem
from tests.transport.harness import own_records

AUTHORITY, OTHER = Authority(), Authority("other")
ADMIN, ALICE, BOB = (AUTHORITY.sign(name) for name in ("admin", "alice", "bob"))
EVE = OTHER.sign("alice")  # who says that she is Alice
LATE = AUTHORITY.sign("alice", valid_days=-1)
TIMEOUT_MS = 5_000
SEEN = "for-alice"
LISTENER = "listener.name.ssl."


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("certificates")
    AUTHORITY.write(folder / "ca.pem")
    settings = {
        "listeners": "SSL://127.0.0.1:0",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(AUTHORITY.sign("node", LOCAL).write(folder / "node.pem")),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(folder / "ca.pem"),
        "ssl.client.auth": "requested",
        "ssl.principal.mapping.rules": "RULE:^CN=([^,]*).*$/$1/",
        "authorizer.class.name": STANDARD_AUTHORIZER,
        "super.users": "User:admin;User:node",
    }
    with Cluster(settings=settings) as started:
        with client(started, ADMIN) as admin:
            admin.create_topic(SEEN)
            admin.create_acls(AclBinding("User:alice", "describe", "topic", SEEN))
        yield started


@contextlib.contextmanager
def client(cluster: Cluster, shown: Credentials | None = None) -> Iterator[Admin]:
    settings = {
        "bootstrap.servers": cluster.bootstrap_servers,
        "security.protocol": "SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": AUTHORITY.pem,
    }
    if shown is not None:
        settings |= {"ssl.keystore.key": shown.key_pem(), "ssl.keystore.certificate.chain": shown.chain_pem}
        settings |= {"ssl.keystore.type": "PEM"}
    with Admin(settings, default_api_timeout_ms=TIMEOUT_MS) as admin:
        yield admin


def topics(cluster: Cluster, shown: Credentials | None = None) -> list[str]:
    """What somebody with this certificate sees."""
    with client(cluster, shown) as asking:
        return [each.name for each in asking.list_topics()]


def sees(cluster: Cluster, shown: Credentials) -> list[str] | None:
    """The same, None for who is refused."""
    try:
        return topics(cluster, shown)
    except ClientError:
        return None


def is_refused(cluster: Cluster, shown: Credentials, why: str) -> None:
    with pytest.raises(ClientError, match=why):
        topics(cluster, shown)


def test_who_shows_none_is_anonymous(cluster: Cluster) -> None:
    assert topics(cluster) == []


def test_who_shows_a_good_one_has_its_name(cluster: Cluster) -> None:
    assert topics(cluster, ALICE) == [SEEN]
    assert topics(cluster, BOB) == []


def test_who_shows_a_wrong_one_is_not_let_in_as_nobody_either(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    """Asking for none does not make one good that is not."""
    is_refused(cluster, EVE, "does not trust this side's certificate")
    is_refused(cluster, LATE, "certificate has expired")
    assert not [record for record in own_records(caplog) if record.exc_info]


def test_other_authorities_and_lists_are_followed_when_a_setting_changes(
    cluster: Cluster, tmp_path: Path
) -> None:
    both, listed = tmp_path / "both.pem", tmp_path / "ca.crl"
    both.write_text(AUTHORITY.pem + OTHER.pem)
    listed.write_bytes(pem(crl([BOB], by=AUTHORITY)) + pem(crl([], by=OTHER)))
    with client(cluster, ADMIN) as admin:

        def change(**settings: Path | None) -> None:
            names = {f"{LISTENER}ssl.{name}.location": path for name, path in settings.items()}
            admin.alter_configs(
                *("broker", "1"),
                set_to={name: str(path) for name, path in names.items() if path is not None},
                delete=[name for name, path in names.items() if path is None],
            )

        change(truststore=both)
        eventually(lambda: sees(cluster, EVE) == [SEEN], "she is who she says now")
        change(crl=listed)
        eventually(lambda: sees(cluster, BOB) is None, "he is on the list")
        assert topics(cluster, ALICE) == topics(cluster, EVE) == [SEEN]
        for wrong in (tmp_path / "nowhere", tmp_path / "broken"):
            (tmp_path / "broken").write_text(
                "-----BEGIN CERTIFICATE-----\nbroken\n-----END CERTIFICATE-----\n"
            )
            for name in ("truststore", "crl"):
                with pytest.raises(ClientError, match=f"ssl.{name}.location"):
                    change(**{name: wrong})
        assert topics(cluster, EVE) == [SEEN]
        is_refused(cluster, BOB, "this side's certificate has been revoked")
        change(crl=None, truststore=None)
        eventually(lambda: sees(cluster, BOB) == [], "there is no list")
        eventually(lambda: sees(cluster, EVE) is None, "her authority is not trusted again")
