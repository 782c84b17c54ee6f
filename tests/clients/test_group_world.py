"""The short form of group_world, and commits that wait for their turn while their consumer is put out."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.base.ids import TopicPartition
from headrace.clients import OffsetAndMetadata
from headrace.clients.errors import ClientError, CommitFailedError
from headrace.clients.internals.consumer.commit_request_manager import CommitRequestManager
from headrace.clients.internals.consumer.group_coordinator_client import Membership
from headrace.clients.internals.consumer.subscription_state import PartitionStates
from tests.clients.group_world import WAYS, faults_of

T0 = TopicPartition("t", 0)


@pytest.mark.parametrize("way", WAYS)
def test_groups_of_our_own_survive_their_members(way: str) -> None:
    assert faults_of(way, 1, seconds=40) == []


@pytest.mark.parametrize(("way", "seed"), [("static cooperative", 6), ("converted", 7)])
def test_a_commit_that_arrives_late_over_an_abandoned_connection_is_not_made(way: str, seed: int) -> None:
    """In these lives one does, and takes the group back where the coordinator listens to it."""
    assert faults_of(way, seed, seconds=60) == []


class SlowGroup:
    """A coordinator whose answers are waited for."""

    def __init__(self) -> None:
        self.may_answer = asyncio.Event()
        self.committed: list[tuple[int, Membership]] = []

    async def commit(self, places: Any, identity: Any, *, timeout_ms: int) -> None:
        self.committed.append((places[T0].offset, identity()))
        await self.may_answer.wait()

    def not_a_member(self) -> CommitFailedError:
        return CommitFailedError("not a member")


def commits_of(group: SlowGroup, identities: list[Membership]) -> CommitRequestManager:
    """The last of the identities is that of now; a commit of an earlier one comes too late."""

    def identity_for(begun: Membership) -> Membership:
        if begun != identities[-1]:
            raise group.not_a_member()
        return begun

    config = SimpleNamespace(int=lambda name: 1_000)
    cluster: Any = SimpleNamespace(config=config, environment=SimpleNamespace(now_ms=lambda: 0))
    given: Any = lambda: group  # noqa: E731
    return CommitRequestManager(
        cluster,
        PartitionStates(),
        group=given,
        identity=lambda: identities[-1],
        identity_for=identity_for,
        on_refusal=lambda: None,
        begin=lambda work: asyncio.get_running_loop().create_task(work),
        is_automatic=False,
    )


@pytest.mark.parametrize("what", ["put out and in again", "a new generation"])
def test_a_commit_that_waits_for_its_turn_is_not_made_with_a_later_membership(what: str) -> None:
    async def script() -> None:
        group, identities = SlowGroup(), [Membership(1, "m")]
        commits = commits_of(group, identities)
        heard: list[tuple[int, ClientError | None]] = []
        for offset in (3, 4):
            places = {T0: OffsetAndMetadata(offset)}
            commits.commit_soon(places, lambda at, error: heard.append((at[T0].offset, error)))
        await asyncio.sleep(0)
        assert group.committed == [(3, Membership(1, "m"))]
        if what == "a new generation":
            identities.append(Membership(2, "m"))
        else:
            commits.give_up()
        group.may_answer.set()
        await commits.end()
        assert group.committed == [(3, Membership(1, "m"))]
        assert [(offset, type(error)) for offset, error in heard] == [(3, type(None)), (4, CommitFailedError)]
        await commits.commit({T0: OffsetAndMetadata(5)})
        assert group.committed[-1] == (5, identities[-1])

    asyncio.run(script())
