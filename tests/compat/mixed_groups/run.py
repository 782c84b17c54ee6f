"""One run: a broker, a producer, a company of members on their schedule, and then the checks."""

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from headrace.base.ids import TopicPartition
from headrace.clients import Admin
from headrace.clients.errors import ClientError
from tests.compat.brokers import Broker
from tests.compat.mixed_groups import schedule
from tests.compat.mixed_groups.checker import Story, check_group, stories_of
from tests.compat.mixed_groups.coordinator_log import History, read_history, written_by
from tests.compat.mixed_groups.numbering import Numbering
from tests.compat.mixed_groups.processes import Company
from tests.compat.mixed_groups.roster import TOPIC, Seat

PARTITIONS: Final = 12
SETTLE_SECONDS: Final = 180.0
LEAVE_SECONDS: Final = 90.0


@dataclass
class Outcome:
    """The figures of a run, and what was wrong with it."""

    seed: int
    members: int
    steps: Counter[str] = field(default_factory=Counter)
    records: int = 0
    groups: dict[str, dict[str, int]] = field(default_factory=dict)
    settled_seconds: float = 0.0
    violations: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        steps = ", ".join(f"{count} × {name}" for name, count in sorted(self.steps.items()))
        head = f"seed {self.seed}: {self.members} members; {steps}; {self.records} records; "
        lines = [head + f"settled in {self.settled_seconds:.1f} s; {len(self.violations)} violations"]
        for group, figures in self.groups.items():
            lines.append(f"  {group}: " + ", ".join(f"{value} {name}" for name, value in figures.items()))
        return "\n".join(lines + [f"  VIOLATION {each}" for each in self.violations])


def run(
    broker: Broker,
    seats: list[Seat],
    folder: Path,
    *,
    seconds: float,
    seed: int,
    records_per_second: int = 400,
    say: Callable[[str], None] = lambda _: None,
) -> Outcome:
    """Against a broker that has been started and has no topic of this name."""
    outcome = Outcome(seed, len(seats))
    company = Company(broker.bootstrap, folder)
    with Admin({"bootstrap.servers": broker.bootstrap}) as admin:
        admin.create_topic(TOPIC, partitions=PARTITIONS)
        numbering = Numbering(broker.bootstrap, partitions=PARTITIONS, records_per_second=records_per_second)
        try:
            outcome.steps.update(_live(company, seats, seconds=seconds, seed=seed, say=say))
            numbering.stop()
            _settle(company, seats, numbering, admin, outcome)
            _part(company, outcome)
        finally:
            company.kill_all()
    outcome.records = sum(numbering.ends)
    outcome.violations += numbering.failures + company.troubles
    _judge(company, seats, numbering.ends, read_history(written_by(broker.bootstrap), TOPIC), outcome)
    (folder / "events.txt").write_text("\n".join(map(str, company.events)))
    return outcome


def _live(
    company: Company, seats: list[Seat], *, seconds: float, seed: int, say: Callable[[str], None]
) -> Counter[str]:
    by_name = {seat.name: seat for seat in seats}
    acts = {
        schedule.START: lambda name: company.start(by_name[name]),
        schedule.LEAVE: company.leave,
        schedule.CRASH: company.crash,
        schedule.FREEZE: company.freeze,
        schedule.THAW: company.thaw,
    }
    counts: Counter[str] = Counter()
    began, told_at = time.monotonic(), 0.0
    for step in schedule.plan(seats, seconds=seconds, seed=seed):
        company.listen(began + step.at - time.monotonic())
        acts[step.action](step.seat)
        counts[step.action] += 1
        if step.at >= told_at + 20.0:
            told_at = step.at
            say(f"{step.at:.0f} s: {dict(counts)}, {len(company.present)} members there")
    company.listen(began + seconds - time.monotonic())
    return counts


def _settle(
    company: Company, seats: list[Seat], numbering: Numbering, admin: Admin, outcome: Outcome
) -> None:
    """Everybody is there and awake: wait until the groups agree, then for one last record to be committed."""
    for seat in seats:
        company.thaw(seat.name)
        company.start(seat)
    groups = sorted({seat.group for seat in seats})
    began = time.monotonic()
    _await(company, lambda: _differences(company, groups, numbering.ends, admin), outcome)
    numbering.write_last()
    _await(company, lambda: _differences(company, groups, numbering.ends, admin), outcome)
    outcome.settled_seconds = time.monotonic() - began


def _await(company: Company, differences: Callable[[], list[str]], outcome: Outcome) -> None:
    deadline = time.monotonic() + SETTLE_SECONDS
    while left := differences():
        if time.monotonic() > deadline:
            outcome.violations += [f"not settled after {SETTLE_SECONDS:.0f} s: {each}" for each in left]
            return
        company.listen(0.3)


def _differences(company: Company, groups: list[str], ends: list[int], admin: Admin) -> list[str]:
    """Where the coordinator's answers differ from what the members say, and commits from the ends."""
    stories = stories_of(company.events)
    found: list[str] = []
    for group in groups:
        own = {
            process.client: stories[process.client].owned_now()
            for process in company.present.values()
            if process.seat.group == group
        }
        try:
            described, offsets = admin.describe_group(group), admin.group_offsets(group)
        except ClientError as error:
            found.append(f"{group}: {error}")
            continue
        asked = {each.client_id: {place.partition for place in each.assignment} for each in described.members}
        if described.state != "Stable":
            found.append(f"{group} is {described.state}")
        if asked != own:
            found.append(f"{group}: the coordinator says {asked}, the members say {own}")
        partitions = sorted(number for numbers in own.values() for number in numbers)
        if partitions != list(range(len(ends))):
            found.append(f"{group}: its members own {partitions}")
        for number, end in enumerate(ends):
            place = offsets.get(TopicPartition(TOPIC, number))
            if place is None or place.offset != end:
                found.append(f"{group}: {place} is committed of partition {number}, whose end is {end}")
    return found


def _part(company: Company, outcome: Outcome) -> None:
    for name in list(company.present):
        company.leave(name)
    deadline = time.monotonic() + LEAVE_SECONDS
    while not company.all_have_left and time.monotonic() < deadline:
        company.listen(0.2)
    outcome.violations += [f"{client} did not leave in time" for client in company.stragglers()]


def _judge(
    company: Company, seats: list[Seat], ends: list[int], histories: Mapping[str, History], outcome: Outcome
) -> None:
    stories = stories_of(company.events)
    by_group: dict[str, dict[str, Story]] = defaultdict(dict)
    for client, story in stories.items():
        by_group[client.split(".")[0]][client] = story
    for group in sorted({seat.group for seat in seats}):
        history, own = histories.get(group, History()), by_group[group]
        outcome.violations += [f"{group}: {fault}" for fault in check_group(own, history, ends)]
        deliveries = sum(end - first for story in own.values() for _, _, first, end in story.delivered)
        outcome.groups[group] = {
            "processes": len(own),
            "generations": len(history.generations),
            "conversions": history.conversions,
            "deliveries": deliveries,
            "delivered again": deliveries - sum(ends),
            "commits": len(history.commits),
            "refused": sum(story.refusals for story in own.values()),
        }
