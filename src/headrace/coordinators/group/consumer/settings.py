"""Broker and group settings that consumer groups obey, and how soon a member is told to come back.

A member that is told of a change late makes everybody late, since a partition is only handed on once its
reader let go. So, while a group is on its way, members come back quickly: after a part of the time that has
passed since the target was made, which is soon at first and costs little if somebody takes long. In a calm
group they come back after `group.consumer.heartbeat.interval.ms` where somebody chose that. Left to itself,
a node asks for as many heartbeats as it can answer without noticing: often from few members, seldom from
many, never more seldom than the default. The answer of a calm member is kept until there is news, or until
shortly before the next heartbeat: how often they come matters where a member asked for something else, since
nothing is kept from then to the next one.
"""

from dataclasses import dataclass
from typing import Final

# 50 ms is a moment for a person and many round trips for a client.
QUICK_MS_MIN: Final = 50
# A member comes back after an eighth of the time that passed: some 8 heartbeats whenever that doubles.
QUICK_PART: Final = 8
# Calm members cost a node this many heartbeats in a second, about 1 % of a core.
CALM_PER_SECOND: Final = 100
CALM_MS_MIN: Final = 500
# In whole steps: a client that is told of another interval counts anew from there.
CALM_MS_STEP: Final = 100


@dataclass(frozen=True, slots=True)
class ConsumerSettings:
    """The broker's settings; see `group.consumer.*` in the settings room."""

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    heartbeat_interval_is_chosen: bool = False
    assignment_interval_ms: int = 1_000
    size_max: int = 2**31 - 1
    assignors: tuple[str, ...] = ("uniform", "range")
    upgrade: bool = True
    downgrade: bool = True


def calm_interval_ms(settings: ConsumerSettings, members_on_node: int) -> int:
    """When a member with nothing to do comes back."""
    most_ms = settings.heartbeat_interval_ms
    if settings.heartbeat_interval_is_chosen:
        return most_ms
    needed_ms = members_on_node * 1000 // CALM_PER_SECOND
    return min(most_ms, max(CALM_MS_MIN, -(-needed_ms // CALM_MS_STEP) * CALM_MS_STEP))


def quick_interval_ms(settings: ConsumerSettings, *, unsettled_for_ms: int, calm_ms: int) -> int:
    """When a member of a group on its way comes back; never later than a calm one."""
    return min(calm_ms, max(QUICK_MS_MIN, unsettled_for_ms // QUICK_PART))
