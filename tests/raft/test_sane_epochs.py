"""Which epochs are believed, and a quorum-state file that a stranger ruined."""

import pytest

from headrace.base.errors import InvalidBytesError
from headrace.raft.messages import ElectionState
from headrace.raft.quorum_state import encode_state
from headrace.raft.sane_epochs import (
    ALLOWANCE,
    EPOCH_MAX,
    INT32_MAX,
    LOST_ELECTIONS_MAX,
    EpochAllowance,
    believable,
    epoch_max,
)
from tests.server.node_world import NodeWorld, simulated

STATE_FILE = "/data/__cluster_metadata-0/quorum-state"


def test_what_requests_add_is_an_allowance_that_fills_with_time() -> None:
    allowance = EpochAllowance()
    assert allowance.left(5_000) == ALLOWANCE
    allowance.use(ALLOWANCE, 5_000)
    assert allowance.left(5_000) == 0
    assert allowance.left(7_000) == 20
    assert allowance.left(6_000) == 20, "a clock that went back gives nothing and takes nothing"
    assert allowance.left(10_000_000) == ALLOWANCE


def test_a_log_that_is_past_the_bound_is_followed_on() -> None:
    assert epoch_max(7) == EPOCH_MAX
    assert epoch_max(EPOCH_MAX + 5) == EPOCH_MAX + 5 + LOST_ELECTIONS_MAX
    assert epoch_max(INT32_MAX - 9) == INT32_MAX - 1


def test_a_state_is_kept_unless_no_election_can_have_led_there() -> None:
    honest = ElectionState(EPOCH_MAX, voted_id=2)
    assert believable(honest, 3) is honest
    assert believable(ElectionState(INT32_MAX, voted_id=99), 3) == ElectionState(3 + LOST_ELECTIONS_MAX)


@simulated()
async def test_a_node_that_a_stranger_ruined_comes_back(
    world: NodeWorld, caplog: pytest.LogCaptureFixture
) -> None:
    await world.create_topic("orders")
    await world.stop()
    ruined = ElectionState(INT32_MAX, voted_id=99)
    world.machine.disk.replace_file(STATE_FILE, encode_state(ruined, kraft_version=1, voters=()))
    await world.start()
    core = world.node.quorum.client.core
    assert (core.is_leader, core.epoch) == (True, 1 + LOST_ELECTIONS_MAX + 1)
    assert "quorum-state said epoch 2147483647" in caplog.text
    await world.create_topic("more")


@simulated()
async def test_a_log_in_the_last_epoch_is_explained(world: NodeWorld) -> None:
    driver = world.node.quorum.client
    driver.core.state = ElectionState(INT32_MAX - 1, leader_id=1)
    await world.create_topic("orders")
    await world.stop()
    with pytest.raises(InvalidBytesError, match="no election can follow it"):
        await world.start()
