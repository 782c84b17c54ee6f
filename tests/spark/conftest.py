"""One Spark session and one node for all tests of a process; each test has topics of its own.

A session costs ten seconds and a gigabyte: whoever needs another one starts it in a process of its own.
"""

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from headrace.spark.session import spark_session
from headrace.testing import Cluster
from tests.compat.prepare import UnavailableError, connector_libs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MakeTopic = Callable[..., str]
# A JVM that starts beside three others on two cores takes a minute, and each first query half of one.
JVM_TEST_S = 300


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        has_jvm = item.get_closest_marker("java") or "spark" in getattr(item, "fixturenames", ())
        has_own = item.get_closest_marker("timeout") is not None
        if item.path.is_relative_to(here) and has_jvm and not has_own:
            item.add_marker(pytest.mark.timeout(JVM_TEST_S))


@pytest.fixture(scope="session")
def connector_jars(request: pytest.FixtureRequest) -> str:
    """Spark's own connector, where a test asks for it; a session takes jars at its start only."""
    items = [item for item in request.session.items if item.path.is_relative_to(Path(__file__).parent)]
    if not any(item.get_closest_marker("java") for item in items):
        return ""
    try:
        return ",".join(sorted(map(str, connector_libs().glob("*.jar"))))
    except UnavailableError:
        return ""


@pytest.fixture(scope="session")
def spark(connector_jars: str, tmp_path_factory: pytest.TempPathFactory) -> "Iterator[SparkSession]":
    """Two cores and small shuffles; the node under test shares the machine."""
    config = {
        "spark.driver.memory": "1g",
        "spark.sql.shuffle.partitions": "2",
        "spark.jars": connector_jars,
        "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),  # else in the working directory
    }
    session = spark_session("headrace tests", master="local[2]", config=config)
    yield session
    session.stop()


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """A node in this process. A test that stops or kills one starts its own."""
    with Cluster() as running:
        yield running


@pytest.fixture
def make_topic(cluster: Cluster) -> MakeTopic:
    """Makes a topic with a name that no other test has."""

    def make(partitions: int = 1, configs: dict[str, str] | None = None) -> str:
        name = f"t-{uuid.uuid4().hex[:12]}"
        cluster.create_topic(name, partitions, configs=configs or {})
        return name

    return make
