"""The HDFS store on Hadoop's own file system."""

import uuid
from collections.abc import Iterator

import pytest

from headrace.log.system_disk import SystemDisk
from headrace.tiered.remote_storage import (
    RemoteResourceNotFoundError,
    RemoteStorageError,
    RemoteStorageManager,
    begun,
    puts,
)
from headrace.tiered.stores.opening import open_url
from tests.compat.prepare import UnavailableError
from tests.tiered.servers import hdfs_jars, hdfs_server
from tests.tiered.store_suite import StoreSuite
from tests.tiered.tiered_cluster import live_on


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    try:
        hdfs_jars()
    except UnavailableError as reason:
        pytest.skip(str(reason))
    with hdfs_server(tmp_path_factory.mktemp("hdfs")) as url:
        yield url


@pytest.mark.java
class TestOnHdfs(StoreSuite):
    @pytest.fixture
    def store(self, cluster: str) -> RemoteStorageManager:
        return open_url(f"{cluster}/some/{uuid.uuid4().hex}", {}, SystemDisk())


@pytest.mark.java
def test_folders_go_with_their_last_object(cluster: str) -> None:
    from hdfs_native import Client

    store = open_url(f"{cluster}/emptied", {}, SystemDisk())
    store.put_bytes("t/0/a.log", b"x")
    store.put_bytes("t/1/a.log", b"x")
    store.delete(["t/0/a.log"])
    assert [entry.path for entry in Client(cluster).list_status("/emptied/t")] == ["/emptied/t/1"]
    store.delete(["t/1/a.log"])
    assert [entry.path for entry in Client(cluster).list_status("/emptied")] == []


@pytest.mark.java
def test_what_a_killed_writer_left_goes_with_the_object(cluster: str) -> None:
    from hdfs_native import Client, WriteOptions

    client = Client(cluster)
    writer = client.create("/left/t/0/a.log~", WriteOptions(create_parent=True))
    writer.write(b"half of it")  # and never closed: the name node still holds it for its writer
    store = open_url(f"{cluster}/left", {}, SystemDisk())
    assert list(store.list("")) == []
    assert begun(store, "t/0/") == ["t/0/a.log"]
    with pytest.raises(RemoteResourceNotFoundError):
        store.read("t/0/a.log", 0, 10)
    store.delete(["t/0/a.log"])
    assert [entry.path for entry in client.list_status("/left")] == []


@pytest.mark.java
def test_a_topics_life(cluster: str) -> None:
    live_on(f"{cluster}/life", {}, count=300)


def test_a_name_node_that_is_away_is_told_soon() -> None:
    """Nothing listens on port 1."""
    store = open_url("hdfs://127.0.0.1:1/x", {"dfs.client.failover.max.attempts": "1"}, SystemDisk())
    with pytest.raises(
        RemoteStorageError, match=r"t/0/a\.log in hdfs://127\.0\.0\.1:1/x: Connection refused"
    ):
        store.put_bytes("t/0/a.log", b"x")


@pytest.mark.java
def test_small_objects_are_put_at_once_and_one_that_fails_is_told(cluster: str) -> None:
    store = open_url(f"{cluster}/many", {}, SystemDisk())
    objects = {f"t/0/{number}.index": b"%d" % number for number in range(5)}
    for put in puts(store, objects):
        put()
    assert {name: store.read(name, 0, 9) for name, _ in store.list("t/")} == objects
    with pytest.raises(RemoteStorageError, match="cannot be an object's name"):
        puts(store, {"t/0/good.index": b"", "../bad": b""})[0]()
