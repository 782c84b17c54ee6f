"""Apache Kafka's tools read our metadata log and snapshots, and we read what its tool formats."""

import asyncio
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from headrace.log.system_disk import SystemDisk
from headrace.raft.metadata_log import read_bootstrap
from headrace.raft.snapshots import list_snapshots, read_snapshot
from tests.raft.building import Follower, format_alone, node_config, open_driver, topics

LIBS = Path(os.environ.get("PEERS_HOME", Path.home() / ".cache/peers")) / "kafka/4.3.1/libs"

pytestmark = [
    pytest.mark.java,
    pytest.mark.skipif(
        not LIBS.is_dir() or shutil.which("java") is None, reason="needs Java and Apache Kafka's jars"
    ),
]


def java(*words: str) -> str:
    done = subprocess.run(
        ["java", "-Xmx256M", "-cp", f"{LIBS}/*", *words], capture_output=True, text=True, timeout=100
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def dump(*paths: Path) -> str:
    files = ",".join(map(str, paths))
    return java("org.apache.kafka.tools.DumpLogSegments", "--cluster-metadata-decoder", "--files", files)


def test_kafka_dumps_our_log_and_our_snapshots(tmp_path: Path) -> None:
    async def scenario() -> None:
        settings = {"metadata.log.max.record.bytes.between.snapshots": 400}
        driver = open_driver(SystemDisk(), node_config(str(tmp_path), **settings), Follower())
        await driver.start()
        for number in range(6):
            await driver.append(topics([f"topic-{number}", f"other-{number}"]))
        await driver.stop()

    format_alone(SystemDisk(), str(tmp_path))
    asyncio.run(scenario())
    folder = tmp_path / "__cluster_metadata-0"
    logs = sorted(folder.glob("*.log"))
    snapshots = [folder / found.file_name for found in list_snapshots(SystemDisk(), str(folder))]
    assert len(snapshots) > 1
    text = dump(*logs, *snapshots, tmp_path / "bootstrap.checkpoint")
    assert "isvalid: false" not in text
    assert '"leaderId":1,"voters":[{"voterId":1}],"grantingVoters":[{"voterId":1}]' in text
    assert '"type":"TOPIC_RECORD","version":0,"data":{"name":"topic-5"' in text
    assert "KRaft bootstrap snapshot" in text
    assert len(re.findall("SnapshotFooter", text)) == len(snapshots) + 1
    assert '"endpoints":[{"name":"CONTROLLER","host":"localhost","port":9093}]' in text


def test_we_take_over_a_directory_that_kafka_formatted(tmp_path: Path) -> None:
    directory = tmp_path / "data"
    config = node_config(str(directory))
    (tmp_path / "node.properties").write_text(
        "\n".join(f"{name}={value}" for name, value in config.static.items())
    )
    java(
        "kafka.tools.StorageTool",
        "format",
        "--standalone",
        "-t",
        "MkU3OEVBNTcwNTJENDM2Qg",
        "-c",
        str(tmp_path / "node.properties"),
    )
    bootstrap = read_bootstrap(SystemDisk(), str(directory))
    assert bootstrap is not None
    assert bootstrap.records[0].name == "metadata.version"
    folder = directory / "__cluster_metadata-0"
    first = read_snapshot(SystemDisk(), str(folder), list_snapshots(SystemDisk(), str(folder))[0])
    assert first.voters is not None
    assert first.voters.by_id[1].endpoints == {"CONTROLLER": ("localhost", 9093)}

    async def scenario() -> Follower:
        follower = Follower()
        assert first.voters is not None
        directory_id = first.voters.by_id[1].directory_id
        driver = open_driver(SystemDisk(), config, follower, directory_id=directory_id)
        await driver.start()
        await driver.append(topics(["a"]))
        await driver.stop()
        return follower

    follower = asyncio.run(scenario())
    assert follower.leaders == [(1, 1)]
    assert "isvalid: false" not in dump(*folder.glob("*.log"))
