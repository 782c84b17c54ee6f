"""Writes what people type by a schema: a document becomes Avro or Protobuf with the schema's id before it."""

import asyncio
import base64
import binascii
from collections.abc import Mapping
from typing import Any

from headrace.console.http_server import RefusedCallError
from headrace.schemas.document_writing import written
from headrace.schemas.errors import RegistryError
from headrace.schemas.registry import Registry
from headrace.schemas.wire_format import read_head, read_indexes


async def written_by_schema(registry: Registry | None, given: Mapping[str, Any], name: str) -> bytes:
    """`given` has `json`, a text, and `schema`, an id; `like` are bytes whose Protobuf message it is too.

    RefusedCallError where it does not fit the schema.
    """
    text, schema = given.get("json"), given.get("schema")
    if registry is None:
        raise RefusedCallError(409, "no registry is known: start the console with --schema-registry")
    if not isinstance(text, str) or not isinstance(schema, int) or isinstance(schema, bool):
        raise RefusedCallError(400, f"{name!r} must have a text and a schema's number")
    try:
        return await asyncio.to_thread(_written, registry, text, schema, given.get("like"))
    except RegistryError as error:
        raise RefusedCallError(502, str(error)) from None
    except (ValueError, KeyError) as error:
        raise RefusedCallError(400, f"the {name} does not fit schema {schema}: {error}") from None


def _written(registry: Registry, text: str, schema_id: int, like: Any) -> bytes:
    schema = registry.by_id(schema_id)
    indexes: tuple[int, ...] = (0,)
    if schema.kind == "PROTOBUF" and isinstance(like, str):
        indexes = _indexes(like)
    return written(schema, text, indexes)


def _indexes(like: str) -> tuple[int, ...]:
    """Of the message that these bytes are."""
    try:
        data = base64.b64decode(like, validate=True)
        return read_indexes(data, read_head(data).start)[0]
    except (ValueError, binascii.Error):
        return (0,)
