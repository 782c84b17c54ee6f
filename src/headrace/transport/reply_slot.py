"""The place of one reply among the replies of its connection: they leave in the order of their requests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.base.chunks import Chunks, chunks_size

if TYPE_CHECKING:
    from headrace.transport.connection import Connection
    from headrace.transport.sending import SendWatch


class ReplySlot:
    """Begun with the request, filled when its reply is there."""

    __slots__ = ("_connection", "chunks", "size", "watch")

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.chunks: Chunks | None = None
        self.size = 0
        self.watch: SendWatch | None = None

    def send(self, chunks: Chunks, watch: SendWatch | None = None) -> None:
        """Fill the slot, once. No chunks: no reply. Nothing happens on a closed connection."""
        assert self.chunks is None, "a slot takes one reply"
        self.chunks = chunks
        self.size = chunks_size(chunks)
        self.watch = watch
        self._connection.slot_filled(self)
