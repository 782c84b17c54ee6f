"""Stores of tables: how libraries outside the JVM reach what Spark reaches by Hadoop's file systems.

A session says once how a store is reached, in Hadoop's own words (`spark.hadoop.fs.s3a.endpoint`, for one
bucket `spark.hadoop.fs.s3a.bucket.NAME.endpoint`). Here that is turned into what each library calls it:
deltalake, pyiceberg and pyarrow, so that nothing has to be said twice. What Hadoop is not told is left to the
environment (`AWS_…`), and then to the library's own way of finding it, as an instance's role.

The source plans and reads in processes that have no session. Settings reach them in the environment of
Spark's Python workers (`share_settings`), which is part of no plan and of no page. Catalogues of Iceberg
(`iceberg_catalog.py`) go the same way.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from headrace.spark.loads.errors import StoreError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

S3_SCHEMES: Final = ("s3", "s3a", "s3n")
_S3A: Final = "fs.s3a."
_SHARED: Final = "HEADRACE_TABLE_SETTINGS"
_SECRETS: Final = ("access.key", "secret.key", "session.token")
_S3A_NAMES: Final = (
    *_SECRETS,
    *("endpoint", "endpoint.region", "path.style.access", "connection.ssl.enabled"),
    "aws.credentials.provider",
)
CATALOGUES: Final = "spark.sql.catalog."
"""What comes before the names of catalogues and their settings."""
# Of all regions; each bucket is asked for its own then.
_CENTRAL: Final = "s3.amazonaws.com"
# What servers that are not Amazon's take as a rule.
_REGION: Final = "us-east-1"


Settings = Mapping[str, str]
"""Hadoop's and Spark's, by their names: `fs.s3a.endpoint`, `spark.sql.catalog.lake.uri`."""
NONE: Final[Settings] = MappingProxyType({})
"""What is on a local disk needs none."""


def session_settings(spark: "SparkSession") -> Settings:
    """What a session says about stores and catalogues."""
    from headrace.spark.session import is_connected

    if is_connected(spark):  # the server's JVM knows, and does not tell
        return {}
    own = {str(name): str(value) for name, value in spark.conf.getAll.items()}
    catalogues = {name: value for name, value in own.items() if name.startswith(CATALOGUES)}
    return {**s3_settings(hadoop_configuration(spark)), **catalogues}


def hadoop_configuration(spark: "SparkSession") -> Any:
    """As Spark's own readers and writers in this session have it."""
    session: Any = spark._jsparkSession
    return session.sessionState().newHadoopConf()


def s3_settings(configuration: Any) -> dict[str, str]:
    """Of S3, out of Hadoop's Configuration; keys may be in a credential provider."""
    names = set(_S3A_NAMES)
    for name in configuration.getPropsWithPrefix(f"{_S3A}bucket."):
        bucket, _, own = name.partition(".")
        if own in _S3A_NAMES:
            names |= {f"bucket.{bucket}.{each}" for each in _S3A_NAMES}
    found = {}
    for name in names:
        if name.endswith(_SECRETS):
            secret = configuration.getPassword(_S3A + name)
            value = None if secret is None else "".join(secret)
        else:
            value = configuration.getTrimmed(_S3A + name)
        if value:
            found[_S3A + name] = str(value)
    return found


def share_settings(spark: "SparkSession") -> None:
    """Give a session's settings to the processes that Spark starts for the source from now on."""
    own = session_settings(spark)
    if own:
        spark.sparkContext.environment[_SHARED] = json.dumps(own)


def shared_settings() -> Settings:
    """In such a process, what its session says; nothing in any other."""
    found: dict[str, str] = json.loads(os.environ.get(_SHARED, "{}"))
    return found


@dataclass(frozen=True, slots=True)
class S3Access:
    """How a bucket is reached; None leaves it to the library."""

    endpoint: str | None = None
    region: str | None = None
    access_key: str | None = field(default=None, repr=False)
    secret_key: str | None = field(default=None, repr=False)
    session_token: str | None = field(default=None, repr=False)
    is_anonymous: bool = False
    is_virtual_hosted: bool = False
    """The bucket is part of the host's name; else of the path."""


def s3_access(bucket: str, settings: Settings, environment: Mapping[str, str] = os.environ) -> S3Access:
    """Of one bucket: by its own settings, those of all, and what the environment says."""

    def said(name: str) -> str | None:
        return settings.get(f"{_S3A}bucket.{bucket}.{name}") or settings.get(_S3A + name) or None

    given = said("endpoint")
    if given is not None and "://" not in given:
        given = f"{'http' if said('connection.ssl.enabled') == 'false' else 'https'}://{given}"
    host = None if given is None else urlsplit(given).hostname or ""
    if host == _CENTRAL:
        given = None
    by_environment = environment.get("AWS_ENDPOINT_URL_S3") or environment.get("AWS_ENDPOINT_URL")
    endpoint = given or by_environment
    region = said("endpoint.region") or environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION")
    key = said("access.key")
    return S3Access(
        endpoint,
        region or (_REGION if endpoint is not None else None),
        access_key=key,
        secret_key=None if key is None else said("secret.key"),
        session_token=None if key is None else said("session.token"),
        is_anonymous=key is None and "Anonymous" in (said("aws.credentials.provider") or ""),
        is_virtual_hosted=(
            given is not None
            and said("path.style.access") != "true"
            and not (host or "").endswith((".amazonaws.com", ".amazonaws.com.cn"))
        ),
    )


