"""The lines that members print: one JSON object each, with the wall time `at` in milliseconds.

    {"at": 1, "event": "assigned", "partitions": [0, 1]}        also revoked, lost
    {"at": 1, "event": "records", "spans": [[0, 17, 20]]}       partition, first offset, one after the last
    {"at": 2, "event": "committed", "began": 1, "offsets": [[0, 20]]}
    {"at": 2, "event": "refused", "why": "..."}                 a commit that was not taken
    {"at": 3, "event": "closed"}                                the member left in order
    {"at": 3, "event": "failed", "why": "..."}                  the member cannot go on

`records` is printed before anything of it is committed. The line `close` on a member's stdin, or its end,
asks it to leave. The driver adds what it did to a member: started, asked to leave, killed, stopped,
continued, ended. Apache Kafka's VerifiableConsumer has lines of its own, which are translated here.
"""

import json
from dataclasses import dataclass
from typing import Any

Spans = tuple[tuple[int, int, int], ...]
Offsets = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Event:
    """One line of one process. `client` names the process: its client.id, which no other has."""

    at: int
    client: str
    kind: str
    partitions: tuple[int, ...] = ()
    spans: Spans = ()
    offsets: Offsets = ()
    began: int = 0
    why: str = ""


def read_line(client: str, line: str) -> list[Event]:
    """The events of a line; none for what is no event."""
    try:
        told = json.loads(line)
    except ValueError:
        return []
    if not isinstance(told, dict):
        return []
    return _read_own(client, told) if "event" in told else _read_verifiable(client, told)


def _read_own(client: str, told: dict[str, Any]) -> list[Event]:
    return [
        Event(
            told["at"],
            client,
            told["event"],
            partitions=tuple(told.get("partitions", ())),
            spans=tuple((span[0], span[1], span[2]) for span in told.get("spans", ())),
            offsets=tuple((place[0], place[1]) for place in told.get("offsets", ())),
            began=told.get("began", told["at"]),
            why=told.get("why", ""),
        )
    ]


def _read_verifiable(client: str, told: dict[str, Any]) -> list[Event]:
    at, name = told.get("timestamp", 0), told.get("name", "")
    if name in ("partitions_assigned", "partitions_revoked"):
        numbers = tuple(each["partition"] for each in told["partitions"])
        return [Event(at, client, name.removeprefix("partitions_"), partitions=numbers)]
    if name == "records_consumed":
        # Numbers of records and offsets agree where nothing was left out in between.
        rows = told["partitions"]
        wrong = [each for each in rows if each["maxOffset"] - each["minOffset"] + 1 != each["count"]]
        if wrong:
            return [Event(at, client, "garbled", why=f"offsets left out: {wrong}")]
        spans = tuple((each["partition"], each["minOffset"], each["maxOffset"] + 1) for each in rows)
        return [Event(at, client, "records", spans=spans)]
    if name == "offsets_committed":
        if not told["success"]:
            return [Event(at, client, "refused", why=str(told.get("error", "")))]
        offsets = tuple((each["partition"], each["offset"]) for each in told["offsets"])
        return [Event(at, client, "committed", offsets=offsets, began=0)]
    return [Event(at, client, "closed")] if name == "shutdown_complete" else []
