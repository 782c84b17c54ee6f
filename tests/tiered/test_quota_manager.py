"""A bound on bytes per second."""

from headrace.tiered.quota_manager import RLMQuotaManager

MIB = 1 << 20


def test_what_was_taken_is_waited_for_and_what_was_not_used_is_kept_for_a_second() -> None:
    pace = RLMQuotaManager(lambda: 100)
    assert pace.wait_s(50.0) == 0
    pace.take(100, 50.0)
    assert pace.wait_s(50.0) == 0, "a second's worth was not used"
    pace.take(300, 50.0)
    assert pace.wait_s(50.0) == 3
    assert pace.wait_s(52.5) == 0.5
    assert pace.wait_s(53.0) == 0
    pace.take(50, 1_000.0)
    pace.take(200, 1_000.0)
    assert pace.wait_s(1_000.0) == 1.5
    pace.take(-150, 1_000.0)
    assert pace.wait_s(1_000.0) == 0


def test_a_rate_that_changes_holds_for_what_was_taken_before() -> None:
    rate = MIB
    pace = RLMQuotaManager(lambda: rate)
    pace.take(1024 * MIB, 0.0)
    assert pace.wait_s(0.0) == 1024
    rate = 4 * MIB
    assert pace.wait_s(0.0) == 256
    rate = (1 << 63) - 1
    assert pace.wait_s(0.0) < 0.001
    assert pace.wait_s(0.5) == 0
    rate = 100
    assert pace.wait_s(1.0) == 0
    pace.take(300, 1.0)
    assert pace.wait_s(1.0) == 2, "what an older rate left over does not count"
