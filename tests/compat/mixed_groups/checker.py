"""What must hold of a run, by its three witnesses; the package's docstring says why each is right."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.compat.mixed_groups.coordinator_log import History, Hold
from tests.compat.mixed_groups.lines import Event
from tests.compat.mixed_groups.spans import Spans

# A member that was put out learns it with its next heartbeat; this is for a busy machine.
LEARN_MS_MAX = 60_000


@dataclass(slots=True)
class Claim:
    """A partition in a member's own view."""

    client: str
    partition: int
    start: int
    end: int | None = None


@dataclass
class Story:
    """What one process told, in order."""

    claims: list[Claim] = field(default_factory=list)
    delivered: list[tuple[int, int, int, int]] = field(default_factory=list)  # at, partition, first, end
    committed: list[tuple[int, int, int, int]] = field(default_factory=list)  # began, at, partition, offset
    continued: list[int] = field(default_factory=list)
    refusals: int = 0
    faults: list[str] = field(default_factory=list)

    def owned_now(self) -> set[int]:
        return {claim.partition for claim in self.claims if claim.end is None}


def stories_of(events: list[Event]) -> dict[str, Story]:
    """Sort out who told what. Events of one process are in its own order."""
    stories: dict[str, Story] = defaultdict(Story)
    for event in events:
        _take(stories[event.client], event)
    return stories


def _take(story: Story, event: Event) -> None:
    open_claims = {claim.partition: claim for claim in story.claims if claim.end is None}
    if event.kind == "assigned":
        for partition in event.partitions:
            if partition in open_claims:
                story.faults.append(f"{event.client} was assigned {partition} twice at {event.at}")
            else:
                story.claims.append(Claim(event.client, partition, event.at))
    elif event.kind in ("revoked", "lost"):
        for partition in event.partitions:
            if partition in open_claims:
                open_claims[partition].end = event.at
    elif event.kind in ("closed", "killed", "ended"):
        for claim in open_claims.values():
            claim.end = event.at
    elif event.kind == "records":
        for partition, first, end in event.spans:
            story.delivered.append((event.at, partition, first, end))
            if partition not in open_claims:
                story.faults.append(
                    f"{event.client} was given {first}..{end} of {partition} at {event.at} without owning it"
                )
    elif event.kind == "committed":
        story.committed += [(event.began, event.at, *place) for place in event.offsets]
    elif event.kind == "refused":
        story.refusals += 1
    elif event.kind == "continued":
        story.continued.append(event.at)
    elif event.kind in ("garbled", "failed"):
        story.faults.append(f"{event.client} {event.kind} at {event.at}: {event.why}")


def check_group(stories: Mapping[str, Story], history: History, ends: list[int]) -> list[str]:
    """All violations in one group."""
    faults = list(history.faults)
    faults += [fault for story in stories.values() for fault in story.faults]
    faults += _undelivered(stories, ends)
    for client, story in stories.items():
        own = [hold for hold in history.holds if hold.client == client]
        faults += [fault for claim in story.claims for fault in _check_claim(claim, own, history, story)]
        faults += _check_acknowledged(client, story, own, history)
    return faults + _check_commits(stories, history)


def _undelivered(stories: Mapping[str, Story], ends: list[int]) -> list[str]:
    delivered = Spans()
    for story in stories.values():
        for _, partition, first, end in story.delivered:
            delivered.add(partition, first, end)
    return [
        f"of partition {partition} nobody was given {first}..{last}"
        for partition, end in enumerate(ends)
        for first, last in delivered.missing(partition, end)
    ]


def _check_claim(claim: Claim, own: list[Hold], history: History, story: Story) -> list[str]:
    given = [hold for hold in own if hold.partition == claim.partition and hold.start <= claim.start]
    if not given:
        return [f"{claim.client} claimed {claim.partition} at {claim.start}, which it was never given"]
    hold = given[-1]
    end = history.effective_end(hold)
    if end is None or (claim.end is not None and claim.end <= end):
        return []
    if not hold.was_put_out:
        what = f"{claim.client} held on to {claim.partition} until {claim.end}"
        return [f"{what}, though another was given it at {end}"]
    if claim.end is None:
        return [f"{claim.client} never learnt that it had lost {claim.partition} at {end}"]
    awake = [at for at in story.continued if end < at <= claim.end]
    late_ms = claim.end - max([end, claim.start, *awake])
    if late_ms > LEARN_MS_MAX:
        return [f"{claim.client} learnt {late_ms} ms late that it had lost {claim.partition}"]
    return []


def _check_acknowledged(client: str, story: Story, own: list[Hold], history: History) -> list[str]:
    faults = []
    for began, at, partition, offset in story.committed:
        what = f"the commit of {offset} to {partition} by {client} at {at}"
        if not any(
            hold.partition == partition
            and hold.start <= at
            and ((end := history.effective_end(hold)) is None or end >= began)
            for hold in own
        ):
            faults.append(f"{what} was acknowledged though it did not own the partition")
        if not any(
            each.partition == partition and each.offset == offset and began <= each.at <= at
            for each in history.commits
        ):
            faults.append(f"{what} was acknowledged and is not in the log")
    return faults


def _check_commits(stories: Mapping[str, Story], history: History) -> list[str]:
    """In the order of the log: never backwards, never beyond what had been delivered by then."""
    deliveries = sorted(each for story in stories.values() for each in story.delivered)
    delivered, taken, last, faults = Spans(), 0, dict[int, int](), list[str]()
    known: set[object] = set()  # what was skipped once is missing from then on
    for commit in history.commits:
        while taken < len(deliveries) and deliveries[taken][0] <= commit.at:
            delivered.add(*deliveries[taken][1:])
            taken += 1
        if commit.offset < last.get(commit.partition, 0):
            faults.append(
                f"{commit.partition} was committed back from {last[commit.partition]} "
                f"to {commit.offset} at {commit.at}"
            )
        last[commit.partition] = commit.offset
        missing = delivered.missing(commit.partition, commit.offset)
        if missing and (commit.partition, missing[-1][0]) not in known:
            known.add((commit.partition, missing[-1][0]))
            faults.append(
                f"{commit.offset} of {commit.partition} was committed at {commit.at} before {missing} "
                "was delivered"
            )
    return faults
