"""Values that confluent's serializers wrote, read by a registry; its subjects; and what masks hide."""

import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.clients import Consumer, Producer
from headrace.console.cluster_connection import ClusterSpec
from headrace.console.cluster_extras import read_extras
from headrace.console.masks import HIDDEN
from headrace.settings.definition import SettingError
from headrace.testing.cluster import Cluster
from tests.console.registered import (
    AVRO_TOPIC,
    HEADER_TOPIC,
    JSON_TOPIC,
    PAYMENT,
    PROTO_TOPIC,
    fill_registered,
)
from tests.console.visitors import Visitor, running_console
from tests.schemas.schema_registry import SchemaRegistry

MASKS = {
    "mask.cards.topics": "payments|by-.*",
    "mask.cards.fields": "card.number, **.why",
    "mask.cards.headers": "secret",
    "mask.cards.unless": "auditor",
}


@pytest.fixture(scope="module")
def double() -> Iterator[SchemaRegistry]:
    with SchemaRegistry("reader:secret") as double:
        yield double


@pytest.fixture(scope="module")
def bootstrap(double: SchemaRegistry) -> Iterator[str]:
    with Cluster() as cluster:
        double.user_info = None
        fill_registered(cluster.bootstrap_servers, double)
        double.user_info = "reader:secret"
        yield cluster.bootstrap_servers


@pytest.fixture(scope="module")
def address(bootstrap: str, double: SchemaRegistry) -> Iterator[tuple[str, int]]:
    """Three consoles' worth of clusters: with a registry, with masks too, and without either."""
    registry = {
        "schema.registry.url": double.url,
        "schema.registry.basic.auth.credentials.source": "USER_INFO",
        "schema.registry.basic.auth.user.info": "reader:secret",
    }
    settings = {"bootstrap.servers": bootstrap}
    specs = [
        ClusterSpec("c", settings, extras=read_extras(registry)),
        ClusterSpec("masked", settings, extras=read_extras({**registry, **MASKS})),
        ClusterSpec("bare", settings),
    ]
    with running_console(specs) as address:
        yield address


@pytest.fixture
def visitor(address: tuple[str, int]) -> Visitor:
    return Visitor(address)


def values(visitor: Visitor, topic: str, query: str = "") -> list[object]:
    found = visitor.get(f"topics/{topic}/messages?from=oldest{query}")["records"]
    assert all(each["value"]["kind"] == "json" for each in found), found
    return [json.loads(each["value"]["data"]) for each in found]


def test_values_of_other_serializers_are_read(visitor: Visitor) -> None:
    avro = values(visitor, AVRO_TOPIC)
    assert avro[3] == {"n": 3, "card": {"number": "4000-3"}}
    assert len(avro) == 10
    assert values(visitor, PROTO_TOPIC) == [{"n": 1 << 60}, {"why": "late"}]
    assert values(visitor, JSON_TOPIC) == [{"n": 5}]
    assert values(visitor, HEADER_TOPIC) == [{"n": 7, "card": {"number": "1"}}, {"why": "lost"}]


def test_conditions_see_what_is_read(visitor: Visitor) -> None:
    assert [each["n"] for each in values(visitor, AVRO_TOPIC, "&json=n%20%3E%207")] == [8, 9]  # type: ignore[index]
    assert values(visitor, PROTO_TOPIC, "&json=why%20%3D%20late") == [{"why": "late"}]


def test_what_cannot_be_read_says_why(visitor: Visitor, address: tuple[str, int], bootstrap: str) -> None:
    [first, *_] = Visitor(address, "bare").get(f"topics/{AVRO_TOPIC}/messages?from=oldest")["records"]
    assert first["value"]["kind"] == "bytes"
    assert first["value"]["schema"] == 1
    assert first["value"]["error"] == "no registry is known"
    with Producer(bootstrap_servers=bootstrap) as producer:
        for value in (b"\0\0\0\x03\xe7rest", b"\0\0\0\0\1", b"\0\0\0\0\1" + b"\xff" * 20):
            producer.send("odd", value)
        producer.flush()
    errors = [each["value"]["error"] for each in visitor.get("topics/odd/messages?from=oldest")["records"]]
    assert "has no schema 999" in errors[0]
    assert "not a value of the schema" in errors[1]
    assert "not a value of the schema" in errors[2]


def test_a_document_is_written_by_its_schema(visitor: Visitor, bootstrap: str) -> None:
    document = json.dumps({"n": 1, "card": {"number": "x"}})
    body = {"key": "k", "value": {"json": document, "schema": 1}}
    written = visitor.change("POST", "topics/written/messages", body)
    assert values(visitor, "written") == [json.loads(document)]
    with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign(list(consumer.partitions_for("written")))
        records = consumer.poll(30)
    assert records[written["offset"]].value == b"\0\0\0\0\1" + b"\x02\x02x"
    code, why = visitor.refused("POST", "topics/written/messages", {"value": {"json": "{}", "schema": 1}})
    assert (code, why) == (
        400,
        "the value does not fit schema 1: the value should be with a field 'n', and is {}",
    )


