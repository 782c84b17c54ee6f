"""The scenarios that can be simulated, by name: functions of a `World` that raise where a rule breaks."""

from collections.abc import Callable
from typing import Final

from headrace.testing.scenarios import (
    attackers,
    cluster,
    compaction,
    echo,
    log,
    node,
    quorum,
    replication,
    share,
    tiers,
)
from headrace.testing.world import World

Scenario = Callable[[World], None]

SCENARIOS: Final[dict[str, Scenario]] = {
    "attackers": attackers.play,
    "cluster": cluster.play,
    "compaction": compaction.play,
    "echo": echo.play,
    "log": log.play,
    "node": node.play,
    "quorum": quorum.play,
    "replication": replication.play,
    "share": share.play,
    "tiers": tiers.play,
}
