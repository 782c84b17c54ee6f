"""What the commands show of a remote store, on a cluster that has one."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from headrace.cli.main import cli
from headrace.testing.cluster import Cluster
from tests.tiered.tiered_cluster import TOPIC, tiered_cluster, wait_for_tail, write

RECORDS = 1000


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tiers") / "store"


@pytest.fixture(scope="module")
def cluster(store: Path) -> Iterator[Cluster]:
    with tiered_cluster(store) as started:
        started.create_topic("tiered", configs=TOPIC)
        started.create_topic("plain")
        write(started, "tiered", RECORDS)
        wait_for_tail(started, "tiered", at_least=RECORDS - 100)  # all but the active segment
        yield started


def run(cluster: Cluster, *words: str, code: int = 0) -> Result:
    result = CliRunner(env={"HEADRACE_BOOTSTRAP_SERVER": cluster.bootstrap_servers}).invoke(cli, words)
    assert result.exit_code == code, result.output
    return result


def test_describe_shows_both_tiers(cluster: Cluster, store: Path) -> None:
    (described,) = json.loads(run(cluster, "topic", "describe", "tiered", "--json").output)
    (tiers,) = described["tiers"]
    assert tiers["partition"] == tiers["start"] == 0
    assert tiers["end"] == RECORDS
    assert RECORDS // 2 <= tiers["local_start"] <= tiers["tiered_to"] < RECORDS
    assert tiers["copy_lag"] == RECORDS - tiers["tiered_to"]
    segments = list(store.glob("tiered-*/0/*.log"))
    assert tiers["remote_segments"] == len(segments)
    assert tiers["remote_bytes"] == sum(each.stat().st_size for each in segments)
    assert tiers["local_bytes"] > 0
    shown = run(cluster, "topic", "describe", "tiered").output
    assert "LOCAL START  REMOTE END" in shown
    assert str(tiers["remote_bytes"]) in shown


def test_a_topic_that_is_not_tiered_has_no_tiers(cluster: Cluster) -> None:
    (described,) = json.loads(run(cluster, "topic", "describe", "plain", "--json").output)
    assert "tiers" not in described
    assert "REMOTE" not in run(cluster, "topic", "describe", "plain").output


def test_objects_are_dumped_by_url_and_by_path(cluster: Cluster, store: Path) -> None:
    first = min(store.glob("tiered-*/0/*.log"))
    by_url = run(cluster, "log", "dump", "--records", f"file://{first}").output
    assert "offsets 0–9  records 10" in by_url
    assert f"value {7:0100}" in by_url
    by_path = run(cluster, "log", "dump", "--records", str(first)).output
    assert by_path.splitlines()[1:] == by_url.splitlines()[1:]
    for suffix, told in (
        (".index", "offset "),
        (".epochs", "epoch 0  start_offset 0"),
        (".timeindex", "timestamp "),
    ):
        assert told in run(cluster, "log", "dump", f"file://{first.with_suffix(suffix)}").output
    missing = run(cluster, "log", "dump", f"file://{store}/nothing.log", code=1)
    assert "there is no such object" in missing.stderr


def test_records_about_the_store_are_decoded(cluster: Cluster, store: Path, tmp_path: Path) -> None:
    words = ["consume", "__remote_log_metadata", "--from-beginning", "--json"]
    assert run(cluster, *words).output
    files = run(cluster, "cluster", "describe", "--log-dirs", "--json")
    (log_dir,) = json.loads(files.output)["log_dirs"]
    logs = [str(path) for path in Path(log_dir["path"]).glob("__remote_log_metadata-*/*.log")]
    shown = run(cluster, "log", "dump", "--decode", "remote", *logs).output
    assert "RemoteLogSegmentMetadataRecord(" in shown
    assert "RemoteLogSegmentMetadataUpdateRecord(" in shown