def is_on_s3(location: str) -> bool:
    return urlsplit(location).scheme in S3_SCHEMES


def delta_options(location: str, settings: Settings) -> dict[str, str] | None:
    """As `DeltaTable` takes them for a location."""
    if not is_on_s3(location):
        return None
    bucket = urlsplit(location).netloc
    access = s3_access(bucket, settings)
    endpoint = access.endpoint
    if endpoint is not None and access.is_virtual_hosted:  # this library wants the whole host
        endpoint = endpoint.replace("://", f"://{bucket}.", 1)
    return _given(
        AWS_ENDPOINT_URL=endpoint,
        AWS_REGION=access.region or _region_of(bucket, access),
        AWS_ACCESS_KEY_ID=access.access_key,
        AWS_SECRET_ACCESS_KEY=access.secret_key,
        AWS_SESSION_TOKEN=access.session_token,
        AWS_SKIP_SIGNATURE="true" if access.is_anonymous else None,
        AWS_VIRTUAL_HOSTED_STYLE_REQUEST="true" if access.is_virtual_hosted else None,
        AWS_ALLOW_HTTP="true" if endpoint is not None and endpoint.startswith("http:") else None,
        # Two commits of one version: the store itself refuses the second.
        AWS_CONDITIONAL_PUT="etag",
    )


def iceberg_properties(bucket: str, settings: Settings) -> dict[str, str]:
    """As catalogues of pyiceberg take them, for the files of their tables."""
    access = s3_access(bucket, settings)
    named = {
        "s3.endpoint": access.endpoint,
        "s3.region": access.region,
        "s3.access-key-id": access.access_key,
        "s3.secret-access-key": access.secret_key,
        "s3.session-token": access.session_token,
        "s3.anonymous": "true" if access.is_anonymous else None,
        "s3.force-virtual-addressing": "true" if access.is_virtual_hosted else None,
    }
    return _given(**named)


def open_store(location: str, settings: Settings) -> tuple[Any, str]:
    """Arrow's file system for a path or a URI, and the path in it. StoreError where it cannot be had."""
    from pyarrow import ArrowInvalid
    from pyarrow.fs import FileSystem, LocalFileSystem

    parts = urlsplit(location)
    if "://" not in location or parts.scheme == "file":
        return LocalFileSystem(), location.removeprefix("file://")
    if parts.scheme in S3_SCHEMES:
        return _s3(parts.netloc, settings), f"{parts.netloc}{parts.path}"
    if parts.scheme == "hdfs":
        return _hdfs(parts.netloc), parts.path
    try:
        system, path = FileSystem.from_uri(location)
    except (ArrowInvalid, OSError) as error:
        raise StoreError(f"{location} cannot be opened: {error}") from error
    return system, path


def _s3(bucket: str, settings: Settings) -> Any:
    from pyarrow.fs import S3FileSystem

    access = s3_access(bucket, settings)
    return S3FileSystem(
        **_given(
            endpoint_override=access.endpoint,
            region=access.region or _region_of(bucket, access),
            access_key=access.access_key,
            secret_key=access.secret_key,
            session_token=access.session_token,
        ),
        anonymous=access.is_anonymous,
        force_virtual_addressing=access.is_virtual_hosted,
    )


def _region_of(bucket: str, access: S3Access) -> str | None:
    """Amazon tells anybody; None where it cannot be asked."""
    from pyarrow.fs import resolve_s3_region

    if access.endpoint is not None:
        return None
    try:
        return str(resolve_s3_region(bucket))
    except OSError:
        return None


def _hdfs(place: str) -> Any:
    """By the library that needs no Java, else by Hadoop's own."""
    from pyarrow.fs import FileSystem, FSSpecHandler, PyFileSystem

    host, _, port = place.partition(":")
    try:
        from hdfs_native.fsspec import HdfsFileSystem
    except ImportError:
        try:
            return FileSystem.from_uri(f"hdfs://{place}/")[0]
        except OSError as error:
            raise StoreError(
                f"hdfs://{place} cannot be read here: install `pip install 'headrace[stores]'` (hdfs-native) "
                f"or Hadoop, and name it in HADOOP_HOME, JAVA_HOME and CLASSPATH ({error})"
            ) from error
    return PyFileSystem(FSSpecHandler(HdfsFileSystem(host, int(port) if port else None)))


def _given(**options: str | None) -> dict[str, str]:
    return {name: value for name, value in options.items() if value is not None}
