"""Who counts as in touch with the quorum's leader."""

from headrace.raft.raft_leader_state import RaftLeaderState

OLD, NEW = b"o" * 16, b"n" * 16
VOTERS = {1: b"1" * 16, 2: OLD, 3: b"3" * 16}


def test_a_replaced_disk_neither_commits_nor_keeps_a_leader_in_office():
    leader_state = RaftLeaderState(1, start_offset=0, since_ms=0)
    leader_state.durable(9)
    leader_state.fetched(2, OLD, 9, leader_end=9, now_ms=100)
    assert (leader_state.majority_end(VOTERS), leader_state.quorum_lost_at_ms(1000, VOTERS)) == (9, 1100)
    leader_state.fetched(2, NEW, 9, leader_end=9, now_ms=200)
    assert leader_state.has_another_disk(2, OLD)
    assert (leader_state.majority_end(VOTERS), leader_state.quorum_lost_at_ms(1000, VOTERS)) == (-1, 1000)
    assert leader_state.silent_for(150, VOTERS, 250) == [3], "it is heard of, and need not be told who leads"
