"""The table of ratios: what was measured, how it compares, and whether it reaches its goal."""

from typing import NamedTuple


class Goal(NamedTuple):
    """headrace divided by Kafka must be at least, or at most, this."""

    ratio: float
    at_least: bool


def at_least(ratio: float) -> Goal:
    return Goal(ratio, True)


def at_most(ratio: float) -> Goal:
    return Goal(ratio, False)


GOALS: dict[str, Goal] = {
    "produce 1 KB acks=1 | mb_s": at_least(2),
    "produce 1 KB acks=all | mb_s": at_least(2),
    "produce 100 B acks=1 | mb_s": at_least(1.5),
    "produce 100 B acks=all | mb_s": at_least(1.5),
    "produce 1 KB acks=1 | cpu_s_per_gb": at_most(1 / 4),
    "produce 1 KB acks=all | cpu_s_per_gb": at_most(1 / 4),
    "produce 100 B acks=1 | cpu_s_per_gb": at_most(1 / 3),
    "produce 100 B acks=all | cpu_s_per_gb": at_most(1 / 3),
    "consume 1 KB | mb_s": at_least(1),
    "consume 100 B | mb_s": at_least(1),
    "consume 1 KB | cpu_s_per_gb": at_most(1 / 2),
    "consume 100 B | cpu_s_per_gb": at_most(1 / 2),
    "small requests, 20 in flight x 4 | requests_s": at_least(3),
    "small requests, one in flight | requests_s": at_least(3),
    "latency at 1000 msg/s | ack_p99_ms": at_most(1 / 2),
    "latency at 1000 msg/s | end_to_end_p99_ms": at_most(1 / 2),
    "start | ready_s": at_most(1 / 5),
    "start | idle_rss_mb": at_most(1 / 2),
    "produce 1 KB acks=all | rss_mb": at_most(1 / 4),
}

UNITS = {
    "mb_s": "MB/s",
    "cpu_s_per_gb": "broker CPU s/GB",
    "rss_mb": "memory, MB",
    "requests_s": "requests/s",
    "cpu_us": "broker CPU µs each",
    "ack_p50_ms": "acknowledged p50, ms",
    "ack_p99_ms": "acknowledged p99, ms",
    "end_to_end_p50_ms": "end to end p50, ms",
    "end_to_end_p99_ms": "end to end p99, ms",
    "cores": "broker cores busy",
    "rows_s": "rows/s",
    "broker_cpu_us": "broker CPU µs a row",
    "spark_cpu_us": "Spark CPU µs a row",
    "ready_s": "start to ready, s",
    "idle_rss_mb": "memory at idle, MB",
    "answered_s": "requests answered, s",
    "led_s": "until all have leaders, s",
    "served_s": "until all are served, s",
    "metadata_s": "until Metadata answers, s",
    "stop_s": "stopped in order, s",
    "cpu_s": "CPU, s",
    "seconds": "s",
    "records_s": "records/s",
    "cpu_s_per_million": "broker CPU s per million",
    "again": "records that came again",
    "held": "records held",
    "held_rss_mb": "memory, MB",
    "grown_mb": "memory grown meanwhile, MB",
    "half_rss_mb": "memory when every second was accepted, MB",
    "acquire_cpu_s": "broker CPU to hand them out, s",
    "accept_cpu_s": "broker CPU to accept every second, s",
    "state_mb": "share state then, MB",
}


def as_markdown(medians: dict[str, dict[str, float]], goals: dict[str, Goal]) -> str:
    rows = ["| | | Kafka | headrace | ratio | goal | |", "|---|---|---|---|---|---|---|"]
    for step, by_broker in medians.items():
        what, unit = step.split(" | ")
        ours, theirs = by_broker.get("headrace"), by_broker.get("kafka")
        ratio = ours / theirs if ours is not None and theirs else None
        goal = goals.get(step)
        cells = [
            what,
            UNITS[unit],
            _figure(theirs),
            _figure(ours),
            _figure(ratio),
            _goal(goal),
            _verdict(ratio, goal),
        ]
        rows.append("| " + " | ".join(cells) + " |")
    return "\n".join(rows) + "\n"


def beside_itself(medians: dict[str, dict[str, float]], variants: list[str]) -> str:
    """What is turned on in a variant, as a ratio to headrace without it."""
    if not variants:
        return ""
    ways = [f"{name} | ratio" for name in variants]
    rows = ["| | | headrace | " + " | ".join(ways) + " |", "|---" * (3 + 2 * len(variants)) + "|"]
    for step, by_broker in medians.items():
        what, unit = step.split(" | ")
        plain = by_broker.get("headrace")
        cells = [what, UNITS[unit], _figure(plain)]
        for name in variants:
            value = by_broker[name]
            cells += [_figure(value), _figure(value / plain if plain else None)]
        rows.append("| " + " | ".join(cells) + " |")
    return "\n".join(rows) + "\n"


def _figure(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.2f}"


def _goal(goal: Goal | None) -> str:
    if goal is None:
        return ""
    return f"{'≥' if goal.at_least else '≤'} {goal.ratio:.2f}"


def _verdict(ratio: float | None, goal: Goal | None) -> str:
    if ratio is None or goal is None:
        return ""
    reached = ratio >= goal.ratio if goal.at_least else ratio <= goal.ratio
    return "reached" if reached else "**behind**"
