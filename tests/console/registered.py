"""Topics with values that confluent's own serializers have written, for tests of the console."""

import json
from typing import Any

from confluent_kafka.schema_registry import SchemaRegistryClient, header_schema_id_serializer
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from headrace.clients import Admin, Producer
from headrace.schemas.proto_schemas import descriptor_set, message_class
from headrace.schemas.registry import RegisteredSchema
from tests.schemas.schema_registry import SchemaRegistry

CARD = {"type": "record", "name": "Card", "fields": [{"name": "number", "type": "string"}]}
PAYMENT = {
    "type": "record",
    "name": "Payment",
    "fields": [{"name": "n", "type": "long"}, {"name": "card", "type": CARD}],
}
SECOND = {**PAYMENT, "fields": [*PAYMENT["fields"], {"name": "note", "type": "string", "default": ""}]}
PROTO = 'syntax = "proto3"; package shop; message Order { int64 n = 1; } message Refund { string why = 1; }'
JSON_SCHEMA = json.dumps({"title": "Day", "type": "object", "properties": {"n": {"type": "integer"}}})

AVRO_TOPIC, PROTO_TOPIC, JSON_TOPIC, HEADER_TOPIC = "payments", "orders-proto", "days", "by-header"


def fill_registered(bootstrap: str, double: SchemaRegistry) -> None:
    """Ten Avro payments, two Protobuf messages, a JSON document, and both by GUIDs in headers."""
    client = SchemaRegistryClient({"url": double.url})
    avro = AvroSerializer(client, json.dumps(PAYMENT))
    files = descriptor_set(RegisteredSchema(1, "PROTOBUF", PROTO))
    order, refund = (message_class(files, f"shop.{name}") for name in ("Order", "Refund"))
    conf = {"use.deprecated.format": False}
    with Admin(bootstrap_servers=bootstrap) as admin, Producer(bootstrap_servers=bootstrap) as producer:
        for topic in (AVRO_TOPIC, PROTO_TOPIC, JSON_TOPIC, HEADER_TOPIC, "written", "odd", "by-hand"):
            admin.create_topic(topic, partitions=1)

        def send(topic: str, serializer: Any, value: Any) -> None:
            headers: list[tuple[str, bytes]] = []
            context = SerializationContext(topic, MessageField.VALUE, headers)
            producer.send(topic, serializer(value, context), key=b"k", headers=tuple(headers))

        for n in range(10):
            send(AVRO_TOPIC, avro, {"n": n, "card": {"number": f"4000-{n}"}})
        send(PROTO_TOPIC, ProtobufSerializer(order, client, conf), order(n=1 << 60))
        send(PROTO_TOPIC, ProtobufSerializer(refund, client, conf), refund(why="late"))
        send(JSON_TOPIC, JSONSerializer(JSON_SCHEMA, client), {"n": 5})
        by_header = {"schema.id.serializer": header_schema_id_serializer}
        send(
            HEADER_TOPIC,
            AvroSerializer(client, json.dumps(PAYMENT), conf=by_header),
            {"n": 7, "card": {"number": "1"}},
        )
        send(HEADER_TOPIC, ProtobufSerializer(refund, client, conf | by_header), refund(why="lost"))
        producer.flush()
    double.add(f"{AVRO_TOPIC}-value", json.dumps(SECOND))
