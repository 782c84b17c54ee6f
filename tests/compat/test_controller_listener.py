"""Administration through the controller's listener (KIP-919), by Apache Kafka's tools with
--bootstrap-controller.
"""

from collections.abc import Callable, Iterator

import pytest

from headrace.transport.system_network import free_ports
from tests.compat import prepare
from tests.compat.brokers import HeadraceBroker
from tests.compat.clients.external import Program
from tests.compat.clients.face import eventually
from tests.compat.prepare import UnavailableError

pytestmark = pytest.mark.java

TOOLS = "org.apache.kafka.tools"
CONFIG_COMMAND = "kafka.admin.ConfigCommand"

Tool = Callable[..., str]


@pytest.fixture(scope="module")
def tool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tool]:
    """Runs a tool of Apache Kafka, which is told of the controller only: `@` stands for where that is."""
    try:
        program = Program([*prepare.java_command(classes=prepare.java_program()), "Compat"])
    except UnavailableError as reason:
        pytest.skip(str(reason))
    port, controller_port = free_ports(2)
    controller = f"127.0.0.1:{controller_port}"
    settings = {
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://{controller}",
        "controller.quorum.voters": f"1@{controller}",
    }

    def run(main: str, *arguments: str) -> str:
        words: list[str] = []
        for word in arguments:
            words += ["--bootstrap-controller", controller] if word == "@" else [word]
        done = program.ask("tool", main=main, arguments=words, stdin="")
        said = str(done["out"]) + str(done["err"])
        assert done["code"] == 0, f"{main} {' '.join(words)} ended with {done['code']}:\n{said}"
        return said

    with HeadraceBroker(tmp_path_factory.mktemp("controller") / "data", settings) as broker:
        broker.start()
        yield run
        program.close()
        broker.stop()


def test_the_quorum_is_described(tool: Tool) -> None:
    status = tool(f"{TOOLS}.MetadataQuorumCommand", "@", "describe", "--status")
    assert "LeaderId:               1" in status
    replication = tool(f"{TOOLS}.MetadataQuorumCommand", "@", "describe", "--replication")
    assert replication.splitlines()[1].split()[-1] == "Leader"


def test_controllers_are_listed_with_the_port_they_were_asked_on(tool: Tool) -> None:
    row = tool(f"{TOOLS}.ClusterTool", "list-endpoints", "@").splitlines()[1].split()
    assert (row[0], row[1], row[-1]) == ("1", "127.0.0.1", "controller")


def test_features_are_described_and_changed(tool: Tool) -> None:
    command = f"{TOOLS}.FeatureCommand"
    assert "downgraded to 0" in tool(command, "@", "downgrade", "--feature", "group.version=0")
    assert "upgraded to 1" in tool(command, "@", "upgrade", "--feature", "group.version=1")
    described = tool(command, "@", "describe")
    assert "FinalizedVersionLevel: 4.3-IV0" in described
    levels = {line.split()[1]: line for line in described.splitlines() if line.startswith("Feature: ")}
    assert levels.keys() >= {"share.version", "streams.version"}


def test_settings_of_brokers_are_changed_and_described(tool: Tool) -> None:
    everyone = ("--entity-type", "brokers", "--entity-default")
    tool(CONFIG_COMMAND, "@", "--alter", *everyone, "--add-config", "log.retention.ms=5000000")
    seen = "the change to be seen"
    described = (CONFIG_COMMAND, "@", "--describe")
    eventually(lambda: "log.retention.ms=5000000" in tool(*described, *everyone), seen)
    one = ("--entity-type", "brokers", "--entity-name", "1")
    tool(CONFIG_COMMAND, "@", "--alter", *one, "--add-config", "log.cleaner.backoff.ms=14000")
    eventually(lambda: "log.cleaner.backoff.ms=14000" in tool(*described, *one), seen)