def test_masked_fields_are_neither_seen_nor_found(address: tuple[str, int], bootstrap: str) -> None:
    with Producer(bootstrap_servers=bootstrap) as producer:
        producer.send("by-hand", b"the card is 4000", headers=(("secret", b"4000"), ("open", b"x")))
        producer.send("by-hand", b'{"card": [{"number": "4000", "of": "ann"}]}').result(30)
    visitor = Visitor(address, "masked")
    assert values(visitor, AVRO_TOPIC)[3] == {"n": 3, "card": {"number": HIDDEN}}
    for query in ("q=4000", "value=4000", "json=card.number%20~%204000"):
        assert visitor.get(f"topics/{AVRO_TOPIC}/messages?from=oldest&{query}")["records"] == [], query
    assert len(values(visitor, AVRO_TOPIC, "&json=n%20%3E%207")) == 2
    assert values(visitor, HEADER_TOPIC)[1] == {"why": HIDDEN}
    text, document = visitor.get("topics/by-hand/messages?from=oldest")["records"]
    assert text["value"] == {"size": 16, "kind": "text", "data": HIDDEN, "masked": True}
    assert [each["value"]["data"] for each in text["headers"]] == [HIDDEN, "x"]
    assert document["value"]["data"] == json.dumps(
        {"card": [{"number": HIDDEN, "of": "ann"}]}, ensure_ascii=False
    ).replace(": ", ":").replace(", ", ",")
    for query in ("q=4000", "header=secret%3D4000", "value=card%20is"):
        assert visitor.get(f"topics/by-hand/messages?from=oldest&{query}")["records"] == [], query
    reply, content = visitor.send("GET", "/api/clusters/masked/topics/by-hand/value?partition=0&offset=1")
    assert reply.status == 200
    assert b"4000" not in content
    assert HIDDEN.encode() in content
    assert "4000" not in json.dumps(visitor.events(f"topics/{AVRO_TOPIC}/keys?time=9999999999999"))


def test_subjects_versions_and_levels(visitor: Visitor, double: SchemaRegistry) -> None:
    found = visitor.get("schemas")
    assert found["level"] == "BACKWARD"
    assert {"name": "payments-value", "topic": "payments"} in found["subjects"]
    subject = visitor.get("schemas/subjects/payments-value")
    assert subject["versions"] == [1, 2]
    assert json.loads(visitor.get("schemas/subjects/payments-value/versions/1")["text"]) == PAYMENT
    assert visitor.get("schemas/ids/1")["used"][0] == {"subject": "payments-value", "version": 1}
    visitor.change("POST", "schemas/subjects/payments-value/level", {"level": "FULL"})
    assert visitor.get("schemas/subjects/payments-value")["level"] == "FULL"
    visitor.change("POST", "schemas/subjects/payments-value/level", {"level": None})
    assert visitor.get("schemas/subjects/payments-value")["level"] is None
    double.incompatible.add("payments-value")
    given = {"kind": "AVRO", "text": '"string"'}
    assert visitor.change("POST", "schemas/subjects/payments-value/check", given)["misfits"]
    code, why = visitor.refused("POST", "schemas/subjects/payments-value", given)
    assert code == 409
    assert "incompatible with an earlier schema" in why


def test_changes_of_schemas_are_confirmed_and_told(
    visitor: Visitor, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "headrace.console.audit")
    made = visitor.change("POST", "schemas/subjects/new-value", {"kind": "AVRO", "text": '"long"'})["id"]
    assert visitor.change("POST", "schemas/subjects/new-value/check", {"kind": "AVRO", "text": '"int"'}) == {
        "misfits": []
    }
    assert visitor.refused("DELETE", "schemas/subjects/new-value", {"confirm": "new"})[0] == 400
    visitor.change("DELETE", "schemas/subjects/new-value", {"confirm": "new-value"})
    assert visitor.refused("GET", "schemas/subjects/new-value")[0] == 404
    told = [json.loads(each.getMessage()) for each in caplog.records if each.name == "headrace.console.audit"]
    assert [(each["change"], each["result"][:7], each["on"].get("schema")) for each in told] == [
        ("register schema", "done", made),
        ("delete subject", "refused", None),
        ("delete subject", "done", None),
    ]


def test_a_folder_of_schemas_is_a_registry_that_is_read(tmp_path: Path, bootstrap: str) -> None:
    (tmp_path / "payments-value").mkdir()
    (tmp_path / "payments-value/1.avsc").write_text(json.dumps(PAYMENT))
    extras = read_extras({"schema.registry.url": str(tmp_path)})
    with running_console([ClusterSpec("c", {"bootstrap.servers": bootstrap}, extras=extras)]) as address:
        visitor = Visitor(address)
        assert values(visitor, AVRO_TOPIC)[0] == {"n": 0, "card": {"number": "4000-0"}}
        assert visitor.get("schemas")["can_change"] is False
        assert visitor.get("schemas/subjects/payments-value")["newest"]["id"] == 1
        assert "is a folder" in visitor.refused("POST", "schemas/level", {"level": "FULL"})[1]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"schema.registry.basic.auth.user.info": "a:b"}, "says nothing without"),
        ({"schema.registry.uri": "http://127.0.0.1"}, "no such setting"),
        ({"schema.registry.url": "nowhere"}, "nor a folder"),
        ({"mask.a.fields": "x"}, "needs the topics"),
        ({"mask.a.topics": "("}, "no regular expression"),
        ({"mask.a.topics": "x"}, "hides nothing"),
        ({"mask.a.topic": "x"}, r"a rule is mask\.NAME"),
    ],
)
def test_settings_that_say_nothing_are_refused(settings: dict[str, str], said: str) -> None:
    with pytest.raises(SettingError, match=said):
        read_extras(settings)
