"""`headrace certs`: what it makes is taken by OpenSSL, and replaced without changing whose it is."""

import json
import socket
import ssl
import stat
import threading
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from cryptography import x509

from headrace.cli.certs import certs
from headrace.security.certificates import common_name, hosts_of


def run(*words: str | Path) -> Result:
    return CliRunner().invoke(certs, [str(word) for word in words])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = run("create", tmp_path, "--node", "node1", "--host", "localhost", "--host", "127.0.0.1")
    assert made.exit_code == 0, made.output
    return tmp_path


def handshake(folder: Path, *, host: str, user: str | None = None) -> None:
    """Between two ends that trust the folder's authority; ssl.SSLError where one refuses the other."""
    ca = str(folder / "ca.pem")
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=ca)
    server.load_cert_chain(folder / "node1.pem")
    server.verify_mode = ssl.CERT_OPTIONAL if user is None else ssl.CERT_REQUIRED
    client = ssl.create_default_context(cafile=ca)
    client.verify_flags |= ssl.VERIFY_X509_STRICT
    if user is not None:
        client.load_cert_chain(folder / f"{user}.pem")
    ours, theirs = socket.socketpair()

    def serve() -> None:
        with theirs, server.wrap_socket(theirs, server_side=True) as inside:
            inside.sendall(inside.recv(10))

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        with ours, client.wrap_socket(ours, server_hostname=host) as inside:
            inside.sendall(b"hello")
            assert inside.recv(10) == b"hello"
    finally:
        thread.join()


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
def test_openssl_takes_them(folder: Path, host: str) -> None:
    assert run("create", folder, "--user", "alice").exit_code == 0
    handshake(folder, host=host)
    handshake(folder, host=host, user="alice")


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_another_host_is_refused(folder: Path) -> None:
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        handshake(folder, host="elsewhere.example.org")


def test_keys_are_for_their_owner_only(folder: Path) -> None:
    for name in ("ca.key", "node1.pem"):
        assert stat.S_IMODE((folder / name).stat().st_mode) == 0o600


def test_renewed_it_is_the_same_name_with_another_key(folder: Path) -> None:
    ca, old = (folder / "ca.pem").read_bytes(), (folder / "node1.pem").read_bytes()
    assert run("renew", folder, "--within", "30").exit_code == 0
    assert (folder / "node1.pem").read_bytes() == old, "it is good for a year"
    assert run("renew", folder, "--days", "10").exit_code == 0
    new = (folder / "node1.pem").read_bytes()
    assert new != old
    assert (common_name(new), hosts_of(new)) == (common_name(old), hosts_of(old))
    assert (folder / "ca.pem").read_bytes() == ca
    handshake(folder, host="localhost")


def test_the_list_tells_how_long_each_is_good(folder: Path) -> None:
    rows = json.loads(run("list", folder, "--json").output)
    assert [(row["name"], row["hosts"], row["days_left"]) for row in rows] == [
        ("headrace CA", "", 3649),
        ("node1", "localhost, 127.0.0.1", 364),
    ]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["create", "DIR"], "name whom it is for"),
        (["create", "DIR", "--host", "a"], "name whom it is for"),
        (["create", "DIR", "--node", "n"], "--node needs --host"),
        (["create", "DIR", "--user", "ca"], "the authority's own name"),
        (["list", "DIR"], "`headrace certs create` makes one"),
    ],
)
def test_what_is_refused_and_why(tmp_path: Path, words: list[str], said: str) -> None:
    done = run(*[str(tmp_path) if word == "DIR" else word for word in words])
    assert done.exit_code != 0
    assert said in done.output


def test_a_file_that_is_no_certificate_is_named(folder: Path) -> None:
    (folder / "odd.pem").write_bytes(b"nothing")
    done = run("list", folder)
    assert done.exit_code == 1
    assert "odd.pem" in done.output


def test_a_revoked_certificate_is_on_the_list_and_out_of_the_way(folder: Path) -> None:
    for name in ("alice", "bob"):
        assert run("create", folder, "--user", name).exit_code == 0
    for name in ("alice", "bob"):
        serial = x509.load_pem_x509_certificate((folder / f"{name}.pem").read_bytes()).serial_number
        done = run("revoke", folder, name, "--yes")
        assert done.output.startswith(f"revoked {name}: "), done.output
        listed = x509.load_pem_x509_crl((folder / "ca.crl").read_bytes())
        assert listed.get_revoked_certificate_by_serial_number(serial) is not None
        assert not (folder / f"{name}.pem").exists()
    assert len(list(listed)) == 2
    assert [each["name"] for each in json.loads(run("list", folder, "--json").stdout)] == [
        "headrace CA",
        "node1",
    ]
    assert "alice.pem is missing" in run("revoke", folder, "alice", "--yes").output
    assert "the authority cannot be revoked" in run("revoke", folder, "ca", "--yes").output
    assert run("revoke", folder, "node1").exit_code == 2  # nobody there to ask
