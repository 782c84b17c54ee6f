"""Rates over windows and by buckets, as Kafka's Rate and TokenBucket count them."""

import random

import pytest

from headrace.base.rates import SampledRate, TokenBucket, Windows

WINDOWS = Windows(11, 1000)


def test_a_burst_is_measured_against_all_windows_but_one() -> None:
    rate = SampledRate(WINDOWS)
    rate.record(5000, 0)
    assert rate.rate(0) == 500
    assert rate.throttle_ms(500, 0) == 0
    assert rate.throttle_ms(250, 0) == 10_000
    assert rate.throttle_ms(1000, 0) == 0


@pytest.mark.parametrize("seed", range(5))
def test_the_sum_is_that_of_the_windows(seed: int) -> None:
    """Against a list of all that happened, whatever came when."""
    chance = random.Random(seed)
    rate, now_ms = SampledRate(WINDOWS), 0
    windows: list[list[float]] = []  # begin, last, sum
    for _ in range(500):
        now_ms += chance.choice([0, 10, 400, 999, 1000, 3000, 12_000])
        value = chance.uniform(0, 300)
        windows = [each for each in windows if now_ms - each[1] < WINDOWS.span_ms]
        if not windows or now_ms - windows[-1][0] >= WINDOWS.size_ms:
            windows.append([now_ms, now_ms, 0])
        windows[-1][1] = now_ms
        windows[-1][2] += value
        rate.record(value, now_ms)
        elapsed_ms = now_ms - windows[0][0]
        span_ms = max(elapsed_ms, elapsed_ms % 1000 + 10_000 if elapsed_ms < 10_000 else 0)
        expected = sum(each[2] for each in windows) / span_ms * 1000
        assert rate.rate(now_ms) == pytest.approx(expected)


def test_what_is_older_than_all_windows_is_forgotten() -> None:
    rate = SampledRate(WINDOWS)
    rate.record(5000, 0)
    rate.record(100, 10_500)
    assert rate.rate(10_999) == pytest.approx(5100 / 10.999)
    assert rate.rate(11_000) == pytest.approx(100 / 10.5)
    assert not rate.is_idle(21_499)
    assert rate.is_idle(21_500)
    assert rate.rate(21_500) == 0


def test_what_is_taken_back_counts_no_more() -> None:
    rate = SampledRate(WINDOWS)
    rate.record(700, 5)
    rate.record(-700, 5)
    assert rate.rate(5) == 0


def test_a_steady_load_is_held_to_its_limit() -> None:
    """Who sends as fast as it is let gets what its quota says, within a window's worth."""
    rate, now_ms, sent, limit = SampledRate(WINDOWS), 0, 0, 10_000
    while now_ms < 120_000:
        rate.record(3000, now_ms)
        sent += 3000
        now_ms += max(rate.throttle_ms(limit, now_ms), 1)
    assert sent / 120 == pytest.approx(limit, rel=0.1)


def test_a_bucket_begins_full_and_may_be_overdrawn_once() -> None:
    bucket = TokenBucket(WINDOWS)
    bucket.take(30, 2, 0)  # it had 22
    assert bucket.throttle_ms(2, 0) == 4000
    assert bucket.throttle_ms(2, 3000) == 1000
    assert bucket.throttle_ms(2, 4000) == 0
    assert not bucket.is_full(2, 10_000)
    assert bucket.is_full(2, 15_000)
