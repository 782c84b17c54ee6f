"""What the commands show of a remote store, on a cluster that has one."""

import json
import shutil
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from headrace.cli.main import cli
from headrace.clients.tiered_partition import TierOffsets, spread
from headrace.log.system_disk import SystemDisk
from headrace.testing.cluster import Cluster
from headrace.tiered.metadata_cache import RemoteLogMetadataCache
from headrace.tiered.stores.folder import FolderStore
from tests.tiered.building import remote_segment
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
    assert tiers["only_local"] == RECORDS - tiers["tiered_to"]
    # Everything but the active segment is copied, and that one is not waited for.
    assert tiers["only_local_bytes"] == tiers["local_bytes"] > 0
    assert tiers["copy_lag_bytes"] == 0
    segments = list(store.glob("tiered-*/0/*.log"))
    assert tiers["remote_segments"] == len(segments)
    assert tiers["remote_bytes"] == sum(each.stat().st_size for each in segments)
    shown = run(cluster, "topic", "describe", "tiered").output
    assert "LOCAL START  REMOTE END" in shown
    assert "ONLY LOCAL BYTES  COPY LAG BYTES" in shown
    assert str(tiers["remote_bytes"]) in shown


def test_a_topic_that_is_not_tiered_has_no_tiers(cluster: Cluster) -> None:
    (described,) = json.loads(run(cluster, "topic", "describe", "plain", "--json").output)
    assert "tiers" not in described
    assert "REMOTE" not in run(cluster, "topic", "describe", "plain").output


def folder_of(cluster: Cluster, partition: str) -> Path:
    (log_dir,) = json.loads(run(cluster, "cluster", "describe", "--log-dirs", "--json").output)["log_dirs"]
    return Path(log_dir["path"]) / partition


def dumped(cluster: Cluster, *words: str) -> dict[str, list[dict[str, Any]]]:
    """What was told of a folder, by kind."""
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for line in run(cluster, "log", "dump", "--json", *words).output.splitlines():
        item = json.loads(line)
        found[item["kind"]].append(item)
    return found


def check_dump(cluster: Cluster, store: Path, found: dict[str, list[dict[str, Any]]]) -> None:
    (described,) = json.loads(run(cluster, "topic", "describe", "tiered", "--json").output)
    (tiers,) = described["tiers"]
    (summed,) = found["PartitionTiers"]
    copies, local = found["RemoteCopy"], found["LocalSegment"]
    assert (summed["remote_start"], summed["remote_end"]) == (0, tiers["tiered_to"])
    assert (summed["local_start"], summed["local_end"]) == (tiers["local_start"], RECORDS)
    assert summed["remote_bytes"] == tiers["remote_bytes"] == sum(each["size_bytes"] for each in copies)
    assert summed["local_bytes"] == summed["active_bytes"] == tiers["local_bytes"]
    assert (summed["copy_lag_bytes"], summed["copy_lag_segments"]) == (0, 0)
    assert [each["is_active"] for each in local] == [True]
    names = sorted(path.name for path in store.glob("tiered-*/0/*.log"))
    assert [f"{each['start']:020}-{each['segment_id']}.log" for each in copies] == names
    assert [each["end"] for each in copies] == [*(each["start"] for each in copies[1:]), tiers["tiered_to"]]


def test_a_partition_folder_is_dumped_with_both_tiers(cluster: Cluster, store: Path) -> None:
    folder = folder_of(cluster, "tiered-0")
    check_dump(cluster, store, dumped(cluster, str(folder)))
    shown = run(cluster, "log", "dump", f"{folder}/").output
    assert "TIER    FIRST OFFSET  LAST OFFSET" in shown
    assert f"offsets 0–{folder_start(folder) - 1}, " in shown
    assert "copy lag  0 bytes in 0 segments, beside " in shown


def folder_start(folder: Path) -> int:
    return min(int(path.stem) for path in folder.glob("*.log"))


