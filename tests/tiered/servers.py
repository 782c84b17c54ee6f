"""Real servers for the stores' suite. From Maven Central: S3Proxy, which speaks S3 over a folder, and
Hadoop's own HDFS as its mini cluster, one name node and one data node in a JVM. From npm: Azurite, Azure's
own.

Google has none that a registry carries and that speaks what the library sends (fake-gcs-server takes JSON
uploads only). Its XML interface was made to be S3's, so S3Proxy without signatures stands in for it.
"""

import base64
import hashlib
import hmac
import json
import re
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from email.utils import formatdate
from pathlib import Path

from tests.compat.clients.face import eventually
from tests.compat.prepare import jars, node_package

S3PROXY = "org.gaul:s3proxy:2.6.0"
HADOOP = (
    "org.apache.hadoop:hadoop-client-minicluster:3.4.1",
    "org.apache.hadoop:hadoop-client-runtime:3.4.1",
)
AZURITE = ("azurite", "3.37.0")
START_S = 100.0

_JVM = ["java", "-Xmx384M", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djava.net.preferIPv4Stack=true"]
_LISTENING = re.compile(r"Started ServerConnector.*\{127\.0\.0\.1:(\d+)\}")
_AZURITE_BLOB = "node_modules/azurite/dist/src/blob/main.js"
_AZURITE_LISTENING = re.compile(r"listens on (http://127\.0\.0\.1:\d+)")
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


def azurite() -> Path:
    return node_package(*AZURITE)


@contextmanager
def s3_server(folder: Path, *, in_memory: bool = False) -> Iterator[str]:
    """An S3 server with one bucket, `bucket`; gives its endpoint, and takes S3_SETTINGS.

    Its folders on a disk answer as objects, which Hadoop takes for files. In memory there are none; nor is
    there a bucket yet.
    """
    signed = {
        "s3proxy.authorization": "aws-v2-or-v4",
        "s3proxy.identity": S3_SETTINGS["access.key.id"],
        "s3proxy.credential": S3_SETTINGS["secret.access.key"],
    }
    with _s3proxy(folder, {**signed, **({"jclouds.provider": "transient"} if in_memory else {})}) as endpoint:
        yield endpoint


@contextmanager
def gcs_server(folder: Path) -> Iterator[dict[str, str]]:
    """A server with one bucket, `bucket`; gives the settings of a store that believes it to be Google's."""
    with _s3proxy(folder, {"s3proxy.authorization": "none"}) as endpoint:
        key = {"gcs_base_url": endpoint, "disable_oauth": True}
        nobody = {"client_email": "", "private_key": "", "private_key_id": ""}
        yield {"service.account.key": json.dumps({**key, **nobody}), "allow.http": "true"}


@contextmanager
def _s3proxy(folder: Path, more: dict[str, str]) -> Iterator[str]:
    (folder / "data/bucket").mkdir(parents=True)
    (folder / "logback.xml").write_text(_LOGBACK)
    properties = {
        "s3proxy.endpoint": "http://127.0.0.1:0",
        "s3proxy.ignore-unknown-headers": "true",  # check sums that it does not know
        "jclouds.provider": "filesystem-nio2",
        "jclouds.identity": "none",
        "jclouds.credential": "none",
        "jclouds.filesystem.basedir": f"{folder}/data",
        **more,
    }
    (folder / "s3proxy.conf").write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
    command = [f"-Dlogback.configurationFile={folder}/logback.xml", "-cp", f"{s3_jars()}/*"]
    command += ["org.gaul.s3proxy.Main", "--properties", f"{folder}/s3proxy.conf"]
    with _running([*_JVM, *command], folder) as log:
        found = eventually(lambda: _LISTENING.search(log.read_text()), f"S3Proxy ({log})", START_S)
        assert found
        yield f"http://127.0.0.1:{found[1]}"


@contextmanager
def hdfs_server(folder: Path) -> Iterator[str]:
    """A file system of one name node and one data node; gives its URL."""
    details = folder / "details.json"
    command = [f"-Dtest.build.data={folder}/data", "-cp", f"{hdfs_jars()}/*"]
    command += ["org.apache.hadoop.test.MiniDFSClusterManager", "-datanodes", "1", "-format"]
    with _running([*_JVM, *command, "-writeDetails", str(details)], folder) as log:
        found = eventually(lambda: _details(details), f"HDFS's mini cluster ({log})", START_S)
        yield f"hdfs://127.0.0.1:{found['namenode_port']}"


def _details(path: Path) -> dict[str, int]:
    try:
        found: dict[str, int] = json.loads(path.read_text())
    except (OSError, ValueError):  # not there yet, or half of it
        return {}
    return found


@contextmanager
def azure_server(folder: Path) -> Iterator[dict[str, str]]:
    """A blob service with one container, `bucket`; gives a store's settings."""
    account, key = "account", base64.b64encode(b"the key of a test").decode()
    command = ["env", f"AZURITE_ACCOUNTS={account}:{key}", "node", str(azurite() / _AZURITE_BLOB)]
    command += ["--blobHost", "127.0.0.1", "--blobPort", "0", "--location", str(folder)]
    command += ["--skipApiVersionCheck", "--disableTelemetry"]
    with _running(command, folder) as log:
        found = eventually(lambda: _AZURITE_LISTENING.search(log.read_text()), f"Azurite ({log})", START_S)
        assert found
        endpoint = f"{found[1]}/{account}"
        _create_container(endpoint, account, key, "bucket")
        yield {"account.name": account, "account.key": key, "endpoint": endpoint}


def _create_container(endpoint: str, account: str, key: str, name: str) -> None:
    """Azure's "Put Container", signed with the account's key; the store's library makes none."""
    headers = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": "2021-08-06"}
    told = "".join(f"{name}:{value}\n" for name, value in headers.items())
    unused = "\n" * 12  # standard headers, none of which is sent
    signed = f"PUT{unused}{told}/{account}/{account}/{name}\nrestype:container"
    digest = hmac.digest(base64.b64decode(key), signed.encode(), hashlib.sha256)
    headers["Authorization"] = f"SharedKey {account}:{base64.b64encode(digest).decode()}"
    request = urllib.request.Request(f"{endpoint}/{name}?restype=container", method="PUT", headers=headers)
    with urllib.request.urlopen(request, timeout=START_S):
        pass


@contextmanager
def _running(command: list[str], folder: Path) -> Iterator[Path]:
    log = folder / "server.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, cwd=folder, stdin=subprocess.DEVNULL, stdout=output, stderr=output
        )
    try:
        yield log
    finally:
        process.kill()
        process.wait()
