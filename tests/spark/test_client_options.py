"""Settings of clients on their way to source and sink, and which options are secrets."""

import re
from collections.abc import Mapping

import pytest

from headrace.clients.config import TABLES
from headrace.settings.definition import ConfigType
from headrace.spark.client_options import ClusterOptions, client_settings_of
from headrace.spark.options import read_options, write_options
from headrace.spark.secret_options import REDACTION, STATEMENT_REDACTION, is_secret

FILE = {
    "bootstrap.servers": "ignored:1",
    "security.protocol": "SASL_SSL",
    "sasl.jaas.config": "x",
    "ssl.keystore.key": "y",
    # For the commands' own clients.
    "acks": "1",
    "enable.idempotence": "false",
    "transactional.id": "t",
    "auto.offset.reset": "earliest",
    "group.id": "g",
    "enable.auto.commit": "true",
    "linger.ms": "7",
    "isolation.level": "read_committed",
}
SECURITY = {"security.protocol": "SASL_SSL", "sasl.jaas.config": "x", "ssl.keystore.key": "y"}
CLUSTER = ClusterOptions("h:1", FILE)


def test_each_side_takes_what_it_knows() -> None:
    source = read_options({**CLUSTER.of_source({}), "subscribe": "a"}, streaming=True)
    assert source.settings == {**SECURITY, "bootstrap.servers": "h:1", "isolation.level": "read_committed"}
    assert source.group_id is None
    assert source.admin_settings == {**SECURITY, "bootstrap.servers": "h:1"}
    sink = write_options({**CLUSTER.of_sink({}), "topic": "a"})
    assert sink.settings == {**SECURITY, "bootstrap.servers": "h:1", "linger.ms": "7"}
    assert "y" not in re.findall(r"\w+", repr((source, sink, CLUSTER)))


def test_own_options_win() -> None:
    own = {"kafka.SASL.jaas.config": "own", "startingOffsets": "latest"}
    found = client_settings_of(CLUSTER.of_source(own))
    assert found["sasl.jaas.config"] == "own"
    assert found["security.protocol"] == "SASL_SSL"


@pytest.mark.parametrize("name", ["kafka.bootstrap.servers", "Kafka.Bootstrap.Servers"])
def test_other_brokers_hear_nothing_of_this_cluster(name: str) -> None:
    own = {name: "elsewhere:1", "kafka.sasl.password": "theirs"}
    assert CLUSTER.of_source(own) == CLUSTER.of_sink(own) == own
    assert CLUSTER.beside_source(own) == {}


def test_dead_letters_log_in_as_their_input_does() -> None:
    own = {
        "kafka.bootstrap.servers": "h:1",
        "kafka.sasl.Password": "p",
        "kafka.fetch.max.bytes": "5",
        "maxOffsetsPerTrigger": "5",
    }
    assert CLUSTER.beside_source(own) == {"kafka.sasl.password": "p"}


def clients_secrets() -> Mapping[str, str]:
    return {
        name: kind
        for kind, table in TABLES.items()
        for name, setting in table.items()
        if setting.kind is ConfigType.PASSWORD
    }


def test_all_secrets_of_all_clients_are_known_and_hidden_by_spark() -> None:
    names = clients_secrets()
    assert {"ssl.keystore.key", "sasl.jaas.config", "sasl.password"} <= set(names)
    [redacted] = REDACTION.values()
    for name in names:
        assert is_secret(f"kafka.{name}".upper())
        assert re.search(redacted, f"kafka.{name}")
    for name in ("kafka.bootstrap.servers", "kafka.ssl.keystore.location", "subscribe", "topic", "queryName"):
        assert not is_secret(name)
        assert not re.search(redacted, name)


@pytest.mark.parametrize(
    ("option", "is_hidden"),
    [
        ("store.account.key", True),
        ("store.sas", True),
        ("store.url", False),
        ("store.class.name", False),
        ("store.allow.http", False),
    ],
)
def test_of_a_store_everything_is_secret_that_is_not_known_to_be_harmless(
    option: str, is_hidden: bool
) -> None:
    assert is_secret(option) == is_hidden


def test_a_connect_servers_statements_hide_them_too() -> None:
    """Which are in protobuf's text format."""
    statement = (
        'options {\n  key: "kafka.SASL.jaas.config"\n  value: "user=\\"u\\" password=\\"p\\";\\nx"\n}\n'
    )
    others = 'options {\n  key: "subscribe"\n  value: "orders"\n}\n'
    assert re.sub(STATEMENT_REDACTION, "…", statement + others) == "options {\n  …\n}\n" + others
