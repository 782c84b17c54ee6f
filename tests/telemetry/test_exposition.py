"""The text of metrics: both forms say the same, and lines that are written here are as the library's."""

import pytest

from headrace.telemetry.metrics.broker_topic_stats import BrokerTopicStats
from headrace.telemetry.metrics.catalogue import METRICS
from headrace.telemetry.metrics.exposition import ROWS_PER_SLICE, Families, content_type, labels_text
from headrace.telemetry.metrics.histogram import Histogram
from headrace.telemetry.metrics.window import WINDOW_S, Window
from tests.telemetry.expressions import names_asked_by_own
from tests.telemetry.scraping import OPEN, labels, samples_of

NAME = "kafka_log_log_size"
WORDS = ["plain", 'with "quotes"', "back\\slash", "two\nlines", "größer"]


def families() -> Families:
    made = Families()
    made.add("kafka_brokers", 3)
    made.add("kafka_server_brokertopicmetrics_bytesin_total", 7, "t")
    made.add("kafka_server_socket_server_metrics_connection_count", 2, "PLAINTEXT")
    times = Histogram((1, 10))
    for value in (0.5, 5, 5, 50):
        times.observe(value)
    made.add_histogram("kafka_network_requestmetrics_localtimems", times, "Fetch")
    for number, word in enumerate(WORDS):
        made.rows(NAME).append(f"{NAME}{labels_text(topic=word, partition=number)} {number}\n")
    return made


@pytest.mark.parametrize("accept", ["", "text/plain", OPEN])
def test_both_forms_say_the_same(accept: str) -> None:
    is_open = accept == OPEN
    text = b"".join(families().text(accept)).decode()
    assert text.endswith("# EOF\n") is is_open
    assert ("openmetrics" in content_type(accept)) is is_open
    found = samples_of(text, is_open=is_open)
    assert found["kafka_brokers"] == {(): 3}
    assert found["kafka_server_brokertopicmetrics_bytesin_total"] == {labels(topic="t"): 7}
    assert found["kafka_network_requestmetrics_localtimems_bucket"] == {
        labels(request="Fetch", le="1.0"): 1,
        labels(request="Fetch", le="10.0"): 3,
        labels(request="Fetch", le="+Inf"): 4,
    }
    assert found["kafka_network_requestmetrics_localtimems_sum"] == {labels(request="Fetch"): 60.5}
    assert found[NAME] == {labels(topic=word, partition=at): at for at, word in enumerate(WORDS)}


def test_many_lines_are_joined_in_slices() -> None:
    made = Families()
    made.rows(NAME).extend(f"{NAME}{labels_text(topic='t', partition=n)} {n}\n" for n in range(9_999))
    pieces = list(made.text(""))
    assert len(pieces) == 1 + -(-9_999 // ROWS_PER_SLICE)
    assert len(samples_of(b"".join(pieces).decode())[NAME]) == 9_999


def test_what_the_catalogue_lacks_cannot_be_shown() -> None:
    with pytest.raises(KeyError):
        Families().add("kafka_unheard_of", 1)


def test_every_metric_is_said_in_one_sentence_or_two() -> None:
    assert len(METRICS) > 70
    for spec in METRICS.values():
        assert spec.text.endswith("."), spec
        assert spec.section, spec


def test_own_rules_and_dashboard_ask_for_what_there_is() -> None:
    asked = names_asked_by_own()
    assert len(asked) > 40
    histograms = {name for name, spec in METRICS.items() if spec.kind == "histogram"}
    parts = {f"{name}_{part}" for name in histograms for part in ("bucket", "count", "sum")}
    assert not asked - METRICS.keys() - parts


def test_sums_keep_what_went_with_a_topic() -> None:
    stats = BrokerTopicStats()
    for topic in ("a", "a", "b"):
        stats.join(topic).bytes_in += 10
    stats.leave("a")
    assert stats.by_topic["a"].bytes_in == 20
    stats.leave("a")
    assert list(stats.by_topic) == ["b"]
    assert stats.sum("bytes_in") == 30


def test_a_rate_is_of_the_last_half_minute() -> None:
    window = Window()
    assert window.rate(0.0, 100) == 0
    assert window.rate(10.0, 200) == 10
    for second in range(11, 100):
        rate = window.rate(float(second), 200 + 5 * (second - 10))
    assert rate == 5
    assert window.rate(100.0 + WINDOW_S, 0) == 0  # it began anew
