"""Delta's and Iceberg's own jars: a stream's batches merged into their tables, and tables of loads read.

The function that merges is the one that docs/spark-clusters.md shows. The tables that are read were made
without jars, and each has had a change of its schema.
"""

import re
from pathlib import Path
from typing import Any, Final

from headrace.clients import Producer
from tests.compat.prepare import jars
from tests.spark.changed_tables import CASES, DELTA, ICEBERG, as_found, as_kinds, changed_table
from tests.spark.versions.environments import ROOT
from tests.spark.versions.trials import YES, Trial, ended, forget_last_commit

# As far as there are jars for a version of Spark.
_DELTA: Final = {version: f"io.delta:delta-spark_{version}_2.13:4.4.0" for version in ("4.0", "4.1", "4.2")}
_ICEBERG: Final = {
    version: f"org.apache.iceberg:iceberg-spark-runtime-{version}_2.13:1.11.0" for version in ("4.0", "4.1")
}
_PARTITIONS_BY_KEY: Final = 3


def jars_for(version: str) -> str:
    """Paths, for spark.jars; nothing where there are none for a version."""
    wanted = [each[version] for each in (_DELTA, _ICEBERG) if version in each]
    return ",".join(sorted(map(str, jars(f"lakes-{version}", *wanted).glob("*.jar")))) if wanted else ""


def settings(jar_paths: str, folder: Path) -> dict[str, str]:
    """Of a session with catalogues of both, as far as their jars are there."""
    found = {"spark.jars": jar_paths}
    extensions = []
    if "/delta-spark" in jar_paths:
        extensions.append("io.delta.sql.DeltaSparkSessionExtension")
        found["spark.sql.catalog.spark_catalog"] = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
        found["spark.databricks.delta.snapshotPartitions"] = "2"  # not 50 tasks for each look at a small log
    if "/iceberg-spark" in jar_paths:
        extensions.append("org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions")
        found["spark.sql.catalog.lake"] = "org.apache.iceberg.spark.SparkCatalog"
        found["spark.sql.catalog.lake.type"] = "hadoop"
        # A stream's session has a catalogue of its own: this one's is not to remember how a table was.
        found["spark.sql.catalog.lake.cache-enabled"] = "false"
        found["spark.sql.catalog.lake.warehouse"] = str(folder / "lake")
    return {**found, "spark.sql.extensions": ",".join(extensions)}


def merge_into_delta(trial: Trial) -> str:
    return _merged(trial, "delta", "orders")


def merge_into_iceberg(trial: Trial) -> str:
    return _merged(trial, "iceberg", "lake.db.orders")


def _merged(trial: Trial, kind: str, table: str) -> str:
    """Inserts, updates and deletes; the last batch is run again, since its commit is gone."""
    topic, checkpoint = trial.topic(), trial.new_folder()
    trial.spark.sql(f"CREATE TABLE {table} (key BINARY, value BINARY) USING {kind}")
    merge = _documented(table)

    def run() -> None:
        writer = trial.stream(topic).writeStream.foreachBatch(merge).option("checkpointLocation", checkpoint)
        ended(writer.trigger(availableNow=True).start())

    expected: dict[bytes, bytes] = {}
    for batch in range(3):
        with Producer(bootstrap_servers=trial.brokers) as producer:
            for number in range(120):
                key, value = b"%d" % (number % 40 + batch * 10), b"%d of %d" % (number, batch)
                if number % 7 == batch:
                    producer.send(topic, None, key=key, partition=int(key) % _PARTITIONS_BY_KEY)
                    expected.pop(key, None)
                else:
                    producer.send(topic, value, key=key, partition=int(key) % _PARTITIONS_BY_KEY)
                    expected[key] = value
        run()
        assert _rows(trial, table) == expected, f"batch {batch}"
    forget_last_commit(checkpoint)
    run()
    assert _rows(trial, table) == expected, "the last batch once more"
    return YES


def _rows(trial: Trial, table: str) -> dict[bytes, bytes]:
    rows = trial.spark.table(table).collect()
    found = {bytes(row.key): bytes(row.value) for row in rows}
    assert len(found) == len(rows), "a key is there twice"
    return found


def _documented(table: str) -> Any:
    page = Path(ROOT, "docs/spark-clusters.md").read_text()
    (block,) = re.findall(r"```python\n(from pyspark\.sql import functions.*?)```", page, re.DOTALL)
    names: dict[str, Any] = {}
    exec(block.replace("lake.db.orders", table), names)
    return names["merge"]


def read_changed_delta(trial: Trial) -> str:
    return _read_changed(trial, DELTA)


def read_changed_iceberg(trial: Trial) -> str:
    return _read_changed(trial, ICEBERG)


def _read_changed(trial: Trial, kind: str) -> str:
    """Every table of `test_loads_schemas`: all of its rows and columns."""
    wrong = []
    for case in CASES:
        load, rows = changed_table(case, kind, Path(trial.new_folder()))
        # Of Iceberg a path may also be that of its metadata, as no catalogue of Spark's knows the table.
        place = load.iceberg().metadata_location if kind == ICEBERG else str(load.path)
        try:
            found = trial.spark.read.format(kind).load(place).toArrow()
            assert as_kinds(as_found(found), found.schema) == as_kinds(rows, found.schema)
            assert set(found.column_names) == {name for row in rows for name in row}
        except Exception as error:
            wrong.append(f"{case.name}: {error!s:.300}")
    assert not wrong, wrong
    return YES


LAKE_TRIALS: Final = {
    each.__name__: each
    for each in (merge_into_delta, merge_into_iceberg, read_changed_delta, read_changed_iceberg)
}
