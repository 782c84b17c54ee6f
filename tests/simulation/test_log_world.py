"""The real log on the simulated disk; `headrace sim --scenario log --seeds 1000` is the long form."""

import pytest

from headrace.testing.simulate import play


@pytest.mark.parametrize("seed", range(100))
def test_log(seed):
    play("log", seed)


# Found by longer runs. 391, 2906: a damaged batch below the recovery point and a damaged snapshot made a
# producer's sequence unknown. 859: the run itself filled the disk. 272: a whole batch with a damaged length
# was taken for an unfinished one, and was back after a power cut. 7100359, 7100360: a batch's length
# was damaged, and consumers go on behind its segment, as the log says.
@pytest.mark.parametrize("seed", [272, 391, 859, 2906, 7100359, 7100360])
def test_log_seeds_that_failed_once(seed):
    play("log", seed)
