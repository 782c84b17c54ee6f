"""`headrace quota` on a node in this process: setting, listing and removing what clients may use."""

import json
from collections.abc import Callable, Iterator

import pytest
from click.testing import CliRunner, Result

from headrace.cli.main import cli
from headrace.clients import Admin
from headrace.testing import Cluster

Run = Callable[..., Result]


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with Cluster() as cluster:
        yield cluster.bootstrap_servers


@pytest.fixture
def run(bootstrap: str) -> Iterator[Run]:
    runner = CliRunner(env={"HEADRACE_BOOTSTRAP_SERVER": bootstrap})

    def call(*words: str, code: int = 0) -> Result:
        result = runner.invoke(cli, ["quota", *words])
        assert result.exit_code == code, (result.output, result.exception)
        return result

    yield call
    with Admin(bootstrap_servers=bootstrap) as admin:
        for entity, limits in admin.describe_client_quotas():
            admin.alter_client_quotas(entity, remove=limits)


def test_quotas_are_set_listed_and_removed(run: Run) -> None:
    assert "no quotas" in run("list").stderr
    assert run("set", "--user", "alice", "--produce", "10000", "--request", "12.5").stdout == (
        "set quotas of user alice\n"
    )
    run("set", "--user-default", "--client", "loader", "--fetch", "500")
    run("set", "--ip", "10.1.2.3", "--connections", "7")
    listed = json.loads(run("list", "--json").stdout)
    assert listed == [
        {"entity": {"client-id": "loader", "user": None}, "limits": {"consumer_byte_rate": 500.0}},
        {"entity": {"ip": "10.1.2.3"}, "limits": {"connection_creation_rate": 7.0}},
        {
            "entity": {"user": "alice"},
            "limits": {"producer_byte_rate": 10000.0, "request_percentage": 12.5},
        },
    ]
    table = run("list").stdout.splitlines()
    assert " ".join(table[0].split()) == "USER CLIENT IP PRODUCE B/s FETCH B/s REQUEST % CONNECTIONS/s"
    assert table[1].split() == ["(default)", "loader", "-", "-", "500", "-", "-"]
    assert table[3].split() == ["alice", "-", "-", "10000", "-", "12.5", "-"]
    (alice,) = json.loads(run("list", "--user", "alice", "--json").stdout)
    assert alice["entity"] == {"user": "alice"}
    removed = run("remove", "--user", "alice", "--limit", "request", "--json").stdout
    assert json.loads(removed) == {"entity": {"user": "alice"}, "removed": ["request_percentage"]}
    run("remove", "--user", "alice", "--all")
    assert json.loads(run("list", "--user", "alice", "--json").stdout) == []


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["set", "--produce", "1"], "say whose: --user, --client, --ip"),
        (["set", "--user", "alice"], "nothing to set: give --produce"),
        (["set", "--user", "a", "--user-default", "--fetch", "1"], "not both"),
        (["set", "--user", "a", "--ip", "10.1.1.1", "--fetch", "1"], "give --ip alone"),
        (["remove", "--user", "a"], "--limit NAME, or --all"),
    ],
)
def test_a_wrong_use_says_what_is_wrong(run: Run, words: list[str], why: str) -> None:
    assert why in run(*words, code=2).output


def test_what_the_cluster_refuses_is_told(run: Run) -> None:
    refused = run("set", "--user", "alice", "--produce", "0", code=1).output
    assert "cannot change quotas of user alice: Quota producer_byte_rate must be greater than 0" in refused
    assert (
        "user bob has no quota; `headrace quota list`"
        in run("remove", "--user", "bob", "--all", code=1).output
    )
    run("set", "--user", "bob", "--fetch", "1")
    missing = run("remove", "--user", "bob", "--limit", "produce", code=1).output
    assert "user bob has no producer_byte_rate" in missing
