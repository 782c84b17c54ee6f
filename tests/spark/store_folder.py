"""A table's folder on a store, without a session: Arrow's file system in the place of Hadoop's."""

from typing import Any

from pyarrow.fs import FileSelector, FileType

from headrace.spark.loads.folders import FileFact, TableFolder
from headrace.spark.loads.stores import Settings, open_store


class StoreFolder(TableFolder):
    """What tables that commit by a library of their own ask of a folder."""

    def __init__(self, uri: str, settings: Settings) -> None:
        self.uri = uri
        self.settings = settings
        self._system, self._base = open_store(uri, settings)

    def exists(self, path: str) -> bool:
        return bool(self._system.get_file_info(f"{self._base}/{path}").type != FileType.NotFound)

    def make(self, path: str) -> None:
        self._system.create_dir(f"{self._base}/{path}")

    def opened(self, path: str) -> Any:
        return self._system.open_input_file(f"{self._base}/{path}")

    def write(self, path: str, content: bytes) -> None:
        self.make(path.rpartition("/")[0])
        with self._system.open_output_stream(f"{self._base}/{path}") as file:
            file.write(content)

    def files(self, path: str, suffix: str) -> list[FileFact]:
        found = self._system.get_file_info(FileSelector(f"{self._base}/{path}", recursive=True))
        return sorted(
            FileFact(each.path.removeprefix(f"{self._base}/"), each.size, (each.mtime_ns or 0) // 1_000_000)
            for each in found
            if each.type == FileType.File and each.path.endswith(suffix)
        )
