"""A table's folder, on whatever file system Spark reaches it.

Hadoop's FileSystem is used through the session's JVM, so the driver sees the same files as the executors that
wrote them, on a disk, on HDFS or on any store that the session is set up for. What Arrow reads of it on
the driver, footers and the changes of an upsert, comes that way too: no other library has to reach the store.
"""

import io
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from headrace.spark.loads.errors import StoreError
from headrace.spark.loads.stores import (
    NONE,
    S3_SCHEMES,
    Settings,
    hadoop_configuration,
    session_settings,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


# Where a rename is one step. Elsewhere it is a copy, and a file appears with its last byte.
_RENAMES: Final = ("file", "hdfs", "viewfs", "webhdfs", "abfs", "abfss")
_JARS: Final = {
    scheme: f"`--conf spark.jars.packages=org.apache.hadoop:{artifact}:{{version}}`"
    for scheme, artifact in (("s3a", "hadoop-aws"), ("abfs", "hadoop-azure"), ("abfss", "hadoop-azure"))
}
_ONLY_NEW: Final = "fs.option.create.conditional.overwrite"


class FileFact(NamedTuple):
    """A file, by its path below the folder."""

    path: str
    size_bytes: int
    modified_ms: int


class TableFolder:
    """Paths are relative to `uri`, with slashes."""

    settings: Settings = NONE
    """How other libraries reach the store: see `stores`."""

    def __init__(self, spark: "SparkSession", path: str) -> None:
        """StoreError where Hadoop lacks what the store needs."""
        jvm: Any = spark._jvm
        self._path_class = jvm.org.apache.hadoop.fs.Path
        configuration = hadoop_configuration(spark)
        given = self._path_class(_as_hadoop_says(path, configuration))
        self._files = _file_system(given, configuration, jvm)
        self.settings = session_settings(spark)
        self._jvm = jvm
        self._gateway: Any = spark.sparkContext._gateway
        self._configuration = configuration
        self.uri: str = self._files.makeQualified(given).toString().rstrip("/")
        """With its scheme; on a local disk `file:/…`."""

    @property
    def location(self) -> str:
        """As libraries outside the JVM want it: plain on a local disk, a URI elsewhere."""
        return self.uri.removeprefix("file://").removeprefix("file:") if self.is_local else self.uri

    @property
    def is_local(self) -> bool:
        return self.uri.startswith("file:")

    @property
    def _has_renames(self) -> bool:
        return self.uri.startswith(tuple(f"{each}:" for each in _RENAMES))

    def exists(self, path: str) -> bool:
        return bool(self._files.exists(self._at(path)))

    def delete(self, path: str) -> None:
        """With everything below it; nothing to do where it is not."""
        self._files.delete(self._at(path), True)

    def make(self, path: str) -> None:
        self._files.mkdirs(self._at(path))

    def rename(self, source: str, target: str) -> None:
        if not self._has_renames and self.exists(target):  # copied by a run that was killed before the rest
            self.delete(source)
            return
        self.make(target.rpartition("/")[0])
        if not self._files.rename(self._at(source), self._at(target)):
            raise OSError(f"cannot rename {self.uri}/{source} to {target}")

    def write_new(self, path: str, text: str) -> None:
        """A file that appears whole or not at all; FileExistsError where there is one already."""
        if not self._has_renames:
            self._create_new(path, text)
            return
        draft = f"{path}.draft"
        self._write(draft, text.encode())
        if self.exists(path) or not self._files.rename(self._at(draft), self._at(path)):
            self.delete(draft)
            raise FileExistsError(f"{self.uri}/{path} is there already")

    def _create_new(self, path: str, text: str) -> None:
        """The store is asked to refuse a second one; one that cannot is looked at before."""
        try:
            builder = self._files.createFile(self._at(path)).overwrite(False).opt(_ONLY_NEW, "true")
            out = builder.recursive().build()
            out.write(bytearray(text.encode()))
            out.close()
        except Exception as error:  # py4j's, of whatever class the store's is
            if self.exists(path):
                raise FileExistsError(f"{self.uri}/{path} is there already") from error
            raise

    def _write(self, path: str, content: bytes) -> None:
        out = self._files.create(self._at(path), True)
        try:
            out.write(bytearray(content))
        finally:
            out.close()

    def replace(self, path: str, content: bytes) -> None:
        """A file with this content in place of what was there, if anything."""
        if not self._has_renames:
            self._write(path, content)
            return
        draft = f"{path}.draft"
        self._write(draft, content)
        # The older FileSystem cannot rename onto a file that is there.
        hadoop = self._jvm.org.apache.hadoop.fs
        context = hadoop.FileContext.getFileContext(self._files.getUri(), self._configuration)
        options = self._gateway.new_array(hadoop.Options.Rename, 1)
        options[0] = hadoop.Options.Rename.OVERWRITE
        context.rename(self._at(draft), self._at(path), options)

    def read(self, path: str) -> str:
        stream = self._files.open(self._at(path))
        try:
            return bytes(stream.readAllBytes()).decode()
        finally:
            stream.close()

    def opened(self, path: str) -> Any:
        """A file for Arrow, which reads only the parts of it that it needs."""
        from pyarrow.fs import LocalFileSystem

        if self.is_local:
            return LocalFileSystem().open_input_file(f"{self.location}/{path}")
        return self._opened_by_hadoop(path)

    def _opened_by_hadoop(self, path: str) -> Any:
        import pyarrow as pa

        at = self._at(path)
        return pa.PythonFile(_HadoopFile(self._files.open(at), self._files.getFileStatus(at).getLen()), "r")

    def children(self, path: str) -> list[str]:
        """The names in a folder; none where there is no such folder."""
        if not self.exists(path):
            return []
        return sorted(each.getPath().getName() for each in self._files.listStatus(self._at(path)))

    def files(self, path: str, suffix: str) -> list[FileFact]:
        """All files below, at any depth, whose name ends so; in order of their paths."""
        if not self.exists(path):
            return []
        listing = self._files.listFiles(self._at(path), True)
        found = []
        while listing.hasNext():
            status = listing.next()
            name = status.getPath().toString().removeprefix(f"{self.uri}/")
            if name.endswith(suffix):
                found.append(FileFact(name, status.getLen(), status.getModificationTime()))
        return sorted(found)

    def _at(self, path: str) -> Any:
        return self._path_class(f"{self.uri}/{path}" if path else self.uri)


class _HadoopFile(io.RawIOBase):
    """An input stream of Hadoop's as a file of Python's."""

    def __init__(self, stream: Any, size: int) -> None:
        super().__init__()
        self._stream = stream
        self._size = size
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        return self._at

    def size(self) -> int:
        return self._size

    def readinto(self, buffer: Any) -> int:
        count = min(len(buffer), self._size - self._at)
        if count <= 0:
            return 0
        self._stream.seek(self._at)
        found = bytes(self._stream.readNBytes(count))
        buffer[: len(found)] = found
        self._at += len(found)
        return len(found)

    def close(self) -> None:
        if not self.closed:
            self._stream.close()
        super().close()


def _as_hadoop_says(path: str, configuration: Any) -> str:
    """Hadoop's name for S3 is s3a, unless a platform brings a file system of its own for s3."""
    scheme, separator, rest = path.partition("://")
    if separator and scheme in S3_SCHEMES and configuration.get(f"fs.{scheme}.impl") is None:
        return f"s3a://{rest}"
    return path


def _file_system(path: Any, configuration: Any, jvm: Any) -> Any:
    try:
        return path.getFileSystem(configuration)
    except Exception as error:  # py4j's
        reason = str(getattr(error, "java_exception", ""))
        if "ClassNotFoundException" not in reason and "UnsupportedFileSystemException" not in reason:
            raise
        jar = _JARS.get(str(path.toUri().getScheme()), "the jar of that store")
        version = jvm.org.apache.hadoop.util.VersionInfo.getVersion()
        raise StoreError(
            f"{path.toString()} cannot be opened by this Spark's Hadoop {version}, it lacks the jar: give it "
            f"{jar.format(version=version)} ({reason.splitlines()[0]})"
        ) from error
