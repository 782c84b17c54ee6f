"""What became of a damage: read from what clients found, what the node said, and what the file holds now."""

import re
from dataclasses import dataclass
from enum import Enum
from typing import Final

from tests.compat.damages.harm import REMOVE, Harm


class Verdict(Enum):
    """See the package."""

    UNHARMED = "unharmed"
    MENDED = "mended"
    FETCHED = "fetched"
    LOST = "lost"
    REFUSED = "refused"
    SILENT = "SILENT"


SAID: Final = re.compile(r" (WARNING|ERROR|CRITICAL) ")
ORDINARY: Final = re.compile(r"partitions without a leader")
"""Lines of any start that name partitions."""
STARTED: Final = re.compile(r" (DEBUG|INFO) ")
WAY_OUT: Final = re.compile(r"\b(bring|remove|format|write|restore|start|choose)\b", re.IGNORECASE)

# Files that nothing is lost with, and that a node may have been killed before writing: no line is due.
HARMLESS: Final = {
    "index": "rebuilt from the batches when first used",
    "timeindex": "rebuilt from the batches when first used",
    "snapshot": "producers are found from an older one and the log",
    "leader-epochs": "epochs are read from the batches",
    "bootstrap": "read only while the metadata log is empty",
    "cleaner-offsets": "compaction begins anew",
    "running": "without the proof that nothing is missing, replicas are asked",
    "cleanshutdown": "logs are checked as after a kill",
    "copied index": "a copied segment is walked where its index does not lead on",
    "older snapshot": "not read while a later one is whole",
    "removed snapshot": "another snapshot, or the log from its beginning, stands for it",
    "metadata-others": "indexes, epochs and producers of the metadata log, rebuilt from its batches",
}


FETCHED: Final = frozenset({"log", "internal-log", "metadata-log"})
"""Files that nothing but another replica has the bytes of."""


@dataclass(frozen=True)
class Outcome:
    """A verdict, and what it rests on."""

    verdict: Verdict
    why: str
    lines: tuple[str, ...] = ()


def lines_about(harm: Harm, said: str) -> tuple[str, ...]:
    """The lines that tell an operator of this damage."""
    return tuple(
        line
        for line in said.splitlines()
        if SAID.search(line) and not ORDINARY.search(line) and any(word in line for word in harm.words)
    )


def harmless(harm: Harm) -> str | None:
    """Why nothing rests on the file, if that is so."""
    if harm.kind == "metadata-snapshot" and harm.how == REMOVE:
        return HARMLESS["removed snapshot"]
    if harm.kind == "metadata-snapshot":
        return None if harm.is_latest else HARMLESS["older snapshot"]
    if harm.kind == "store" and not harm.name.endswith((".log", ".txnindex")):
        return HARMLESS["copied index"]
    return HARMLESS.get(harm.kind)


def judge_refusal(harm: Harm, said: str) -> Outcome:
    """Of a node that did not start: it names the file or its folder, and says what to do."""
    about = tuple(
        line
        for line in said.splitlines()
        if any(word in line for word in harm.words) and WAY_OUT.search(line) and not STARTED.search(line)
    )
    if about:
        return Outcome(Verdict.REFUSED, "the file and the way out are named", about)
    return Outcome(Verdict.SILENT, "the node does not start, and does not say which file or what to do")


def judge(harm: Harm, differences: list[str], said: str, *, replicated: bool = False) -> Outcome:
    """Of a node that runs, after everything was read. Where it is `replicated`, nothing may be lost."""
    about = lines_about(harm, said)
    if differences and not about:
        return Outcome(Verdict.SILENT, f"no line, but {differences[0]}")
    if differences and replicated:
        return Outcome(Verdict.SILENT, f"not fetched from a replica: {differences[0]}", about)
    if differences:
        return Outcome(Verdict.LOST, differences[0], about)
    if about:
        is_fetched = replicated and harm.kind in FETCHED
        return Outcome(Verdict.FETCHED if is_fetched else Verdict.MENDED, "said", about)
    if harm.is_undone:
        return Outcome(Verdict.UNHARMED, "the file has its bytes again")
    why = harmless(harm)
    if why is not None:
        return Outcome(Verdict.UNHARMED, why)
    return Outcome(Verdict.SILENT, "all can be read, but the file is damaged still and no line tells of it")
