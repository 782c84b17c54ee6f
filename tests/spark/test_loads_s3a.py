"""Tables and checkpoints on S3 through Hadoop's jar for it, which has Amazon's whole library with it."""

import json
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from tests.compat.prepare import UnavailableError, jars
from tests.tiered.servers import s3_jars, s3_server


def hadoop_aws() -> Path:
    """Of the version that Spark's own Hadoop has, or they do not go together."""
    [client] = (Path(pyspark.__file__).parent / "jars").glob("hadoop-client-api-*.jar")
    version = client.stem.removeprefix("hadoop-client-api-")
    return jars("hadoop-aws", f"org.apache.hadoop:hadoop-aws:{version}")


@pytest.mark.java
@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_tables_and_checkpoints_on_s3(tmp_path: Path) -> None:
    """`test_loads_stores` is the short form, without Spark."""
    try:
        s3_jars()
        libs = hadoop_aws()
    except UnavailableError as reason:
        pytest.skip(str(reason))
    with s3_server(tmp_path, in_memory=True) as endpoint:
        command = [sys.executable, "-m", "tests.spark.s3a_tables", endpoint, str(libs)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["parquet"] == {"loads": [[10], []], "rows": 10}
    for at, kind in enumerate(("delta", "iceberg"), 2):
        count = 10 * at
        assert found[kind] == {
            "loads": [[count], []],
            "rows": count,
            "shows_secret": False,
            "newest": [[0, 9], [1, 7], [2, 8]],
        }
