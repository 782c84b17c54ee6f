"""Tables on stores: on S3 and HDFS by real servers, and what each library is told of a session's settings."""

import io
import json
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from headrace.base.ids import TopicPartition
from headrace.spark.columns import ALL_COLUMNS, PLAIN_COLUMNS, arrow_schema
from headrace.spark.history.file_rows import part_rows
from headrace.spark.history.held import BatchOffsets, followed_by
from headrace.spark.history.snapshot import FilePart, open_snapshot
from headrace.spark.loads import stores
from headrace.spark.loads.batches import BatchWriter, TableTarget
from headrace.spark.loads.compaction import compact
from headrace.spark.loads.delta_table import DeltaLoadTable, delta_rows
from headrace.spark.loads.errors import StoreError
from headrace.spark.loads.iceberg_catalog import named_table
from headrace.spark.loads.iceberg_table import IcebergLoadTable
from headrace.spark.loads.staging import data_file
from headrace.spark.loads.stores import S3Access, delta_options, iceberg_properties, open_store, s3_access
from headrace.spark.loads.tables import LoadBatch, LoadTable
from headrace.spark.loads.upserts import Upsert
from headrace.spark.option_values import OptionError
from headrace.spark.ranges import OffsetRange
from tests.compat.prepare import UnavailableError
from tests.spark.rest_catalog import rest_catalog
from tests.spark.store_folder import StoreFolder
from tests.tiered.servers import S3_SETTINGS, hdfs_jars, hdfs_server, s3_jars, s3_server

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Settings = dict[str, str]


# What is told to whom


@pytest.mark.parametrize(
    ("settings", "environment", "expected"),
    [
        ({}, {}, S3Access()),
        ({}, {"AWS_REGION": "eu-west-1"}, S3Access(region="eu-west-1")),
        ({}, {"AWS_ENDPOINT_URL": "http://store:9000"}, S3Access("http://store:9000", "us-east-1")),
        (
            {"endpoint": "store:9000", "connection.ssl.enabled": "false", "path.style.access": "true"},
            {"AWS_ENDPOINT_URL": "http://other"},
            S3Access("http://store:9000", "us-east-1"),
        ),
        (
            {"endpoint": "store.example", "endpoint.region": "x", "path.style.access": "false"},
            {},
            S3Access("https://store.example", "x", is_virtual_hosted=True),
        ),
        ({"endpoint": "s3.amazonaws.com"}, {}, S3Access()),
        (
            {"endpoint": "s3.eu-west-1.amazonaws.com", "endpoint.region": "eu-west-1"},
            {},
            S3Access("https://s3.eu-west-1.amazonaws.com", "eu-west-1"),
        ),
        (
            {
                "access.key": "a",
                "secret.key": "b",
                "bucket.lake.access.key": "c",
                "bucket.lake.secret.key": "d",
            },
            {},
            S3Access(access_key="c", secret_key="d"),
        ),
        (
            {"access.key": "a", "secret.key": "b", "bucket.other.access.key": "c", "session.token": "t"},
            {},
            S3Access(access_key="a", secret_key="b", session_token="t"),
        ),
        (
            {"aws.credentials.provider": "org.apache.hadoop.fs.s3a.AnonymousAWSCredentialsProvider"},
            {},
            S3Access(is_anonymous=True),
        ),
    ],
)
def test_s3_as_hadoop_is_told(settings: Settings, environment: Settings, expected: S3Access) -> None:
    given = {f"fs.s3a.{name}": value for name, value in settings.items()}
    assert s3_access("lake", given, environment) == expected


def test_secrets_are_not_shown() -> None:
    assert "hush" not in repr(S3Access(access_key="hush-id", secret_key="hush", session_token="hush-hush"))


def test_a_bucket_in_the_hosts_name() -> None:
    given = {"fs.s3a.endpoint": "https://store.example", "fs.s3a.endpoint.region": "x"}
    options = delta_options("s3a://lake/orders", given) or {}
    assert options["AWS_ENDPOINT_URL"] == "https://lake.store.example"
    assert iceberg_properties("lake", given)["s3.force-virtual-addressing"] == "true"
    assert delta_options("/data/orders", given) is None


def test_a_store_that_nobody_knows() -> None:
    with pytest.raises(StoreError, match="ftp://host/x cannot be opened"):
        open_store("ftp://host/x", {})


