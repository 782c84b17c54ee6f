"""What is decided about the batches of a sink, as records of one topic.

A *claim* says which run of a query writes now; a *decision* says which transactions hold a batch. Only the
run that claimed last can decide, because claims and decisions are written under one transactional id: whoever
takes it up fences the others, and then reads all that was decided before it writes. So a run that was thought
dead and comes back can decide nothing, and a batch is decided once.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

TOPIC: Final = "_headrace_sink_decisions"
PREFIX: Final = "headrace-sink/"
"""Of all transactional ids; the sink's own follows, and decides, its tasks' have more behind another `/`."""
PARTITIONS: Final = 8
"""Those that are used; the first so many, however many there are."""


class SinkTransaction(NamedTuple):
    """A transaction that a task has left open; whoever knows it can end it."""

    transactional_id: str
    producer_id: int
    epoch: int


@dataclass(frozen=True, slots=True)
class Decision:
    """A batch is what these transactions hold, and nothing else."""

    run: str
    query: str
    batch: int
    transactions: tuple[SinkTransaction, ...]

    def is_about(self, query: str, batch: int) -> bool:
        return (self.query, self.batch) == (query, batch)


@dataclass(slots=True)
class SinkState:
    """What stands about one sink."""

    run: str | None = None
    superseded: set[str] = field(default_factory=set)
    decision: Decision | None = None


def claim_record(sink: str, run: str) -> tuple[bytes, bytes]:
    """Key and value; the topic keeps the last of each key."""
    return _key(sink, "claim"), _text({"run": run})


def decision_record(sink: str, decision: Decision) -> tuple[bytes, bytes]:
    """Key and value."""
    content = {
        "run": decision.run,
        "query": decision.query,
        "batch": decision.batch,
        "transactions": decision.transactions,
    }
    return _key(sink, "decision"), _text(content)


def take_in(state: SinkState, sink: str, key: bytes | None, value: bytes | None) -> None:
    """Let a record of the topic change what stands; others' records change nothing."""
    if value is None:
        return
    if key == _key(sink, "claim"):
        run = json.loads(value)["run"]
        if state.run not in (None, run):
            state.superseded.add(str(state.run))
        state.superseded.discard(run)
        state.run = run
    elif key == _key(sink, "decision"):
        told = json.loads(value)
        transactions = tuple(SinkTransaction(*each) for each in told["transactions"])
        state.decision = Decision(told["run"], told["query"], told["batch"], transactions)


def _key(sink: str, kind: str) -> bytes:
    return f"{sink}/{kind}".encode()


def _text(content: dict[str, Any] | Sequence[Any]) -> bytes:
    return json.dumps(content, separators=(",", ":")).encode()
