"""S3 and whatever speaks it, Google Cloud Storage, Azure: object stores, through obstore.

obstore is the Rust crate `object_store` behind a thin face: it lets go of the GIL while it works, streams a
multipart upload out of an iterator with a bounded number of parts in memory, and repeats requests that failed
on the way. It is imported when a store is opened and not before.

Credentials come from where the store's users keep them (environment, instance, workload identity; a profile
by `profile`, which needs boto3), or from settings. A put that fails gives up its upload. Parts that were on
their way then, or those of a process that was killed, are shown by no listing, and the library can neither
list nor abort such an upload: the bucket's own rule for unfinished uploads removes them.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import obstore
from obstore.exceptions import BaseError, GenericError, UnknownConfigurationKeyError
from obstore.store import from_url

from headrace.log.disk import File
from headrace.settings.definition import SettingError
from headrace.tiered.remote_storage import (
    ErrorReasons,
    RemoteResourceNotFoundError,
    RemoteStorageError,
    checked_name,
    pieces,
)

# S3 takes parts from 5 MiB and 10,000 of them: enough for segments of 78 GiB.
_PART_BYTES: Final = 8 << 20
# Parts on their way for one put; with the one being filled this bounds its memory to 24 MiB.
_PARTS_AT_ONCE: Final = 2
# Whoever calls tries again later, so that a store that is away is known to be after seconds, not minutes.
_RETRIES: Final = {"max_retries": 3}
_LISTED_AT_ONCE: Final = 1000
# Settings of the library's connections; all others are the store's own.
_CLIENT_OPTIONS: Final = frozenset(
    {
        "allow_http",
        "allow_invalid_certificates",
        "connect_timeout",
        "http1_only",
        "http2_only",
        "pool_idle_timeout",
        "pool_max_idle_per_host",
        "proxy_url",
        "timeout",
        "user_agent",
    }
)


class ObjectStore:
    """Implements `RemoteStorageManager` with a bucket, or a prefix in one."""

    def __init__(self, url: str, settings: Mapping[str, str]) -> None:
        """`settings` are obstore's names (`access_key_id`, `endpoint`, `timeout`…)."""
        self._url = url
        self._reasons = ErrorReasons(settings)
        self._deletes_many = url.startswith("s3")
        client = {name: value for name, value in settings.items() if name in _CLIENT_OPTIONS}
        config: dict[str, Any] = {
            name: value for name, value in settings.items() if name not in _CLIENT_OPTIONS
        }
        if config.get("endpoint", "").startswith("http://"):
            client.setdefault("allow_http", "true")
        if profile := config.pop("profile", ""):
            config["credential_provider"] = _profile_credentials(profile)
        self._store: Any = self._open(config, client)

    def __repr__(self) -> str:
        return f"ObjectStore({self._url!r})"

    def put(self, name: str, source: File, size: int) -> None:
        if size <= _PART_BYTES:
            self.put_bytes(name, b"".join(pieces(name, source, size)))
            return
        with self._doing(name):
            obstore.put(
                self._store,
                checked_name(name),
                pieces(name, source, size),
                use_multipart=True,
                chunk_size=_PART_BYTES,
                max_concurrency=_PARTS_AT_ONCE,
            )

    def put_bytes(self, name: str, data: bytes) -> None:
        with self._doing(name):
            obstore.put(self._store, checked_name(name), data, use_multipart=False)

    def read(self, name: str, start: int, end: int) -> bytes:
        checked_name(name)
        if start >= end:
            return b""
        with self._doing(name):
            try:
                return obstore.get_range(self._store, name, start=start, end=end).to_bytes()
            except GenericError:
                # Stores refuse a range that starts behind the end, each with words of its own.
                if start < int(obstore.head(self._store, name)["size"]):
                    raise
                return b""

    def delete(self, names: list[str]) -> None:
        for name in names:
            checked_name(name)
        if self._deletes_many:
            with self._doing(", ".join(names)):
                if names:
                    obstore.delete(self._store, names)
            return
        for name in names:
            with self._doing(name):
                try:
                    obstore.delete(self._store, name)
                except FileNotFoundError:
                    continue

    def list(self, prefix: str) -> Iterator[tuple[str, int]]:
        folder = prefix.rpartition("/")[0] or None  # the library's prefixes are whole folders
        with self._doing(prefix):
            found = sorted(
                (entry["path"], entry["size"])
                for chunk in obstore.list(self._store, folder, chunk_size=_LISTED_AT_ONCE)
                for entry in chunk
                if entry["path"].startswith(prefix)
            )
        yield from found

    def close(self) -> None:
        """Connections end when the library's store is dropped."""
        self._store = None

    def _open(self, config: dict[str, Any], client: dict[str, Any]) -> Any:
        try:
            return from_url(self._url, retry_config=_RETRIES, client_options=client, **config)  # type: ignore[call-overload]
        except UnknownConfigurationKeyError as error:
            raise SettingError("rsm.config.*", self._reasons.of(error)) from None
        except (BaseError, TypeError, ValueError) as error:
            reason = self._reasons.of(error)
            raise SettingError("rsm.config.*", f"{self._url} cannot be opened: {reason}") from None

    @contextmanager
    def _doing(self, name: str) -> Iterator[None]:
        """The library's errors as the store's. Their causes are not kept: they quote requests."""
        try:
            yield
        except FileNotFoundError:
            raise RemoteResourceNotFoundError(f"{name} is not in {self._url}") from None
        except BaseError as error:
            raise RemoteStorageError(f"{name} in {self._url}: {self._reasons.of(error)}") from None


def _profile_credentials(profile: str) -> Any:
    """Credentials of a profile in the user's AWS files, renewed when they expire."""
    try:
        from boto3 import Session
        from obstore.auth.boto3 import Boto3CredentialProvider
    except ImportError:
        raise SettingError("rsm.config.profile", "needs boto3: pip install boto3") from None
    return Boto3CredentialProvider(Session(profile_name=profile))
