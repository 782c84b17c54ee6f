"""Which store a broker's settings open, and what is said where they are wrong."""

import logging
from collections.abc import Mapping

import pytest

from headrace.log.system_disk import SystemDisk
from headrace.settings.broker_config import BrokerConfig
from headrace.settings.definition import SettingError
from headrace.settings.describe import describe_broker
from headrace.tiered.remote_storage import ErrorReasons, RemoteStorageError, RemoteStorageManager
from headrace.tiered.stores.opening import open_store, open_url
from tests.settings.test_broker_config import NODE

ENABLED = {**NODE, "remote.log.storage.system.enable": "true"}
SECRET = "wJalrXUtnFEMI-K7MDENG-bPxRfiCYEXAMPLEKEY"
S3 = {"access.key.id": "AKIAIOSFODNN7EXAMPLE", "secret.access.key": SECRET, "region": "us-east-1"}


def opened(settings: Mapping[str, str]) -> RemoteStorageManager | None:
    return open_store(BrokerConfig({**ENABLED, **settings}), SystemDisk())


class OwnStore:
    """A user's own store, which has no more than the calls."""

    def __init__(self, settings: dict[str, str]) -> None:
        self.settings = settings

    put = put_bytes = read = delete = list = close = lambda self: None


def test_a_broker_without_tiers_has_none() -> None:
    assert open_store(BrokerConfig({**NODE, "rsm.config.url": "/x"}), SystemDisk()) is None


@pytest.mark.parametrize(
    ("url", "store"),
    [
        ("/mnt/share/kafka", "FolderStore('/mnt/share/kafka')"),
        ("file:///mnt/share/kafka/", "FolderStore('/mnt/share/kafka')"),
        ("s3://bucket/some/prefix", "ObjectStore('s3://bucket/some/prefix')"),
        ("gs://bucket", "ObjectStore('gs://bucket')"),
        ("hdfs://127.0.0.1:8020/kafka/", "HdfsStore('hdfs://127.0.0.1:8020/kafka')"),
    ],
)
def test_a_url_names_the_store(url: str, store: str) -> None:
    assert repr(opened({"rsm.config.url": url})) == store


def test_settings_go_to_the_store_without_their_prefix() -> None:
    own = opened(
        {
            "remote.log.storage.manager.class.name": f"{__name__}.OwnStore",
            "rsm.config.url": "own://anywhere",
            "rsm.config.max.things": "5",
            "rlmm.config.not.the.stores": "x",
        }
    )
    assert isinstance(own, OwnStore)
    assert own.settings == {"url": "own://anywhere", "max.things": "5"}


def test_another_prefix() -> None:
    own = opened(
        {
            "remote.log.storage.manager.class.name": f"{__name__}:OwnStore",
            "remote.log.storage.manager.impl.prefix": "our.store.",
            "our.store.place": "here",
        }
    )
    assert isinstance(own, OwnStore)
    assert own.settings == {"place": "here"}


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({}, "rsm.config.url: must name the remote store"),
        ({"rsm.config.url": "share/kafka"}, "is no folder's whole path"),
        ({"rsm.config.url": "file://share/kafka"}, "is no folder's whole path"),
        ({"rsm.config.url": "ftp://host/x"}, "begins with one of file://, s3://, gs://, az://, hdfs://"),
        ({"rsm.config.url": "s3:///prefix"}, "begins with one of"),
        ({"rsm.config.url": "s3://bucket", "rsm.config.nonsense": "x"}, "'nonsense' is not valid"),
        ({"rsm.config.url": "s3://bucket", "rsm.config.timeout": "long"}, "Duration"),
        (
            {"remote.log.storage.manager.class.name": "org.apache.kafka.server.log.remote.Storage"},
            "must be a Python class on the broker's path",
        ),
        ({"remote.log.storage.manager.class.name": "OwnStore"}, "must be a class that has put"),
        ({"remote.log.storage.manager.class.name": "logging.Logger"}, "must be a class that has put"),
        ({"remote.log.storage.manager.class.name": f"{__name__}.opened"}, "must be a class that has put"),
    ],
)
def test_wrong_settings_say_what_to_do(settings: dict[str, str], complaint: str) -> None:
    with pytest.raises(SettingError, match=complaint):
        opened(settings)


def test_credentials_in_a_url_are_refused_and_not_repeated() -> None:
    for url in (f"s3://key:{SECRET}@bucket/x", f"s3://bucket/x?secret={SECRET}"):
        with pytest.raises(SettingError, match="credentials go into settings of their own") as raised:
            open_url(url, {}, SystemDisk())
        assert SECRET not in str(raised.value)


def test_credentials_are_not_told(caplog: pytest.LogCaptureFixture) -> None:
    """Neither by DescribeConfigs, nor by errors, nor by logs: port 1 refuses, so every call fails."""
    caplog.set_level(logging.DEBUG)
    settings = {f"rsm.config.{name}": value for name, value in S3.items()}
    settings |= {"rsm.config.url": "s3://bucket", "rsm.config.endpoint": "http://127.0.0.1:1"}
    config = BrokerConfig({**ENABLED, **settings})
    store = open_store(config, SystemDisk())
    assert store is not None
    with pytest.raises(RemoteStorageError, match=r"t/0/a\.log in s3://bucket: ") as raised:
        store.put_bytes("t/0/a.log", b"x")
    told = [str(raised.value), repr(raised.value.__cause__), repr(store), caplog.text]
    told += [str(entry) for entry in describe_broker(config)]
    assert not [text for text in told if SECRET in text or "AKIA" in text]


def test_a_reason_is_one_line_without_queries_and_secrets() -> None:
    reasons = ErrorReasons({"secret_access_key": SECRET, "region": "us-east-1", "token": "abc"})
    error = ValueError(f"GET https://host/b?sig={SECRET} failed in us-east-1: bad key {SECRET}\nDebug: abc")
    assert reasons.of(error) == "GET https://host/b?… failed in us-east-1: bad key …"
    assert reasons.of(ValueError()) == "ValueError"
