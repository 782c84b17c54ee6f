"""`headrace acl` on a node in this process: adding, listing and removing rules, and what they do."""

import json
from collections.abc import Callable, Iterator

import pytest
from click.testing import CliRunner, Result

from headrace.cli.main import cli
from headrace.clients import AclBinding, AclBindingFilter, Admin
from headrace.clients.errors import ClientError, RefusedError
from headrace.settings.not_yet import STANDARD_AUTHORIZER
from headrace.testing import Cluster

Run = Callable[..., Result]


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    settings = {"authorizer.class.name": STANDARD_AUTHORIZER, "super.users": "User:ANONYMOUS"}
    with Cluster(settings=settings) as cluster:
        yield cluster.bootstrap_servers


@pytest.fixture
def run(bootstrap: str) -> Iterator[Run]:
    runner = CliRunner(env={"HEADRACE_BOOTSTRAP_SERVER": bootstrap})

    def call(*words: str, code: int = 0) -> Result:
        result = runner.invoke(cli, ["acl", *words])
        assert result.exit_code == code, (result.output, result.exception)
        return result

    yield call
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.delete_acls(AclBindingFilter())


def _rules(result: Result) -> list[tuple[str, str, str, str]]:
    return [
        (each["principal"], each["operation"], each["resource_type"], each["resource_name"])
        for each in json.loads(result.stdout)
    ]


def test_rules_are_added_listed_and_removed(run: Run) -> None:
    assert "there are no rules" in run("list").stderr
    added = run("add", "--principal", "User:a", "--operation", "read", "--topic", "orders").stdout
    assert added == "added: allow User:a from * to read topic orders\n"
    run("add", "--principal", "User:a", "--operation", "write", "--topic", "orders", "--deny")
    run(
        "add",
        "--principal",
        "User:b",
        "--operation",
        "all",
        "--topic",
        "ord",
        "--prefix",
        "--host",
        "10.0.0.1",
    )
    run("add", "--principal", "User:b", "--operation", "alter", "--cluster")
    table = run("list").stdout.splitlines()
    assert table[0].split() == ["PRINCIPAL", "PERMISSION", "OPERATION", "RESOURCE", "NAME", "PATTERN", "HOST"]
    assert [line.split() for line in table[1:]] == [
        ["User:b", "allow", "alter", "cluster", "kafka-cluster", "literal", "*"],
        ["User:b", "allow", "all", "topic", "ord", "prefixed", "10.0.0.1"],
        ["User:a", "allow", "read", "topic", "orders", "literal", "*"],
        ["User:a", "deny", "write", "topic", "orders", "literal", "*"],
    ]
    # All that applies to a topic, by whatever pattern.
    assert len(_rules(run("list", "--topic", "orders", "--json"))) == 3
    assert _rules(run("list", "--principal", "User:b", "--operation", "alter", "--json")) == [
        ("User:b", "alter", "cluster", "kafka-cluster")
    ]
    # What is removed is what is named, and nothing that only applies to it, too.
    removed = run("remove", "--topic", "orders", "--operation", "read", "--yes", "--json")
    assert _rules(removed) == [("User:a", "read", "topic", "orders")]
    assert "removed 1 rules" in run("remove", "--topic", "ord", "--prefix", "--yes").stdout
    assert [rule[1] for rule in _rules(run("list", "--json"))] == ["alter", "write"]
    assert "no rule is like that" in run("remove", "--topic", "nothing", "--yes").stderr


def test_short_forms_give_producers_and_consumers_what_they_need(run: Run) -> None:
    run("add", "--principal", "User:p", "--producer", "--topic", "t", "--transactional-id", "x")
    run("add", "--principal", "User:c", "--consumer", "--topic", "t", "--group", "g")
    assert sorted(_rules(run("list", "--json"))) == [
        ("User:c", "describe", "topic", "t"),
        ("User:c", "read", "group", "g"),
        ("User:c", "read", "topic", "t"),
        ("User:p", "create", "topic", "t"),
        ("User:p", "describe", "topic", "t"),
        ("User:p", "describe", "transactional_id", "x"),
        ("User:p", "write", "topic", "t"),
        ("User:p", "write", "transactional_id", "x"),
    ]


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("add", "--principal", "User:a", "--operation", "read"), "say what the rules are about"),
        (("add", "--principal", "User:a", "--topic", "t"), "say what may be done"),
        (("add", "--principal", "User:a", "--operation", "fly", "--topic", "t"), "'fly' is nothing"),
        (
            ("add", "--principal", "User:a", "--operation", "create_tokens", "--topic", "t"),
            "one of all, read",
        ),
        (("remove", "--yes"), "say which rules"),
    ],
)
def test_what_would_be_no_rule_is_a_wrong_use(run: Run, words: tuple[str, ...], reason: str) -> None:
    assert reason in run(*words, code=2).stderr


def test_what_the_cluster_refuses_is_told(run: Run) -> None:
    refused = run("add", "--principal", "a", "--operation", "read", "--topic", "t", code=1)
    assert "Could not parse principal" in refused.stderr


def test_a_cluster_without_an_authorizer_says_so() -> None:
    with Cluster() as cluster, Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
        with pytest.raises(RefusedError, match="No Authorizer is configured"):
            admin.describe_acls()
        with pytest.raises(RefusedError, match="No Authorizer is configured"):
            admin.create_acls(AclBinding("User:a", "read", "topic", "t"))
        with pytest.raises(ClientError, match="'fly' is no operation"):
            admin.create_acls(AclBinding("User:a", "fly", "topic", "t"))
