"""The table of waits: quantiles of each system, their ratio, and whether ours reach the goal."""

import math
from collections.abc import Mapping, Sequence

GOALS_MS = {"p50": 500.0, "p99": 1000.0}
QUANTILES = {"p50": 0.5, "p99": 0.99, "max": 1.0}

Waits = Mapping[str, Mapping[str, Sequence[float]]]
"""Milliseconds by what was killed and who waited, then by system."""


def quantile(values: Sequence[float], share: float) -> float:
    """The least value that so many of them do not exceed."""
    return sorted(values)[max(math.ceil(share * len(values)) - 1, 0)]


def as_markdown(waits: Waits) -> str:
    rows = [
        "| killed, who waits | | Kafka, ms | headrace, ms | ratio | goal, ms | |",
        "|---|---|---|---|---|---|---|",
    ]
    for what, by_system in waits.items():
        for name, share in QUANTILES.items():
            found = {system: quantile(values, share) for system, values in by_system.items() if values}
            rows.append("| " + " | ".join(_cells(what, name, found, by_system)) + " |")
    return "\n".join(rows) + "\n"


def _cells(
    what: str, name: str, found: Mapping[str, float], by_system: Mapping[str, Sequence[float]]
) -> list[str]:
    ours, theirs = found.get("headrace"), found.get("kafka")
    goal = GOALS_MS.get(name)
    verdict = "" if ours is None or goal is None else "reached" if ours < goal else "**behind**"
    return [
        what,
        name,
        "" if theirs is None else f"{theirs:,.0f} (of {len(by_system['kafka'])})",
        "" if ours is None else f"{ours:,.0f} (of {len(by_system['headrace'])})",
        "" if ours is None or not theirs else f"{ours / theirs:.2f}",
        "" if goal is None else f"< {goal:.0f}",
        verdict,
    ]
