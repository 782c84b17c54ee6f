"""`meta.properties`: which cluster, node and directory a log directory belongs to.

A Java properties file of version 1 with `cluster.id`, `node.id` and `directory.id` (KIP-858). Formatting
writes it once; a node refuses a directory of another cluster or node rather than mixing their data. A comment
has the checksum of the other lines, for another letter makes another id.
"""

from dataclasses import dataclass
from typing import Final

from crc32c import crc32c

from headrace.base.errors import InvalidBytesError
from headrace.base.ids import uuid_bytes, uuid_text

VERSION: Final = 1
CHECKSUM: Final = "# crc32c="
NAMES: Final = frozenset({b"cluster.id", b"directory.id", b"node.id", b"version", b"broker.id"})


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
        data = ("\n".join(lines) + "\n").encode()
        return data + f"{CHECKSUM}{crc32c(data):08x}\n".encode()


def decode_meta_properties(data: bytes) -> MetaProperties:
    """InvalidBytesError says what is missing or wrong."""
    _check(data)
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


def _check(data: bytes) -> None:
    """InvalidBytesError where the last line is neither one that Apache Kafka writes nor the checksum of the
    others."""
    body, _, last = data.rstrip(b"\n").rpartition(b"\n")
    if last.partition(b"=")[0].strip() in NAMES:
        return
    checksum = crc32c(body + b"\n")
    if last != f"{CHECKSUM}{checksum:08x}".encode():
        raise InvalidBytesError(
            "meta.properties does not have the checksum of its last line: who has edited it removes that line"
        )
