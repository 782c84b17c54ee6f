"""Real servers for the stores' suite, both from Maven Central: S3Proxy, which speaks S3 over a folder, and
Hadoop's own HDFS as its mini cluster, one name node and one data node in a JVM.
"""

import json
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.compat.clients.face import eventually
from tests.compat.prepare import jars

S3PROXY = "org.gaul:s3proxy:2.6.0"
HADOOP = (
    "org.apache.hadoop:hadoop-client-minicluster:3.4.1",
    "org.apache.hadoop:hadoop-client-runtime:3.4.1",
)
START_S = 60.0

_JVM = ["java", "-Xmx384M", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djava.net.preferIPv4Stack=true"]
_LISTENING = re.compile(r"Started ServerConnector.*\{127\.0\.0\.1:(\d+)\}")
_LOGBACK = """<configuration>
  <appender name="out" class="ch.qos.logback.core.ConsoleAppender">
    <encoder><pattern>%level %msg%n</pattern></encoder>
  </appender>
  <root level="warn"><appender-ref ref="out"/></root>
  <logger name="org.gaul.shaded.org.eclipse.jetty.server.AbstractConnector" level="info"/>
</configuration>
"""

S3_SETTINGS = {"access.key.id": "test-key", "secret.access.key": "test-secret", "region": "us-east-1"}


def s3_jars() -> Path:
    return jars("s3proxy", S3PROXY)


def hdfs_jars() -> Path:
    return jars("hdfs", *HADOOP)


@contextmanager
def s3_server(folder: Path) -> Iterator[str]:
    """An S3 server with one bucket, `bucket`; gives its endpoint, and takes S3_SETTINGS."""
    (folder / "data/bucket").mkdir(parents=True)
    (folder / "logback.xml").write_text(_LOGBACK)
    properties = {
        "s3proxy.endpoint": "http://127.0.0.1:0",
        "s3proxy.authorization": "aws-v2-or-v4",
        "s3proxy.ignore-unknown-headers": "true",  # check sums that it does not know
        "s3proxy.identity": S3_SETTINGS["access.key.id"],
        "s3proxy.credential": S3_SETTINGS["secret.access.key"],
        "jclouds.provider": "filesystem-nio2",
        "jclouds.identity": "none",
        "jclouds.credential": "none",
        "jclouds.filesystem.basedir": f"{folder}/data",
    }
    (folder / "s3proxy.conf").write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
    command = [f"-Dlogback.configurationFile={folder}/logback.xml", "-cp", f"{s3_jars()}/*"]
    command += ["org.gaul.s3proxy.Main", "--properties", f"{folder}/s3proxy.conf"]
    with _running(command, folder) as log:
        found = eventually(lambda: _LISTENING.search(log.read_text()), f"S3Proxy ({log})", START_S)
        assert found
        yield f"http://127.0.0.1:{found[1]}"


@contextmanager
def hdfs_server(folder: Path) -> Iterator[str]:
    """A file system of one name node and one data node; gives its URL."""
    details = folder / "details.json"
    command = [f"-Dtest.build.data={folder}/data", "-cp", f"{hdfs_jars()}/*"]
    command += ["org.apache.hadoop.test.MiniDFSClusterManager", "-datanodes", "1", "-format"]
    with _running([*command, "-writeDetails", str(details)], folder) as log:
        found = eventually(lambda: _details(details), f"HDFS's mini cluster ({log})", START_S)
        yield f"hdfs://127.0.0.1:{found['namenode_port']}"


def _details(path: Path) -> dict[str, int]:
    try:
        found: dict[str, int] = json.loads(path.read_text())
    except (OSError, ValueError):  # not there yet, or half of it
        return {}
    return found


@contextmanager
def _running(arguments: list[str], folder: Path) -> Iterator[Path]:
    log = folder / "server.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*_JVM, *arguments], cwd=folder, stdin=subprocess.DEVNULL, stdout=output, stderr=output
        )
    try:
        yield log
    finally:
        process.kill()
        process.wait()
