"""`headrace user` and `headrace token` on a secure node in this process, and who can log in afterwards."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from headrace.cli.main import cli
from headrace.clients import (
    Admin,
    AuthenticationError,
    ClientError,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from headrace.testing import Cluster

Run = Callable[..., Result]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(secure=True, settings={"delegation.token.secret.key": "the cluster's"}) as cluster:
        yield cluster


@pytest.fixture
def run(cluster: Cluster, tmp_path: Path) -> Iterator[Run]:
    runner = CliRunner()

    def call(*words: str, code: int = 0, stdin: str | None = None, by: str = "admin") -> Result:
        properties = tmp_path / f"{by}.properties"
        lines = [f"{name}={value}\n" for name, value in cluster.client_settings(by).items()]
        properties.touch(0o600)
        properties.write_text("".join(lines))
        result = runner.invoke(cli, [*words, "--command-config", str(properties)], input=stdin)
        assert result.exit_code == code, (result.output, result.exception)
        return result

    yield call
    with Admin(cluster.client_settings("admin")) as admin:
        left = [each for each in admin.describe_user_scram_credentials() if each.user not in ("admin", "app")]
        if left:
            admin.alter_user_scram_credentials(
                [UserScramCredentialDeletion(each.user, each.mechanism) for each in left]
            )
        for token in admin.describe_delegation_tokens():
            admin.expire_delegation_token(token.hmac)


def may_log_in(cluster: Cluster, user: str, password: str, mechanism: str = "SCRAM-SHA-512") -> bool:
    login = {"sasl.username": user, "sasl.password": password, "sasl.mechanism": mechanism}
    settings = {k: v for k, v in cluster.client_settings().items() if k != "sasl.jaas.config"} | login
    try:
        with Admin(settings) as admin:
            admin.list_topics()
    except AuthenticationError:
        return False
    return True


def secret_file(folder: Path, text: str) -> str:
    path = folder / "secret"
    path.write_text(text)
    path.chmod(0o600)
    return str(path)


def test_a_user_is_made_listed_changed_and_removed(run: Run, cluster: Cluster, tmp_path: Path) -> None:
    secret = secret_file(tmp_path, "first\nnot this line\n")
    assert (
        run("user", "add", "alice", "--password-file", secret).output == "added user alice (SCRAM-SHA-512)\n"
    )
    assert may_log_in(cluster, "alice", "first")
    table = run("user", "list").stdout.splitlines()
    assert table[0].split() == ["USER", "MECHANISM", "ITERATIONS"]
    assert ["alice", "SCRAM-SHA-512", "4096"] in [line.split() for line in table]
    assert json.loads(run("user", "list", "alice", "--json").stdout) == [
        {"user": "alice", "mechanism": "SCRAM-SHA-512", "iterations": 4096}
    ]
    done = run("user", "password", "alice", "--password-file", "-", "--iterations", "8192", stdin="second\n")
    assert done.output == "changed the password of user alice (SCRAM-SHA-512)\n"
    assert may_log_in(cluster, "alice", "second")
    assert not may_log_in(cluster, "alice", "first")
    assert run("user", "delete", "alice", "--yes").output == "deleted user alice (SCRAM-SHA-512)\n"
    assert not may_log_in(cluster, "alice", "second")
    assert "there is no user alice" in run("user", "list", "alice", code=1).stderr


def test_a_password_is_made_up_and_told_once(run: Run, cluster: Cluster) -> None:
    made = json.loads(run("user", "add", "loader", "--generate", "--json").stdout)
    assert made["mechanisms"] == ["SCRAM-SHA-512"]
    assert len(made["password"]) == 32
    assert may_log_in(cluster, "loader", made["password"])
    other = run("user", "password", "loader", "--generate").stdout.splitlines()[1].removeprefix("password: ")
    assert other != made["password"]
    assert may_log_in(cluster, "loader", other)


def test_each_mechanism_has_its_own(run: Run, cluster: Cluster) -> None:
    run("user", "add", "bob", "--password-file", "-", stdin="one\n")
    added = run("user", "add", "bob", "--mechanism", "scram-sha-256", "--password-file", "-", stdin="two\n")
    assert added.output == "added user bob (SCRAM-SHA-256)\n"
    changed = run("user", "password", "bob", "--password-file", "-", stdin="both\n")
    assert changed.output == "changed the password of user bob (SCRAM-SHA-256, SCRAM-SHA-512)\n"
    assert may_log_in(cluster, "bob", "both")
    run("user", "delete", "bob", "--mechanism", "SCRAM-SHA-512", "--yes")
    rest = json.loads(run("user", "list", "bob", "--json").stdout)
    assert [each["mechanism"] for each in rest] == ["SCRAM-SHA-256"]
    missing = run("user", "delete", "bob", "--mechanism", "SCRAM-SHA-512", "--yes", code=1)
    assert "user bob does not log in by SCRAM-SHA-512, but by SCRAM-SHA-256" in missing.stderr


@pytest.mark.parametrize(
    ("words", "stdin", "code", "why"),
    [
        (["add", "app", "--generate"], None, 1, "`headrace user password app` changes the password"),
        (["add", "x"], None, 2, "there is nobody to ask for the password"),
        (["add", "x", "--password-file", "-"], "\n", 1, "stdin has no password in its first line"),
        (["add", "x", "--password-file", "-"], "a\x07b\n", 1, "U+0007 is not allowed"),
        (["add", "x", "--generate", "--password-file", "-"], "a\n", 2, "not both"),
        (["add", "x", "--generate", "--iterations", "10"], None, 2, "4096"),
        (["password", "nobody", "--generate"], None, 1, "there is no user nobody"),
        (["delete", "nobody", "--yes"], None, 1, "there is no user nobody"),
        (["delete", "app"], None, 2, "give --yes"),
    ],
)
def test_what_cannot_be_done_is_told(
    run: Run, words: list[str], stdin: str | None, code: int, why: str
) -> None:
    assert why in run("user", *words, stdin=stdin, code=code).stderr


def test_a_file_that_others_can_read_is_said_to_be_one(run: Run, tmp_path: Path) -> None:
    secret = Path(secret_file(tmp_path, "open\n"))
    secret.chmod(0o644)
    assert "can be read by others" in run("user", "add", "eve", "--password-file", str(secret)).stderr


def test_a_password_is_typed_twice_where_somebody_is_there(
    run: Run, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def prompt(text: str, **how: object) -> str:
        asked.append((text, how))
        return "typed"

    monkeypatch.setattr("headrace.cli.user.sys", _Terminal)
    monkeypatch.setattr("click.prompt", prompt)
    run("user", "add", "carol")
    assert asked == [("Password of carol", {"hide_input": True, "confirmation_prompt": True, "err": True})]
    assert may_log_in(cluster, "carol", "typed")


class _Terminal:
    class stdin:  # noqa: N801
        @staticmethod
        def isatty() -> bool:
            return True


def test_whoever_lacks_the_right_is_refused(run: Run) -> None:
    refused = run("user", "list", "--json", by="app", code=1).stderr
    assert json.loads(refused)["error"]["code"] == "CLUSTER_AUTHORIZATION_FAILED"


def test_no_secret_is_in_a_repr_or_an_error() -> None:
    upsertion = UserScramCredentialUpsertion("alice", "hunter2")
    assert "hunter2" not in repr(upsertion)
    with Admin(bootstrap_servers="127.0.0.1:1") as admin, pytest.raises(ClientError) as wrong:
        admin.alter_user_scram_credentials(UserScramCredentialUpsertion("alice", "hunter2\x07"))
    assert "hunter2" not in str(wrong.value)


# Tokens


def test_a_token_is_made_listed_renewed_and_ended(run: Run, cluster: Cluster) -> None:
    words = ("--renewer", "User:admin", "--max-lifetime", "2d")
    made = json.loads(run("token", "create", *words, "--json", by="app").stdout)
    assert (made["owner"], made["requester"], made["renewers"]) == ("User:app", "User:app", ["User:admin"])
    assert made["max_timestamp_ms"] - made["issue_timestamp_ms"] == 2 * 86_400_000
    assert token_logs_in(cluster, made)
    listed = run("token", "list").stdout.splitlines()
    assert listed[0].split()[:3] == ["ID", "OWNER", "REQUESTER"]
    assert listed[1].split()[:2] == [made["token_id"], "User:app"]
    assert made["hmac"] not in run("token", "list", "--json").stdout
    assert made["hmac"] in run("token", "list", "--owner", "User:app", "--show-hmac").stdout
    renewed = json.loads(run("token", "renew", made["token_id"], "--for", "1h", "--json").stdout)
    assert made["issue_timestamp_ms"] < renewed["expiry_timestamp_ms"] < made["expiry_timestamp_ms"]
    assert "is good until" in run("token", "renew", made["token_id"]).stdout
    assert "ends at" in run("token", "expire", made["token_id"], "--after", "1h", "--yes").stdout
    assert run("token", "expire", made["token_id"], "--yes").stdout == f"token {made['token_id']} ended\n"
    assert not token_logs_in(cluster, made)
    assert "there are no tokens" in run("token", "list").stderr


def token_logs_in(cluster: Cluster, made: dict[str, str]) -> bool:
    settings = cluster.client_settings() | {
        "sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required "
        f'username="{made["token_id"]}" password="{made["hmac"]}" tokenauth="true";'
    }
    try:
        with Admin(settings) as admin:
            admin.list_topics()
    except AuthenticationError:
        return False
    return True


def test_a_token_for_another_owner_needs_the_right(run: Run) -> None:
    refused = run("token", "create", "--owner", "User:admin", "--json", by="app", code=1).stderr
    assert json.loads(refused)["error"]["code"] == "DELEGATION_TOKEN_AUTHORIZATION_FAILED"
    made = run("token", "create", "--owner", "User:app")
    facts = dict(line.split(maxsplit=1) for line in made.stdout.splitlines() if "  " in line)
    assert (facts["owner"], facts["requester"]) == ("User:app", "User:admin")
    assert 'tokenauth="true"' in made.stderr
    assert facts["hmac"] not in made.stderr


@pytest.mark.parametrize(
    ("words", "code", "why"),
    [
        (["create", "--renewer", "bob"], 1, "'bob' is no principal: write it as User:alice"),
        (["create", "--max-lifetime", "soon"], 2, "'soon' is no duration"),
        (["renew", "unknown"], 1, "there is no token unknown that you may see"),
        (["expire", "unknown", "--yes"], 1, "there is no token unknown that you may see"),
    ],
)
def test_what_is_wrong_with_a_token_is_told(run: Run, words: list[str], code: int, why: str) -> None:
    assert why in run("token", *words, code=code).stderr


def test_tokens_are_off_where_there_is_no_secret() -> None:
    with (
        Cluster(secure=True) as cluster,
        Admin(cluster.client_settings("admin")) as admin,
        pytest.raises(ClientError, match=r"set delegation\.token\.secret\.key, the same on all nodes"),
    ):
        admin.create_delegation_token()