@pytest.mark.parametrize("kind", ["url", "class"])
def test_without_records_the_store_is_asked(cluster: Cluster, store: Path, tmp_path: Path, kind: str) -> None:
    """A copy of the partition's folder alone; the store is a folder, or a class of the user's own."""
    folder = Path(shutil.copytree(folder_of(cluster, "tiered-0"), tmp_path / "copy" / "tiered-0"))
    alone = dumped(cluster, str(folder))
    assert alone["PartitionTiers"][0]["remote_bytes"] is None
    assert "RemoteCopy" not in alone
    config = tmp_path / "server.properties"
    if kind == "url":
        config.write_text(f"rsm.config.url={store}\n")
    else:
        name = f"{__name__}.{OwnStore.__name__}"
        config.write_text(f"remote.log.storage.manager.class.name={name}\nrsm.config.shelf={store}\n")
    found = dumped(cluster, "--config", str(config), str(folder))
    assert {each["state"] for each in found["RemoteCopy"]} == {"in the store"}
    check_dump(cluster, store, found)
    first = min(store.glob("tiered-*/0/*.log"))
    by_name = run(cluster, "log", "dump", "-c", str(config), str(first.relative_to(store))).output
    assert "offsets 0–9  records 10" in by_name
    by_prefix = dumped(cluster, "--config", str(config), str(first.parent.relative_to(store)))
    assert len(by_prefix["RemoteCopy"]) == len(found["RemoteCopy"])


class OwnStore(FolderStore):
    """A class of a user's own."""

    def __init__(self, settings: dict[str, str]) -> None:
        super().__init__(SystemDisk(), settings["shelf"])


def test_closed_segments_that_are_not_copied_are_the_copy_lag(cluster: Cluster, tmp_path: Path) -> None:
    """A log that has gone on without being copied: here by files that say so."""
    root = folder_of(cluster, "tiered-0").parent
    data = tmp_path / "data"
    shutil.copytree(root / "tiered-0", data / "tiered-0")
    for records in root.glob("__remote_log_metadata-*"):
        shutil.copytree(records, data / records.name)
    start = folder_start(data / "tiered-0")
    closed = data / "tiered-0" / f"{start:020}.log"
    (data / "tiered-0" / f"{RECORDS:020}.log").write_bytes(b"")
    (tiers,) = dumped(cluster, str(data / "tiered-0"))["PartitionTiers"]
    assert (tiers["copy_lag_bytes"], tiers["copy_lag_segments"]) == (closed.stat().st_size, 1)
    assert tiers["active_bytes"] == 0


def test_folders_of_other_kinds(cluster: Cluster, tmp_path: Path) -> None:
    folder = folder_of(cluster, "plain-0")
    shown = run(cluster, "log", "dump", str(folder)).output
    assert "local" in shown
    assert "remote" not in shown
    refused = run(cluster, "log", "dump", str(folder.parent.parent), code=1).stderr
    assert "is no partition's folder: `headrace log describe`" in refused


def test_replaced_copies_do_not_count_and_one_segment_is_no_lag() -> None:
    remote = RemoteLogMetadataCache()
    for segment in (remote_segment(1, 0, 9), remote_segment(2, 10, 19), remote_segment(3, 0, 19, size=70)):
        remote.apply(segment)
    remote.apply(remote_segment(4, 20, 29, size=50))
    offsets = TierOffsets(start=0, local_start=20, tiered_to=30, end=45)
    tiers = spread(0, offsets, remote, local_bytes=500, segment_bytes=100)
    assert (tiers.remote_segments, tiers.remote_bytes) == (2, 120)
    assert (tiers.only_local, tiers.only_local_bytes, tiers.copy_lag_bytes) == (15, 450, 350)
    assert spread(0, offsets, remote, local_bytes=140, segment_bytes=100).copy_lag_bytes == 0
    assert spread(0, offsets, remote, local_bytes=None, segment_bytes=100).copy_lag_bytes is None


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
