"""The object store on a real S3 server."""

import uuid
from collections.abc import Iterator

import pytest

from headrace.log.system_disk import SystemDisk
from headrace.spark.ranges import OffsetRange
from headrace.spark.segments import direct
from headrace.spark.segments.direct import read_segments
from headrace.testing.disk import VirtualDisk
from headrace.tiered.remote_storage import (
    RemoteResourceNotFoundError,
    RemoteStorageError,
    RemoteStorageManager,
)
from headrace.tiered.stores.opening import open_url
from tests.compat.prepare import UnavailableError
from tests.spark.test_segments_live import all_ranges, options, plan, rows
from tests.tiered.servers import S3_SETTINGS, s3_jars, s3_server
from tests.tiered.store_suite import StoreSuite
from tests.tiered.tiered_cluster import TOPIC, cluster_on, live_on, wait_for_tail, write

pytestmark = pytest.mark.java


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    try:
        s3_jars()
    except UnavailableError as reason:
        pytest.skip(str(reason))
    with s3_server(tmp_path_factory.mktemp("s3")) as address:
        yield address


def opened(endpoint: str, prefix: str = "", **settings: str) -> RemoteStorageManager:
    return open_url(f"s3://bucket/{prefix}", {**S3_SETTINGS, "endpoint": endpoint, **settings}, SystemDisk())


class TestOnS3(StoreSuite):
    @pytest.fixture
    def store(self, endpoint: str) -> RemoteStorageManager:
        return opened(endpoint, f"some/{uuid.uuid4().hex}")


def test_a_prefix_keeps_to_itself(endpoint: str) -> None:
    one, two = opened(endpoint, "one"), opened(endpoint, "two")
    one.put_bytes("t/0/a.log", b"x")
    assert list(two.list("")) == []
    with pytest.raises(RemoteResourceNotFoundError):
        two.read("t/0/a.log", 0, 1)
    one.delete(["t/0/a.log"])


def test_a_wrong_key_is_told_without_it(endpoint: str) -> None:
    store = opened(endpoint, **{"secret.access.key": "not-the-secret-at-all"})
    with pytest.raises(RemoteStorageError, match=r"t/0/a\.log in s3://bucket/.*403 Forbidden") as raised:
        store.put_bytes("t/0/a.log", b"x")
    assert "not-the-secret" not in str(raised.value)
    assert not isinstance(raised.value, RemoteResourceNotFoundError)


def test_a_missing_bucket_is_no_missing_object(endpoint: str) -> None:
    store = open_url("s3://nobucket", {**S3_SETTINGS, "endpoint": endpoint}, SystemDisk())
    with pytest.raises(RemoteStorageError, match="nobucket"):
        store.put_bytes("t/0/a.log", b"x")


def test_direct_reads_take_segments_out_of_it(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As Spark's tasks do, on a machine that has no folder of the broker's; only the tail is fetched."""
    settings = {**S3_SETTINGS, "endpoint": endpoint}
    with cluster_on("s3://bucket/direct", settings) as cluster:
        cluster.create_topic("tiered", configs=TOPIC)
        write(cluster, "tiered", 1000)
        wait_for_tail(cluster, "tiered", at_least=500)
        more = {f"store.{name}": value for name, value in settings.items()}
        given = options(cluster.bootstrap_servers, "tiered", **{"store.url": "s3://bucket/direct", **more})
        ranges = all_ranges(given)
        tasks = plan(given, ranges)
        fetched: list[OffsetRange] = []
        monkeypatch.setattr(direct, "read_range", lambda wanted, *_: fetched.append(wanted) or ())
        found = [
            row
            for wanted, each in tasks
            for row in rows(read_segments(wanted, given, each, None, VirtualDisk()))
        ]
    (tail,) = fetched
    assert tail.start >= 500
    assert [row["value"] for row in found] == [f"{number:0100}".encode() for number in range(tail.start)]


def test_a_topics_life(endpoint: str) -> None:
    live_on("s3://bucket/life", {**S3_SETTINGS, "endpoint": endpoint}, count=1000)
