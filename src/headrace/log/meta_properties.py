"""`meta.properties`: which cluster, node and directory a log directory belongs to.

A Java properties file of version 1 with `cluster.id`, `node.id` and `directory.id` (KIP-858). Formatting
writes it once; a node refuses a directory of another cluster or node rather than mixing their data.
"""

from dataclasses import dataclass
from typing import Final

from headrace.base.errors import InvalidBytesError
from headrace.base.ids import uuid_bytes, uuid_text

VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class MetaProperties:
    """A log directory's identity; `directory_id` is 16 raw bytes."""

    cluster_id: str
    node_id: int
    directory_id: bytes

    def encode(self) -> bytes:
        directory_id = uuid_text(self.directory_id)
        lines = (
            f"cluster.id={self.cluster_id}",
            f"directory.id={directory_id}",
            f"node.id={self.node_id}",
            f"version={VERSION}",
        )
        return ("\n".join(lines) + "\n").encode()


def decode_meta_properties(data: bytes) -> MetaProperties:
    """InvalidBytesError says what is missing or wrong."""
    fields: dict[str, str] = {}
    for line in data.decode("utf-8", "replace").splitlines():
        if line.strip() and not line.startswith(("#", "!")):
            name, _, value = line.partition("=")
            fields[name.strip()] = value.strip()
    version = fields.get("version")
    if version != str(VERSION):
        raise InvalidBytesError(
            f"meta.properties has version {version!r}: only {VERSION}, that of KRaft, is known"
        )
    for name in ("cluster.id", "node.id", "directory.id"):
        if not fields.get(name):
            raise InvalidBytesError(f"meta.properties has no {name}: format the directory")
    try:
        return MetaProperties(
            fields["cluster.id"], int(fields["node.id"]), uuid_bytes(fields["directory.id"])
        )
    except ValueError as error:
        raise InvalidBytesError(f"meta.properties: {error}") from None
