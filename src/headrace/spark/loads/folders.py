"""A table's folder, on whatever file system Spark reaches it.

Hadoop's FileSystem is used through the session's JVM, so the driver sees the same files as the executors that
wrote them, on a disk, on HDFS or on any store that the session is set up for.
"""

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class FileFact(NamedTuple):
    """A file, by its path below the folder."""

    path: str
    size_bytes: int
    modified_ms: int


class TableFolder:
    """Paths are relative to `uri`, with slashes."""

    def __init__(self, spark: "SparkSession", path: str) -> None:
        jvm: Any = spark._jvm
        self._path_class = jvm.org.apache.hadoop.fs.Path
        given = self._path_class(path)
        configuration = spark._jsc.hadoopConfiguration()
        self._files = given.getFileSystem(configuration)
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

    def exists(self, path: str) -> bool:
        return bool(self._files.exists(self._at(path)))

    def delete(self, path: str) -> None:
        """With everything below it; nothing to do where it is not."""
        self._files.delete(self._at(path), True)

    def make(self, path: str) -> None:
        self._files.mkdirs(self._at(path))

    def rename(self, source: str, target: str) -> None:
        self.make(target.rpartition("/")[0])
        if not self._files.rename(self._at(source), self._at(target)):
            raise OSError(f"cannot rename {self.uri}/{source} to {target}")

    def write_new(self, path: str, text: str) -> None:
        """A file that appears whole or not at all; FileExistsError where there is one already."""
        draft = f"{path}.draft"
        out = self._files.create(self._at(draft), True)
        try:
            out.write(bytearray(text.encode()))
        finally:
            out.close()
        if self.exists(path) or not self._files.rename(self._at(draft), self._at(path)):
            self.delete(draft)
            raise FileExistsError(f"{self.uri}/{path} is there already")

    def replace(self, path: str, content: bytes) -> None:
        """A file with this content in place of what was there, if anything."""
        draft = f"{path}.draft"
        out = self._files.create(self._at(draft), True)
        try:
            out.write(bytearray(content))
        finally:
            out.close()
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
        from pyarrow.fs import FileSystem

        uri = self.uri.replace("file:/", "file:///", 1) if self.is_local else self.uri
        system, base = FileSystem.from_uri(uri)
        return system.open_input_file(f"{base}/{path}")

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
