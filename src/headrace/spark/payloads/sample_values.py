"""Values of samples: JSON that a person has written, as the bytes that the payload would have."""

import json
from io import StringIO
from typing import TYPE_CHECKING, Any

from headrace.schemas.avro_schemas import parsed_schema
from headrace.schemas.proto_schemas import descriptor_set, message_class, message_indexes
from headrace.schemas.wire_format import head_bytes, indexes_bytes
from headrace.spark.payloads import avro, protobuf
from headrace.spark.payloads.json_schema import RegisteredJson

if TYPE_CHECKING:
    from headrace.spark.payloads import Payload


def sample_value(payload: "Payload", text: bytes) -> bytes:
    """The text itself where it is no JSON, so that a sample can be a value that cannot be parsed."""
    try:
        json.loads(text)
    except ValueError:
        return text
    if isinstance(payload, RegisteredJson):
        return head_bytes(payload.schema.id) + text
    if isinstance(payload, avro.Avro):
        return _avro(text, parsed_schema(payload.schema), b"")
    if isinstance(payload, avro.RegisteredAvro):
        schema = payload.schema
        return _avro(text, parsed_schema(schema.text, schema.references), head_bytes(schema.id))
    if isinstance(payload, protobuf.Protobuf):
        return _protobuf(text, payload.descriptor_set, payload.message, b"")
    if isinstance(payload, protobuf.RegisteredProtobuf):
        files = descriptor_set(payload.schema)
        name = protobuf.registered_message(payload.schema, payload.message)
        head = head_bytes(payload.schema.id) + indexes_bytes(message_indexes(files, name))
        return _protobuf(text, files, name, head)
    return text


def _avro(text: bytes, form: Any, head: bytes) -> bytes:
    import fastavro

    [row] = fastavro.json_reader(StringIO(text.decode()), form)
    return head + avro.written(form, row)


def _protobuf(text: bytes, files: bytes, name: str, head: bytes) -> bytes:
    from google.protobuf import json_format

    message = json_format.Parse(text, message_class(files, name)())
    return head + bytes(message.SerializeToString())
