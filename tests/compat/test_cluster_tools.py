"""Three nodes as Apache Kafka's own tools see them: quorum, features, brokers, a voter that is removed."""

import re
from collections.abc import Callable, Iterator

import pytest

from headrace.clients import Admin
from headrace.testing import Cluster
from tests.compat import prepare
from tests.compat.clients.external import Program
from tests.compat.clients.face import eventually
from tests.compat.prepare import UnavailableError

pytestmark = pytest.mark.java

TOOLS = "org.apache.kafka.tools"
QUORUM = f"{TOOLS}.MetadataQuorumCommand"
FEATURES = f"{TOOLS}.FeatureCommand"
CLUSTER = f"{TOOLS}.ClusterTool"

Tool = Callable[..., str]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=3) as running:
        yield running


@pytest.fixture(scope="module")
def tool() -> Iterator[Tool]:
    """Runs a tool and answers what it printed; fails if it ends with another code than 0."""
    try:
        program = Program([*prepare.java_command(classes=prepare.java_program()), "Compat"])
    except UnavailableError as reason:
        pytest.skip(str(reason))

    def run(main: str, *words: str) -> str:
        done = program.ask("tool", main=main, arguments=list(words), stdin="")
        said = str(done["out"]) + str(done["err"])
        assert done["code"] == 0, f"{main} {' '.join(words)} ended with {done['code']}:\n{said}"
        return said

    yield run
    program.close()


def members(cluster: Cluster) -> tuple[int, dict[int, tuple[str, str]]]:
    """The quorum's leader, and each voter's directory and address."""
    with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
        found = admin.describe_quorum()
    where = {
        each.node_id: (each.directory_id, each.endpoints[0].removeprefix("CONTROLLER://"))
        for each in found.members
        if each.is_voter
    }
    return found.leader_id, where


def servers_of(cluster: Cluster) -> dict[int, str]:
    return dict(zip(cluster.node_ids, cluster.bootstrap_servers.split(","), strict=True))


def test_every_broker_and_every_controller_tells_the_same_quorum(cluster: Cluster, tool: Tool) -> None:
    def is_told_by_all() -> bool:
        """One that is held up may be followed by another leader while we ask: then once more."""
        leader, voters = members(cluster)
        assert set(voters) == {1, 2, 3}
        for server in servers_of(cluster).values():
            status = tool(QUORUM, "--bootstrap-server", server, "describe", "--status")
            assert all(directory in status for directory, _ in voters.values())
            if not re.search(rf"LeaderId: +{leader}\n", status):
                return False
        address = voters[leader][1]
        rows = tool(QUORUM, "--bootstrap-controller", address, "describe", "--replication").splitlines()[1:]
        parts = {row.split()[0]: row.split()[-1] for row in rows}
        return parts == {str(n): "Leader" if n == leader else "Follower" for n in voters}

    eventually(is_told_by_all, "the same quorum from all")


def test_a_broker_passes_changes_on_to_the_controller(cluster: Cluster, tool: Tool) -> None:
    leader, _ = members(cluster)
    other = next(server for node, server in servers_of(cluster).items() if node != leader)
    asked = ("--bootstrap-server", other)
    assert "downgraded to 0" in tool(FEATURES, *asked, "downgrade", "--feature", "group.version=0")
    assert "upgraded to 1" in tool(FEATURES, *asked, "upgrade", "--feature", "group.version=1")
    assert "FinalizedVersionLevel: 4.3-IV0" in tool(FEATURES, *asked, "describe")


def test_brokers_are_listed_and_one_that_is_gone_is_forgotten(cluster: Cluster, tool: Tool) -> None:
    asked = ("--bootstrap-server", servers_of(cluster)[1])
    assert "Cluster ID: " in tool(CLUSTER, "cluster-id", *asked)

    def await_listed(*wanted: str, options: tuple[str, ...] = ()) -> None:
        """This broker, too, hears of a change after the controller has answered for it."""

        def listed() -> list[str]:
            rows = tool(CLUSTER, "list-endpoints", *asked, *options).splitlines()[1:]
            return [f"{row.split()[0]} {row.split()[-2]}" for row in rows]

        eventually(lambda: listed() == list(wanted), lambda: f"{wanted}: {listed()}")

    with_fenced = ("--include-fenced-brokers",)
    await_listed("1 unfenced", "2 unfenced", "3 unfenced")
    cluster.stop_node(3)
    await_listed("1 unfenced", "2 unfenced", "3 fenced", options=with_fenced)
    tool(CLUSTER, "unregister", *asked, "--id", "3")
    await_listed("1 unfenced", "2 unfenced", options=with_fenced)
    cluster.start_node(3)
    await_listed("1 unfenced", "2 unfenced", "3 unfenced")


def test_a_voter_is_removed(cluster: Cluster, tool: Tool) -> None:
    leader, voters = members(cluster)
    gone = next(each for each in voters if each != leader)
    words = ("--controller-id", str(gone), "--controller-directory-id", voters[gone][0])
    tool(QUORUM, "--bootstrap-server", servers_of(cluster)[gone], "remove-controller", *words)
    eventually(lambda: set(members(cluster)[1]) == {1, 2, 3} - {gone}, "two voters")
