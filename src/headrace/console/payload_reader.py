"""Reads keys and values whose schemas a registry has, by the id that they begin with or that a header has.

Asking a registry blocks, and decoding does not: `learn` asks, in a thread, for what a batch of records needs
and nobody knows yet; `read` works with what is known. What an id means never changes, so it is asked for
once; what a registry does not have, or cannot tell now, is asked for again after a while. A value that
cannot be read is bytes like any other, with the reason beside it.
"""

import asyncio
import time
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple
from uuid import UUID

from headrace.clients import ConsumerRecord
from headrace.schemas.documents import ReadDocument, document_reader
from headrace.schemas.errors import RegistryError
from headrace.schemas.registry import Registry
from headrace.schemas.wire_format import HEAD_BYTES

KNOWN_MAX: Final = 5_000
FAILED_S: Final = 30.0
ASKED_MAX: Final = 50
"""Ids of one batch that are asked for: a topic of arbitrary bytes has a new one in each record."""
ID_MAX: Final = 10_000_000
"""Registries count from 1: a larger number is something else."""

_HEADERS: Final = {"key": "__key_schema_id", "value": "__value_schema_id"}
"""Where newer serializers put what older ones put before the payload."""
_BY_ID, _BY_GUID = 0, 1
_GUID_BYTES: Final = 16

Headers = Sequence[tuple[str, bytes | None]]


class SchemaName(NamedTuple):
    """How a payload names its schema: by a number or a GUID; where the payload begins; and the path to a
    Protobuf message, where that is in the header too.
    """

    schema: int | str
    start: int
    path: bytes = b""


class ReadPayload(NamedTuple):
    """A document, or why there is none."""

    name: SchemaName
    document: Any = None
    error: str = "no registry is known"


class _Unknown(NamedTuple):
    error: str
    until_s: float


def schema_name(part: str, data: bytes, headers: Headers) -> SchemaName | None:
    """None where it names none."""
    for name, value in headers:
        if name == _HEADERS[part] and value:
            if value[0] == _BY_GUID and len(value) > _GUID_BYTES:
                guid = str(UUID(bytes=bytes(value[1 : 1 + _GUID_BYTES])))
                return SchemaName(guid, 0, bytes(value[1 + _GUID_BYTES :]))
            if value[0] == _BY_ID and len(value) >= HEAD_BYTES:
                number = int.from_bytes(value[1:HEAD_BYTES], "big")
                return SchemaName(number, 0, bytes(value[HEAD_BYTES:]))
    if data[:1] == b"\0" and len(data) >= HEAD_BYTES:
        number = int.from_bytes(data[1:HEAD_BYTES], "big")
        if 0 < number <= ID_MAX:
            return SchemaName(number, HEAD_BYTES)
    return None


class PayloadReader:
    """See above. Without a registry it reads nothing."""

    def __init__(self, registry: Registry | None = None) -> None:
        self.registry = registry
        self._known: dict[int | str, ReadDocument | _Unknown] = {}

    async def learn(self, records: Iterable[ConsumerRecord]) -> None:
        """Ask for the schemas that these need."""
        if self.registry is None:
            return
        wanted: dict[int | str, None] = {}
        for record in records:
            for part, data in (("key", record.key), ("value", record.value)):
                name = schema_name(part, data, record.headers) if data is not None else None
                if name is not None and self._is_wanted(name.schema):
                    wanted[name.schema] = None
        if wanted:
            await asyncio.to_thread(self._ask, list(wanted)[:ASKED_MAX])

    def _is_wanted(self, schema: int | str) -> bool:
        known = self._known.get(schema)
        return known is None or (isinstance(known, _Unknown) and known.until_s <= time.monotonic())

    def _ask(self, schemas: list[int | str]) -> None:
        assert self.registry is not None, "it was checked"
        unreachable = ""
        for each in schemas:
            if len(self._known) >= KNOWN_MAX:
                self._known.clear()
            try:
                if unreachable:
                    raise RegistryError(unreachable)
                by_id = self.registry.by_id
                found = by_id(each) if isinstance(each, int) else self.registry.by_guid(each)
                self._known[each] = document_reader(found)
            except RegistryError as error:
                unreachable = str(error)  # it is not waited for once for each id
                self._known[each] = _Unknown(unreachable, time.monotonic() + FAILED_S)
            except (ValueError, KeyError, TypeError) as error:
                self._known[each] = _Unknown(str(error), time.monotonic() + FAILED_S)

    def read(self, part: str, data: bytes | None, headers: Headers) -> ReadPayload | None:
        """None where it names no schema; what has not been learnt is not known."""
        name = schema_name(part, data, headers) if data is not None else None
        if name is None:
            return None
        if self.registry is None:
            return ReadPayload(name)
        assert data is not None, "it has a name"
        known = self._known.get(name.schema)
        if known is None or isinstance(known, _Unknown):
            return ReadPayload(name, error=known.error if known else "its schema has not been asked for")
        try:
            return ReadPayload(name, known(data[name.start :], name.path), "")
        except (ValueError, RecursionError) as error:
            return ReadPayload(name, error=str(error))
