"""Where a transactional producer stands, and what it may do there."""

from collections.abc import Awaitable, Callable
from enum import Enum
from typing import Final, NamedTuple

from headrace.clients.errors import ClientError


class Phase(Enum):
    """Where a transactional producer stands; the values complete "the producer …"."""

    NEW = "has not called init_transactions yet"
    READY = "has no open transaction"
    OPEN = "has an open transaction"
    PREPARED = "has a prepared transaction"
    COMMITTING = "is committing"
    ABORTING = "is aborting"
    ABORTABLE = "has a transaction that can only be aborted"
    FATAL = "can do nothing more"


# A commit or an abort whose answer did not come in time may be asked for again, but not be turned round.
MAY: Final = {
    "init_transactions": {Phase.NEW},
    "begin_transaction": {Phase.READY},
    "send": {Phase.OPEN},
    "send_offsets_to_transaction": {Phase.OPEN},
    "prepare_transaction": {Phase.OPEN},
    "commit_transaction": {Phase.OPEN, Phase.PREPARED, Phase.COMMITTING},
    "abort_transaction": {Phase.OPEN, Phase.PREPARED, Phase.ABORTABLE, Phase.ABORTING},
}


class PreparedTransaction(NamedTuple):
    """Names a prepared transaction, for whoever decides about it. `str` of it can be stored."""

    producer_id: int
    epoch: int

    def __str__(self) -> str:
        return f"{self.producer_id}:{self.epoch}"

    @classmethod
    def parse(cls, text: str) -> "PreparedTransaction":
        producer_id, _, epoch = text.partition(":")
        return cls(int(producer_id), int(epoch))


class Writes(NamedTuple):
    """What a transaction asks of the producer's batches."""

    seal: Callable[[], None]  # take no more rows into what is begun
    drain: Callable[[], Awaitable[None]]  # return when everything is decided
    drop: Callable[[ClientError], None]  # give up what is not on the wire
