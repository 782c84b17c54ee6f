"""The object store by Google's and by Azure's ways; Amazon's has a module of its own."""

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headrace.log.system_disk import SystemDisk
from headrace.tiered.remote_storage import (
    RemoteResourceNotFoundError,
    RemoteStorageError,
    RemoteStorageManager,
)
from headrace.tiered.stores.opening import open_url
from tests.compat.prepare import UnavailableError
from tests.tiered.servers import azure_server, azurite, gcs_server, s3_jars
from tests.tiered.store_suite import StoreSuite
from tests.tiered.tiered_cluster import live_on


@pytest.fixture(scope="module")
def google(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    _need(s3_jars)
    with gcs_server(tmp_path_factory.mktemp("gcs")) as settings:
        yield settings


@pytest.fixture(scope="module")
def azure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    _need(azurite)
    with azure_server(tmp_path_factory.mktemp("azure")) as settings:
        yield settings


def _need(program: Callable[[], Path]) -> None:
    try:
        program()
    except UnavailableError as reason:
        pytest.skip(str(reason))


@pytest.mark.java
class TestOnGoogles(StoreSuite):
    @pytest.fixture
    def store(self, google: dict[str, str]) -> RemoteStorageManager:
        return open_url(f"gs://bucket/some/{uuid.uuid4().hex}", google, SystemDisk())


@pytest.mark.java
def test_a_topics_life_on_googles(google: dict[str, str]) -> None:
    live_on("gs://bucket/life", google, count=1000)


@pytest.mark.nodejs
class TestOnAzures(StoreSuite):
    @pytest.fixture
    def store(self, azure: dict[str, str]) -> RemoteStorageManager:
        return open_url(f"az://bucket/some/{uuid.uuid4().hex}", azure, SystemDisk())


@pytest.mark.nodejs
def test_a_wrong_key_is_told_without_it(azure: dict[str, str]) -> None:
    wrong = "bm90IHRoZSBrZXkgb2YgYSB0ZXN0"
    store = open_url("az://bucket", {**azure, "account.key": wrong}, SystemDisk())
    with pytest.raises(RemoteStorageError, match=r"t/0/a\.log in az://bucket.*403 Forbidden") as raised:
        store.put_bytes("t/0/a.log", b"x")
    assert wrong not in str(raised.value)
    assert not isinstance(raised.value, RemoteResourceNotFoundError)


@pytest.mark.nodejs
def test_a_topics_life_on_azures(azure: dict[str, str]) -> None:
    live_on("az://bucket/life", azure, count=1000)
