"""Transactions: who has one open, since when, which hang, and ending them.

One that outlives its time is its coordinator's; those that no coordinator knows are found by `hanging.py`.
"""

import time
from typing import Any, Final

from headrace.base.ids import TopicPartition
from headrace.clients import ActiveProducer
from headrace.clients.errors import ClientError
from headrace.console.hanging import find_hanging
from headrace.console.http_server import RefusedCallError
from headrace.console.visit import Visit, number_of, text_of

_OPEN: Final = ("Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence")
DESCRIBED_MAX: Final = 200
"""Each is asked of its coordinator."""


async def transactions(visit: Visit) -> Any:
    """All transactional ids; of those with something open, since when and where."""
    listed = await visit.admin.list_transactions()
    open_ones = [each.transactional_id for each in listed if each.state in _OPEN][:DESCRIBED_MAX]
    known = await visit.admin.describe_transactions(*open_ones)
    now_ms = int(time.time() * 1000)
    rows = []
    for each in listed:
        row: dict[str, Any] = {
            "id": each.transactional_id,
            "producer": each.producer_id,
            "state": each.state,
            "coordinator": each.coordinator_id,
        }
        found = known.get(each.transactional_id)
        if found is not None and found.start_ms > 0:
            open_ms = max(0, now_ms - found.start_ms)
            row |= {
                "open_ms": open_ms,
                "timeout_ms": found.timeout_ms,
                # Its coordinator ends it within seconds after its time: one that is open longer hangs.
                "hangs": found.timeout_ms > 0 and open_ms > 2 * found.timeout_ms + 60_000,
                "partitions": [[place.topic, place.partition] for place in found.partitions],
            }
        rows.append(row)
    return {"transactions": rows, **_hanging_json(visit)}


def _hanging_json(visit: Visit) -> dict[str, Any]:
    """What was found by the last look; looking costs brokers too much for each time that a page is shown."""
    return {
        "looked": visit.watch.looked_for_hanging_ms,
        "hanging": [
            {
                "topic": each.partition.topic,
                "partition": each.partition.partition,
                "producer": each.producer_id,
                "epoch": each.producer_epoch,
                "start": each.transaction_start_offset,
                "written": each.last_timestamp_ms,
            }
            for each in visit.watch.hanging
        ],
    }


async def look_for_hanging(visit: Visit) -> Any:
    """Look for transactions that no coordinator knows, now."""
    await visit.watch.look_for_hanging()
    return _hanging_json(visit)


async def abort_hanging(visit: Visit) -> Any:
    """Write the marker that is missing, where a transaction still hangs as it was shown."""
    body = visit.request.json()
    place = TopicPartition(text_of(body, "topic"), number_of(body, "partition"))
    producer, start = number_of(body, "producer"), number_of(body, "start")
    visit.details |= {"partition": str(place), "producer": producer, "start": start}
    await visit.admin.describe_topics(place.topic)
    for each in await find_hanging(visit.admin, [place]):
        if (each.producer_id, each.transaction_start_offset) == (producer, start):
            await visit.admin.abort_hanging(each)
            visit.watch.hanging = [other for other in visit.watch.hanging if not _is_same(other, each)]
            return _hanging_json(visit)
    raise RefusedCallError(
        409, f"no transaction of producer {producer} that starts at {start} hangs in {place}"
    )


def _is_same(one: ActiveProducer, other: ActiveProducer) -> bool:
    return (one.partition, one.producer_id) == (other.partition, other.producer_id)


async def abort_transaction(visit: Visit) -> Any:
    """Shut out whoever writes under an id, and abort what it has open."""
    name = text_of(visit.request.json(), "id")
    visit.details["id"] = name
    if not name:
        raise RefusedCallError(400, "which transactional id?")
    if name not in await visit.admin.describe_transactions(name):
        raise ClientError(f"there is no transactional id {name!r}")
    await visit.admin.fence_producer(name)
    return {}
