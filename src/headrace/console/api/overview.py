"""The first page: is the cluster well, what is wrong with it now, and what goes on in it."""

from collections.abc import Iterable
from itertools import islice
from typing import Any, Final

from headrace.console.api.pipelines import seen_queries
from headrace.console.health import troubles
from headrace.console.visit import Visit

BUSY_MAX: Final = 8
FOUND_MAX: Final = 12


async def overview(visit: Visit) -> Any:
    """Health, counts, the course of what is written, and who is busiest and furthest behind."""
    watch = visit.watch
    picture = await watch.picture()
    partitions = [each for topic in picture.topics.values() for each in topic.partitions]
    rates = {name: rate for name in picture.topics if (rate := watch.rate(name)) is not None}
    named = {name: rate for name, rate in rates.items() if not picture.topics[name].internal}
    busiest = sorted(named.items(), key=lambda each: -each[1])[:BUSY_MAX]
    behind = sorted(
        (each for each in picture.groups.values() if each.lag is not None), key=lambda each: -(each.lag or 0)
    )[:BUSY_MAX]
    return {
        "taken": picture.taken_ms,
        "cluster_id": picture.cluster.cluster_id,
        "troubles": [each._asdict() for each in troubles(picture, watch.hanging)],
        "gaps": picture.gaps,
        "brokers": len(picture.cluster.brokers),
        "brokers_up": sum(
            not each.fenced and each.node_id not in picture.unreachable for each in picture.cluster.brokers
        ),
        "controller": picture.cluster.controller_id if picture.quorum is None else picture.quorum.leader_id,
        "topics": sum(not each.internal for each in picture.topics.values()),
        "partitions": len(partitions),
        "in_sync": sum(each.leader >= 0 and not each.is_under_replicated for each in partitions),
        "groups": len(picture.groups),
        "bytes": sum(picture.sizes.values()),
        "reassignments": len(picture.reassignments),
        "rate": sum(rates.values()) if rates else None,
        "times": list(watch.times),
        # Between samples: one fewer.
        "rates": list(watch.total_rates)[1:],
        "busiest": [{"topic": name, "rate": rate} for name, rate in busiest if rate > 0],
        "behind": [
            {
                "group": each.listing.group_id,
                "state": each.listing.state,
                "lag": each.lag,
                "course": watch.lags.last(each.listing.group_id, 60),
            }
            for each in behind
        ],
        "queries": [
            {
                "query": query,
                "rate": None if (rates_now := state.rates()) is None else rates_now[0],
                "lag": state.figures.get("lag"),
                "course": state.course()[-60:],
            }
            for _, query, state in islice(seen_queries(visit, picture), BUSY_MAX)
        ],
    }


async def find(visit: Visit) -> Any:
    """Topics and groups whose names have these letters, some of each."""
    picture = await visit.watch.picture()
    words = visit.request.query.get("q", "").lower()

    def some(names: Iterable[str]) -> list[str]:
        return list(islice((name for name in names if words in name.lower()), FOUND_MAX))

    return {"topics": some(picture.topics), "groups": some(picture.groups)}
