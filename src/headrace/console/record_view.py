"""A topic's records as one person sees them: read by their schemas, without what is hidden from that person.

Pages, downloads and filters all go through here, so that nobody finds by searching what a page would hide.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from headrace.clients import ConsumerRecord
from headrace.console.masks import HIDDEN, TopicMask
from headrace.console.payload_reader import Headers, PayloadReader, ReadPayload, SchemaName

ABSENT: Final = object()
"""In place of a document where bytes are none."""


@dataclass(frozen=True, slots=True)
class SeenPayload:
    """A key, value or header as it may be seen. `data` are its bytes, None where they are hidden; `document`
    is what a schema or a mask has made of it.
    """

    data: bytes | None
    document: Any = ABSENT
    schema: SchemaName | None = None
    error: str = ""

    @property
    def is_masked(self) -> bool:
        return self.data is None

    def searched(self) -> bytes:
        """Where words are looked for."""
        if self.data is not None:
            return self.data
        return HIDDEN.encode() if self.document is ABSENT else json_text(self.document).encode()


def json_text(document: Any) -> str:
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class RecordView:
    """See above."""

    reader: PayloadReader = field(default_factory=PayloadReader)
    mask: TopicMask | None = None

    async def learn(self, records: Iterable[ConsumerRecord]) -> None:
        """To be called before any of these is seen."""
        await self.reader.learn(records)

    def part(self, name: str, data: bytes | None, headers: Headers) -> SeenPayload | None:
        """The `key` or the `value` of a record."""
        if data is None:
            return None
        if self.mask is not None and name == "key" and self.mask.keys:
            return SeenPayload(None)
        read = self.reader.read(name, data, headers)
        found = SeenPayload(data) if read is None else SeenPayload(data, _of(read), read.name, read.error)
        if self.mask is None or name == "key" or not self.mask.fields:
            return found
        document = _json(data) if found.document is ABSENT else found.document
        if not isinstance(document, dict | list):
            return SeenPayload(None, ABSENT, found.schema)
        return SeenPayload(None, self.mask.of_document(document), found.schema)

    def header(self, name: str, value: bytes | None) -> SeenPayload | None:
        if value is None:
            return None
        return SeenPayload(None if self.mask is not None and name in self.mask.headers else value)

    def document(self, record: ConsumerRecord) -> Any:
        """The value as conditions on its fields see it; ABSENT where it has none."""
        seen = self.part("value", record.value, record.headers)
        if seen is None:
            return ABSENT
        if seen.document is ABSENT and seen.data is not None:
            return _json(seen.data)
        return seen.document


def _of(read: ReadPayload) -> Any:
    return ABSENT if read.error else read.document


def _json(data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return ABSENT