@pytest.mark.parametrize(
    ("place", "settings", "message"),
    [
        ("catalog://lake/orders", {}, "is written catalog://NAME/NAMESPACE.TABLE, not catalog://lake/orders"),
        (
            "catalog://lake/a.b",
            {},
            r"cannot be opened: URI missing.*Say what it is: spark\.sql\.catalog",
        ),
        ("catalog://lake/a.b", {"type": "jdbc"}, "there are catalogues of type rest, sql, hive, glue"),
        (
            "catalog://lake/a.b",
            {"type": "hive", "uri": "thrift://x:1"},
            r"a library.*pyiceberg\[hive\]",
        ),
        ("catalog://lake/a.b", {"type": "glue"}, r"needs a library.*pyiceberg\[glue\]"),
        ("catalog://lake/a.b", {"uri": "sqlit://user:hush@x"}, "type from the uri: <uri>"),
    ],
)
def test_a_catalogue_that_cannot_be_had(place: str, settings: Settings, message: str) -> None:
    given = {f"spark.sql.catalog.lake.{name}": value for name, value in settings.items()}
    with pytest.raises(StoreError, match=message) as raised:
        named_table(place, given)
    assert "hush" not in str(raised.value)


# On S3


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    """What a session says of an S3 server with one bucket."""
    try:
        s3_jars()
    except UnavailableError as reason:
        pytest.skip(str(reason))
    with s3_server(tmp_path_factory.mktemp("s3")) as endpoint, pytest.MonkeyPatch.context() as patch:
        # Arrow sends a check sum behind the body, which this server takes for part of it.
        patch.setenv("AWS_REQUEST_CHECKSUM_CALCULATION", "when_required")
        yield {
            "fs.s3a.endpoint": endpoint,
            "fs.s3a.access.key": S3_SETTINGS["access.key.id"],
            "fs.s3a.secret.key": S3_SETTINGS["secret.access.key"],
            "fs.s3a.path.style.access": "true",
        }


@pytest.fixture
def in_worker(monkeypatch: pytest.MonkeyPatch) -> Any:
    """This process is as those in which the source plans and reads."""
    return lambda settings: monkeypatch.setenv(stores._SHARED, json.dumps(settings))


class History:
    """Keeps numbers as a history of a topic in a table, a file a batch."""

    def __init__(self, table: LoadTable, folder: StoreFolder) -> None:
        self._table = table
        self._folder = folder

    def load(self, number: int, count: int = 10) -> None:
        wanted = OffsetRange("t", 0, number * count, number * count + count)
        batch = LoadBatch("a" * 32, number)
        before = self._table.holdings([wanted.topic_partition])
        place = self._table.staging_path(batch, "one")
        self._folder.write(f"{place}/part.parquet", _records(wanted))
        files = [data_file(self._folder, each) for each in self._folder.files(place, ".parquet")]
        held = followed_by(before, BatchOffsets([wanted], {}), "the table")
        self._table.add(batch, files, arrow_schema(ALL_COLUMNS), held)
        assert self._table.has(batch)


def _records(wanted: OffsetRange) -> bytes:
    offsets = list(range(wanted.start, wanted.end))
    made: Mapping[str, Any] = {
        "topic": ["t"] * len(offsets),
        "partition": [0] * len(offsets),
        "offset": offsets,
        "value": [b"%d" % each for each in offsets],
    }
    schema = arrow_schema(ALL_COLUMNS)
    columns = [pa.array(made.get(each.name, [None] * len(offsets)), each.type) for each in schema]
    out = io.BytesIO()
    pq.write_table(pa.Table.from_arrays(columns, schema=schema), out)
    return out.getvalue()


def offsets_of(place: str) -> list[int]:
    """All of a history, as tasks read it."""
    snapshot = open_snapshot(place)
    held = snapshot.holdings([TopicPartition("t", 0)]).ranges[TopicPartition("t", 0)]
    wanted = OffsetRange("t", 0, held.first, held.end)
    batches = [
        rows for file in snapshot.files() for rows in part_rows(FilePart(file, [wanted]), PLAIN_COLUMNS)
    ]
    return sorted(offset for rows in batches for offset in rows.column("offset").to_pylist())


def changes(rows: list[tuple[int, int]], deletes: list[int]) -> Upsert:
    schema = pa.schema([("id", pa.int64()), ("n", pa.int64())])
    return Upsert(
        pa.Table.from_pylist([{"id": key, "n": value} for key, value in rows], schema),
        pa.Table.from_pylist([{"id": key} for key in deletes], schema),
        ("id",),
    )


def place_in(bucket: str) -> str:
    return f"{bucket}/{uuid.uuid4().hex}"


@pytest.mark.java
@pytest.mark.parametrize("scheme", ["s3", "s3a"])
def test_delta_on_s3(scheme: str, s3: Settings, in_worker: Any) -> None:
    place = place_in(f"{scheme}://bucket")
    history = History(DeltaLoadTable(folder := StoreFolder(place, s3), ()), folder)
    for number in range(3):
        history.load(number)
    in_worker(s3)
    assert offsets_of(place) == list(range(30))
    done = compact("delta", place, s3)
    assert done is not None
    assert done == (3, 1)
    assert offsets_of(place) == list(range(30))
    assert len(delta_rows(place, s3)) == 30


