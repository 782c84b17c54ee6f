"""Where epochs start and end (KIP-101, KIP-279)."""

import pytest

from headrace.log.leader_epoch_file_cache import LeaderEpochFileCache


@pytest.fixture
def epochs():
    return LeaderEpochFileCache([(2, 10), (4, 20), (7, 50)])


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        (-1, (-1, -1)),
        (0, (0, 10)),
        (2, (2, 20)),
        (3, (2, 20)),
        (4, (4, 50)),
        (6, (4, 50)),
        (7, (7, 90)),
        (8, (-1, -1)),
    ],
)
def test_the_end_of_an_epoch(epochs, asked, answer):
    assert epochs.end_offset_for(asked, 90) == answer


def test_without_epochs_nothing_can_be_told():
    assert LeaderEpochFileCache().end_offset_for(0, 10) == (-1, -1)
    assert LeaderEpochFileCache().latest_epoch == -1
    assert LeaderEpochFileCache().epoch_for_offset(5) == -1


@pytest.mark.parametrize(("offset", "epoch"), [(9, -1), (10, 2), (19, 2), (20, 4), (1000, 7)])
def test_the_epoch_of_an_offset(epochs, offset, epoch):
    assert epochs.epoch_for_offset(offset) == epoch
    assert epochs.start_of(7) == 50
    assert epochs.start_of(6) == -1


@pytest.mark.parametrize(
    ("epoch", "start", "after"),
    [
        (8, 60, [(2, 10), (4, 20), (7, 50), (8, 60)]),
        (8, 50, [(2, 10), (4, 20), (8, 50)]),
        (8, 30, [(2, 10), (4, 20), (8, 30)]),
        (7, 60, [(2, 10), (4, 20), (7, 50)]),
        (3, 70, [(2, 10), (3, 70)]),
        (0, 0, [(0, 0)]),
    ],
)
def test_assigning_drops_what_contradicts(epochs, epoch, start, after):
    epochs.assign(epoch, start)
    assert epochs.entries() == after
    assert bool(epochs.version) == (after != [(2, 10), (4, 20), (7, 50)])


@pytest.mark.parametrize(
    ("epoch", "start", "after"),
    [
        (7, 60, [(2, 10), (4, 20), (7, 50)]),
        (8, 60, [(2, 10), (4, 20), (7, 50), (8, 60)]),
        (4, 50, [(2, 10), (4, 20)]),
        (5, 50, [(2, 10), (4, 20), (5, 50)]),
        (0, 10, [(0, 10)]),
        (-1, 50, [(2, 10), (4, 20), (7, 50)]),
    ],
)
def test_a_batch_of_an_earlier_epoch_shows_that_later_ones_wrote_nothing(epochs, epoch, start, after):
    epochs.note(epoch, start)
    assert epochs.entries() == after
    assert bool(epochs.version) == (after != [(2, 10), (4, 20), (7, 50)])


def test_truncating_from_the_end(epochs):
    epochs.truncate_from_end(51)
    assert epochs.version == 0
    epochs.truncate_from_end(50)
    assert epochs.entries() == [(2, 10), (4, 20)]
    epochs.truncate_from_end(0)
    assert epochs.entries() == []


def test_truncating_from_the_start(epochs):
    epochs.truncate_from_start(5)
    assert epochs.version == 0
    epochs.truncate_from_start(25)
    assert epochs.entries() == [(4, 25), (7, 50)]
    epochs.truncate_from_start(50)
    assert epochs.entries() == [(7, 50)]


def test_reaching_back_to_the_start_of_a_log(epochs):
    epochs.reach_back_to(10)
    assert epochs.version == 0
    epochs.reach_back_to(7)
    assert epochs.entries() == [(2, 7), (4, 20), (7, 50)]
    nothing = LeaderEpochFileCache()
    nothing.reach_back_to(0)
    assert nothing.entries() == []
