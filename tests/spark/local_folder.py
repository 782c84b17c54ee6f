"""A table's folder on a local disk, without a session: what `TableFolder` is on Hadoop's file systems."""

import shutil
from pathlib import Path

from headrace.spark.loads.folders import FileFact, TableFolder


class LocalFolder(TableFolder):
    """`test_loads_folders` has both do the same."""

    def __init__(self, path: Path) -> None:
        self._root = path
        self.uri = f"file:{path}"

    def exists(self, path: str) -> bool:
        return (self._root / path).exists()

    def delete(self, path: str) -> None:
        place = self._root / path
        shutil.rmtree(place) if place.is_dir() else place.unlink(missing_ok=True)

    def make(self, path: str) -> None:
        (self._root / path).mkdir(parents=True, exist_ok=True)

    def rename(self, source: str, target: str) -> None:
        self.make(target.rpartition("/")[0])
        (self._root / source).rename(self._root / target)

    def write_new(self, path: str, text: str) -> None:
        if self.exists(path):
            raise FileExistsError(f"{self.uri}/{path} is there already")
        (self._root / path).write_text(text)

    def replace(self, path: str, content: bytes) -> None:
        (self._root / path).write_bytes(content)

    def read(self, path: str) -> str:
        return (self._root / path).read_text()

    def children(self, path: str) -> list[str]:
        return sorted(each.name for each in (self._root / path).glob("*"))

    def files(self, path: str, suffix: str) -> list[FileFact]:
        found = (each for each in (self._root / path).rglob(f"*{suffix}") if each.is_file())
        return sorted(
            FileFact(str(each.relative_to(self._root)), each.stat().st_size, int(each.stat().st_mtime * 1000))
            for each in found
        )