@pytest.mark.java
def test_delta_upserts_on_s3(s3: Settings) -> None:
    place = place_in("s3a://bucket")
    table = DeltaLoadTable(StoreFolder(place, s3), ())
    first, second = LoadBatch("a" * 32, 0), LoadBatch("a" * 32, 1)
    table.merge(first, changes([(1, 1), (2, 1)], []))
    table.merge(second, changes([(2, 2)], [1]))
    assert table.has(second)
    assert delta_rows(place, s3).to_pylist() == [{"id": 2, "n": 2}]


@pytest.mark.java
def test_a_history_on_s3_that_is_not_there(s3: Settings, in_worker: Any) -> None:
    in_worker(s3)
    with pytest.raises(OptionError, match="there is no table of Delta"):
        open_snapshot(place_in("s3a://bucket"))


@pytest.fixture(params=["sql", "rest"])
def lake(request: pytest.FixtureRequest, s3: Settings, tmp_path: Path) -> Iterator[Settings]:
    """A catalogue whose tables are on S3, and what a session says of both."""
    warehouse = place_in("s3://bucket")
    sql = {"type": "sql", "uri": f"sqlite:///{tmp_path}/lake.db", "warehouse": warehouse}
    if request.param == "sql":
        yield {**s3, **_named(sql)}
        return
    with rest_catalog({**sql, **iceberg_properties("bucket", s3)}) as uri:
        yield {**s3, **_named({"type": "rest", "uri": uri})}


def _named(settings: Settings) -> Settings:
    return {f"spark.sql.catalog.lake.{name}": value for name, value in settings.items()}


@pytest.mark.java
def test_iceberg_in_a_catalogue(lake: Settings, in_worker: Any) -> None:
    place = "catalog://lake/sales.orders"
    named = named_table(place, lake)
    assert named.load() is None
    folder = StoreFolder(named.location(), lake)
    history = History(IcebergLoadTable(folder, (), named), folder)
    for number in range(3):
        history.load(number)
    assert named.location() == folder.uri
    in_worker(lake)
    assert offsets_of(place) == list(range(30))
    done = compact("iceberg", place, lake)
    assert done is not None
    assert done == (3, 1)
    assert offsets_of(place) == list(range(30))
    with pytest.raises(OptionError, match="the catalogue there has no such table"):
        open_snapshot("catalog://lake/sales.other")


@pytest.mark.java
def test_iceberg_upserts_in_a_catalogue(lake: Settings) -> None:
    """Another commit comes between: the merge is done again on what is there then."""
    named = named_table("catalog://lake/sales.stock", lake)
    table = IcebergLoadTable(StoreFolder(named.location(), lake), (), named)
    table.merge(LoadBatch("a" * 32, 0), changes([(1, 1), (2, 1)], []))
    merge, overtaken = table._merge, []

    def late(opened: Any, *given: Any) -> None:
        if not overtaken:
            overtaken.append(1)
            IcebergLoadTable(StoreFolder(named.location(), lake), (), named).merge(
                LoadBatch("b" * 32, 0), changes([(3, 1)], [])
            )
        merge(opened, *given)

    table._merge = late  # type: ignore[method-assign]
    table.merge(LoadBatch("a" * 32, 1), changes([(2, 2)], [1]))
    assert overtaken
    found = named.load().scan().to_arrow().to_pylist()
    assert sorted((row["id"], row["n"]) for row in found) == [(2, 2), (3, 1)]


# On HDFS


@pytest.fixture(scope="module")
def hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    try:
        hdfs_jars()
    except UnavailableError as reason:
        pytest.skip(str(reason))
    with hdfs_server(tmp_path_factory.mktemp("hdfs")) as url:
        yield url


@pytest.mark.java
def test_delta_on_hdfs(hdfs: str) -> None:
    """By libraries that need no Java; Hadoop's own is not on this machine."""
    place = f"{hdfs}/lake/orders"
    StoreFolder(f"{hdfs}/lake", {}).make("orders")
    history = History(DeltaLoadTable(folder := StoreFolder(place, {}), ()), folder)
    for number in range(2):
        history.load(number)
    assert offsets_of(place) == list(range(20))
    assert DeltaTable(place).version() == 2  # one that makes it
    assert compact("delta", place) == (2, 1)


@pytest.mark.java
@pytest.mark.slow
def test_batches_on_hdfs(hdfs: str, spark: "SparkSession") -> None:
    """Through Spark, which knows HDFS without a jar; the one above is the short form."""
    rows = spark.range(0, 10, 1, 2)
    for kind, key in (("parquet", ()), ("delta", ()), ("delta", ("id",))):
        target = TableTarget(kind, f"{hdfs}/spark/{kind}-{len(key)}", file_count=1, key=key)
        assert BatchWriter(target, load_id="a" * 32).write(rows, 0).rows == 10
        assert not BatchWriter(target, load_id="a" * 32).write(rows, 0).is_new
    assert spark.read.parquet(f"{hdfs}/spark/parquet-0").count() == 10
    for place in ("delta-0", "delta-1"):
        assert len(delta_rows(f"{hdfs}/spark/{place}", {})) == 10
