"""Three nodes, and the coordinator of a transaction killed in the middle of it: its producer goes on with the
next coordinator and commits, or begins anew where it was told to; either way nothing is torn.
"""

from collections.abc import Iterator

import pytest

from headrace.clients import Admin
from tests.compat.cluster import HeadraceCluster
from tests.compat.test_transactions import await_read, new_id
from tests.compat.writers import PYTHON, Writer

pytestmark = pytest.mark.slow

ROUNDS = 3
# kafka-python waits half a minute for a coordinator that is gone before it looks for the next one.
KINDS = ("confluent", "aiokafka")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HeadraceCluster]:
    with HeadraceCluster(tmp_path_factory.mktemp("cluster") / "data") as started:
        started.start()
        yield started


def coordinator_of(cluster: HeadraceCluster, name: str) -> int:
    with Admin(bootstrap_servers=cluster.bootstrap) as admin:
        (found,) = admin.list_transactions(pattern=name)
        return found.coordinator_id


def write(writer: Writer, topic: str, name: str, turn: int) -> list[str]:
    values = [f"{name}/{turn}/{partition}" for partition in (0, 1)]
    writer.begin()
    writer.send(topic, 0, values[0])
    return values


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("commits", [True, False])
def test_the_coordinator_is_killed_in_the_middle(cluster: HeadraceCluster, kind: str, commits: bool) -> None:
    topic = f"{kind}-{commits}".lower()
    with Admin(bootstrap_servers=cluster.bootstrap) as admin:
        admin.create_topic(topic, partitions=2)  # three replicas: the cluster's default
    name = new_id()
    writer = PYTHON[kind](cluster.bootstrap, name)
    expected: list[str] = []
    for turn in range(ROUNDS):
        values = write(writer, topic, name, turn)
        victim = cluster.nodes[coordinator_of(cluster, name) - 1]
        victim.kill()
        writer.send(topic, 1, values[1])
        if commits:
            writer.commit()
            expected += values
        else:
            writer.abort()
        victim.start()
        await_read(cluster, topic, sorted(expected))
    writer.close()
