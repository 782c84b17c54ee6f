"""Schemas of what is inside records: a registry's or a folder's, by their ids, and how values name theirs.

`registry.py` asks, `wire_format.py` reads what values begin with, `avro_schemas.py` and `proto_schemas.py`
make of a schema's text what the formats' libraries read; `subjects.py` is what people look at and change.
Spark's payloads and the console are built on it. What reads a format is an extra, asked for when a schema of
that format is read.
"""
