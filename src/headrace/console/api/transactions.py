"""Transactions: who has one open, since when, which hang, and ending them."""

import time
from typing import Any, Final

from headrace.clients.errors import ClientError
from headrace.console.http_server import RefusedCallError
from headrace.console.visit import Visit, text_of

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
    return {"transactions": rows}


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
