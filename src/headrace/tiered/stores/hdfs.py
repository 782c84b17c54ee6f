"""HDFS, through hdfs-native: a client in Rust that needs neither a JVM nor Hadoop's native libraries.

An object is a file under the URL's path. It is written as NAME~ and renamed once it is closed, so what has an
object's name is whole; removing an object removes what a killed writer left as well, and `begun` finds it.
Folders come with their first object and go with their last: a folder that somebody writes in is not empty,
and goes later.

Where HADOOP_CONF_DIR names Hadoop's own configuration it is read; settings go before it, under Hadoop's
names. Kerberos comes from the ticket cache, or from `kerberos.principal` with `kerberos.keytab`.
"""

import builtins
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Final
from urllib.parse import urlsplit

from hdfs_native import Client, FileStatus, WriteOptions

from headrace.log.disk import File
from headrace.settings.definition import SettingError
from headrace.tiered.remote_storage import (
    ErrorReasons,
    RemoteResourceNotFoundError,
    RemoteStorageError,
    checked_name,
    pieces,
)

_UNFINISHED: Final = "~"
# Whoever calls tries again later, so that a name node that is away is known to be after seconds.
_DEFAULTS: Final = {"dfs.client.failover.max.attempts": "3", "dfs.client.failover.sleep.max.millis": "2000"}
_KERBEROS: Final = ("kerberos.principal", "kerberos.keytab", "kerberos.cache")


class HdfsStore:
    """Implements `RemoteStorageManager` with files below the path of an hdfs:// URL."""

    def __init__(self, url: str, settings: Mapping[str, str]) -> None:
        """`settings` are Hadoop's names (`dfs.client.…`), and those of Kerberos (see above)."""
        self._url = url.rstrip("/")
        self._reasons = ErrorReasons(settings)
        parts = urlsplit(self._url)
        self._root = parts.path
        config = {name: value for name, value in settings.items() if name not in _KERBEROS}
        principal, keytab, cache = (settings.get(name) for name in _KERBEROS)
        try:
            self._client = Client(
                f"{parts.scheme}://{parts.netloc}",
                {**_DEFAULTS, **config},
                kerberos_principal=principal,
                kerberos_keytab=keytab,
                kerberos_cache=cache,
            )
        except Exception as error:
            reason = self._reasons.of(error)
            raise SettingError("rsm.config.*", f"{self._url} cannot be opened: {reason}") from None

    def __repr__(self) -> str:
        return f"HdfsStore({self._url!r})"

    def put(self, name: str, source: File, size: int) -> None:
        self._write(name, pieces(name, source, size))

    def put_bytes(self, name: str, data: bytes) -> None:
        self._write(name, iter([data]))

    def put_many(self, objects: Mapping[str, bytes]) -> None:
        """Small objects all at once: see `_write`."""
        with ThreadPoolExecutor(max(1, len(objects)), "hdfs-put") as threads:
            for done in [threads.submit(self.put_bytes, name, data) for name, data in objects.items()]:
                done.result()

    def read(self, name: str, start: int, end: int) -> bytes:
        path = self._path(name)
        with self._doing(name):
            reader = self._client.read(path)
            end = min(end, len(reader))
            return bytes(reader.read_range(start, end - start)) if start < end else b""

    def delete(self, names: list[str]) -> None:
        for name in names:
            path = self._path(name)
            with self._doing(name):
                self._client.delete(path + _UNFINISHED)
                self._client.delete(path)
        for folder in sorted({name.rpartition("/")[0] for name in names}):
            self._remove_if_empty(folder)

    def list(self, prefix: str) -> Iterator[tuple[str, int]]:
        yield from ((name, size) for name, size in self._found(prefix) if not name.endswith(_UNFINISHED))

    def begun(self, prefix: str) -> Iterator[str]:
        """See `store.begun`."""
        yield from dict.fromkeys(name.removesuffix(_UNFINISHED) for name, _ in self._found(prefix))

    def _found(self, prefix: str) -> builtins.list[tuple[str, int]]:
        folder = f"{self._root}/{prefix.rpartition('/')[0]}".rstrip("/") or "/"
        with self._doing(prefix):
            return sorted(each for each in self._files(folder) if each[0].startswith(prefix))

    def close(self) -> None:
        """Connections end when the client is dropped."""

    def _write(self, name: str, data: Iterator[bytes]) -> None:
        """Closing takes half a second, however small the object: hdfs-native 0.14 asks the name node at once
        whether the file is complete, before the data node has told it of the last block, and then sleeps for
        500 ms (COMPLETE_RETRY_DELAY_MS), which no setting changes.
        """
        path = self._path(name)
        with self._doing(name):
            writer = self._client.create(path + _UNFINISHED, WriteOptions(overwrite=True, create_parent=True))
            try:
                for piece in data:
                    writer.write(piece)
            finally:
                writer.close()  # or the name node would hold the file for this writer
            self._client.rename(path + _UNFINISHED, path, overwrite=True)

    def _remove_if_empty(self, folder: str) -> None:
        while folder:
            try:
                self._client.delete(f"{self._root}/{folder}", recursive=False)
            except Exception:  # something is in it, or somebody else was quicker
                return
            folder = folder.rpartition("/")[0]

    def _files(self, folder: str) -> Iterator[tuple[str, int]]:
        try:
            entries: Iterator[FileStatus] = self._client.list_status(folder, recursive=True)
            for entry in entries:
                if not entry.isdir:
                    yield entry.path.removeprefix(f"{self._root}/"), entry.length
        except FileNotFoundError:
            return

    def _path(self, name: str) -> str:
        return f"{self._root}/{checked_name(name)}"

    @contextmanager
    def _doing(self, name: str) -> Iterator[None]:
        """The library's errors as the store's; it raises whatever Python has for them."""
        try:
            yield
        except RemoteStorageError:
            raise
        except FileNotFoundError:
            raise RemoteResourceNotFoundError(f"{name} is not in {self._url}") from None
        except Exception as error:
            raise RemoteStorageError(f"{name} in {self._url}: {self._reasons.of(error)}") from None
