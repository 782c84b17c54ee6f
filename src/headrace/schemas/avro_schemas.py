"""Avro schemas as registries have them, read by the `fastavro` library, with what they refer to."""

import json
from functools import lru_cache
from typing import Any

from headrace.schemas.errors import PayloadError


@lru_cache(maxsize=1024)
def parsed_schema(schema: str, references: tuple[tuple[str, str], ...] = ()) -> Any:
    """PayloadError where it is none, or nobody here can read one."""
    try:
        import fastavro
    except ImportError:
        raise PayloadError("Avro schemas need fastavro: pip install fastavro") from None

    names: dict[str, Any] = {}
    try:
        for _, text in references:
            fastavro.parse_schema(_without_uuids(json.loads(text)), named_schemas=names)
        return fastavro.parse_schema(_without_uuids(json.loads(schema)), named_schemas=names)
    except (ValueError, fastavro.schema.SchemaParseException, fastavro.schema.UnknownType) as error:
        raise PayloadError(f"this is not an Avro schema: {error}") from error


def _without_uuids(form: Any) -> Any:
    """fastavro makes objects of them that no column or page takes; as text they are what was written."""
    if isinstance(form, list):
        return [_without_uuids(each) for each in form]
    if not isinstance(form, dict):
        return form
    is_uuid = form.get("logicalType") == "uuid"
    return {
        name: each if name == "default" else _without_uuids(each)
        for name, each in form.items()
        if not (is_uuid and name == "logicalType")
    }
