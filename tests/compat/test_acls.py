"""Kafka's own kafka-acls against headrace's authorizer, and with `-m slow` against Apache Kafka's."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headrace.settings.not_yet import STANDARD_AUTHORIZER
from tests.compat import prepare
from tests.compat.brokers import ApacheKafkaBroker, Broker, HeadraceBroker
from tests.compat.clients.external import Program
from tests.compat.clients.face import eventually
from tests.compat.prepare import UnavailableError

pytestmark = pytest.mark.java

ACL_COMMAND = "org.apache.kafka.tools.AclCommand"
SETTINGS = {"authorizer.class.name": STANDARD_AUTHORIZER, "super.users": "User:ANONYMOUS"}

Tool = Callable[..., str]


@pytest.fixture(
    scope="module", params=[HeadraceBroker, pytest.param(ApacheKafkaBroker, marks=pytest.mark.slow)]
)
def broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    folder: Path = tmp_path_factory.mktemp("acls")
    with request.param(folder / "data", SETTINGS) as broker:
        try:
            broker.start()
        except UnavailableError as reason:
            pytest.skip(str(reason))
        yield broker
        broker.stop()


@pytest.fixture(scope="module")
def acls(broker: Broker) -> Iterator[Tool]:
    """Runs kafka-acls and answers what it printed."""
    try:
        program = Program([*prepare.java_command(classes=prepare.java_program()), "Compat"])
    except UnavailableError as reason:
        pytest.skip(str(reason))

    def run(*arguments: str, code: int = 0) -> str:
        words = [*arguments, "--bootstrap-server", broker.bootstrap]
        done = program.ask("tool", main=ACL_COMMAND, arguments=words, stdin="")
        said = str(done["out"]) + str(done["err"])
        assert done["code"] == code, f"{' '.join(words)} ended with {done['code']}:\n{said}"
        return said

    yield run
    program.close()


def _rules(said: str) -> list[str]:
    """What a rule says, in order."""
    return sorted(line.strip() for line in said.splitlines() if line.strip().startswith("(principal="))


def _await_rules(acls: Tool, wanted: list[str], *where: str) -> None:
    """A broker may hear of a rule after the controller has answered for it."""
    eventually(
        lambda: _rules(acls("--list", *where)) == wanted, lambda: f"{wanted}: {acls('--list', *where)}"
    )


READ = "(principal=User:alice, host=*, operation=READ, permissionType=ALLOW)"
DESCRIBE = "(principal=User:alice, host=*, operation=DESCRIBE, permissionType=ALLOW)"
DENIED = "(principal=User:bob, host=10.1.2.3, operation=ALL, permissionType=DENY)"


def test_rules_are_made_listed_and_taken_away(acls: Tool) -> None:
    alice = ("--allow-principal", "User:alice")
    acls("--add", *alice, "--consumer", "--topic", "orders", "--group", "billing")
    acls("--add", "--deny-principal", "User:bob", "--deny-host", "10.1.2.3", "--topic", "orders")
    acls("--add", *alice, "--operation", "Read", "--topic", "raw-", "--resource-pattern-type", "prefixed")
    matching = ("--resource-pattern-type", "match")
    _await_rules(acls, [READ], "--topic", "raw-clicks", *matching)
    _await_rules(acls, [DESCRIBE, READ, DENIED], "--topic", "orders")
    _await_rules(acls, [READ], "--group", "billing")
    _await_rules(acls, [DENIED], "--principal", "User:bob")
    # One of several rules of a resource is taken away: the others stay (CVE-2024-27309).
    acls("--remove", *alice, "--operation", "Read", "--topic", "orders", "--force")
    _await_rules(acls, [DESCRIBE, DENIED], "--topic", "orders")
    acls("--remove", "--topic", "orders", "--force")
    _await_rules(acls, [], "--topic", "orders")
    assert len(_rules(acls("--list"))) == 2


def test_what_can_be_no_rule_is_refused_in_kafkas_words(acls: Tool) -> None:
    said = acls("--add", "--allow-principal", "alice", "--operation", "Read", "--topic", "t", code=1)
    assert "alice" in said


def test_rules_of_every_type_of_resource(acls: Tool) -> None:
    carol = ("--allow-principal", "User:carol")
    resources = {
        "--cluster": ("ClusterAction", ()),
        "--transactional-id": ("Write", ("tx",)),
        "--delegation-token": ("Describe", ("token",)),
        "--user-principal": ("CreateTokens", ("User:dave",)),
    }
    for option, (operation, name) in resources.items():
        acls("--add", *carol, "--operation", operation, option, *name)
    listed = ("--list", "--principal", "User:carol")
    eventually(lambda: len(_rules(acls(*listed))) == len(resources), "all rules to be listed")
    said = acls(*listed)
    for kind in ("CLUSTER", "TRANSACTIONAL_ID", "DELEGATION_TOKEN", "USER"):
        assert f"resourceType={kind}, " in said
