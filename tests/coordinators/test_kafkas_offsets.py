"""Groups and offsets move between Apache Kafka and this coordinator by their records.

`offsets.kafka-4.3.1.bin` holds batches of `__consumer_offsets` as Kafka 4.3.1 wrote them.
"""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from headrace.base.internal_topics import OFFSETS_TOPIC
from headrace.log.append import AppendOrigin
from headrace.records.batch import batches, read_records
from headrace.wire.schemas.describe_groups import DescribeGroupsRequest
from headrace.wire.schemas.list_groups import ListGroupsRequest
from tests.server.beside_kafka.find_coordinator import ask_for
from tests.server.group_members import stable_group
from tests.server.group_requests import commit, subscription
from tests.server.node_world import NodeWorld, simulated

SAMPLE = Path(__file__).with_name("offsets.kafka-4.3.1.bin")
LIBS = Path(os.environ.get("PEERS_HOME", Path.home() / ".cache/peers")) / "kafka/4.3.1/libs"
ONE_PARTITION = {"offsets_topic_num_partitions": "1"}
BY_NAME = 9


def kinds(data: bytes) -> set[tuple[int, int | None]]:
    """Of every record the number of its key and the version of its value."""
    found = set()
    for at, header in batches(data):
        for record in read_records(data[at : at + header.size]):
            assert record.key is not None
            version = None if record.value is None else int.from_bytes(record.value[:2], "big")
            found.add((int.from_bytes(record.key[:2], "big"), version))
    return found


async def with_groups(world: NodeWorld) -> bytes:
    """Everything a classic group writes; returns the bytes of the log."""
    await world.create_topic("t", 2)
    members = await stable_group(world, "stable", 2, protocols={"range": subscription("t")})
    await stable_group(world, "static", 1, instance="seat")
    client = await world.connect()
    request = commit(
        "stable", "t", {0: 5, 1: 6}, member=members[0].id, generation=2, metadata="a note", epoch=3
    )
    await members[0].client.ask(request, BY_NAME)
    await client.ask(commit("simple", "t", {0: 7}), BY_NAME)
    gone = await stable_group(world, "gone", 1)
    await gone[0].leave()
    world.node.parts.groups.shard_for("gone").cleanup_expired_offsets(["gone"])
    await world.stop()
    return world.machine.disk.read_file(f"/data/{OFFSETS_TOPIC}-0/00000000000000000000.log")


def test_we_write_the_versions_that_kafka_writes() -> None:
    ours: list[bytes] = []

    @simulated(**ONE_PARTITION)
    async def script(world: NodeWorld) -> None:
        ours.append(await with_groups(world))

    script()
    # 1 is an offset and 2 a group, each with a version of its own, and both are deleted by null.
    assert kinds(ours[0]) == {(1, 4), (2, 3), (2, None)}
    assert kinds(SAMPLE.read_bytes()) == {(1, 4), (1, None), (2, 3), (2, None)}


@simulated(**ONE_PARTITION)
async def test_groups_that_kafka_wrote_go_on_here(world: NodeWorld) -> None:
    client = await world.connect()
    await client.ask(ask_for(6, "g"), 6)
    partition = world.partition(OFFSETS_TOPIC)
    sample = bytearray(SAMPLE.read_bytes())
    partition.append(sample, now_ms=0, origin=AppendOrigin.COORDINATOR, api_version=-1)
    runtime = world.node.parts.groups.runtime
    runtime.unload(0)
    runtime.on_leadership_change(partition)
    response = await client.ask(ListGroupsRequest(), 5)
    states = {each.group_id.partition(".")[2]: each.group_state for each in response.groups}
    assert states == {
        "completing": "Empty",  # it was never stable, so Kafka wrote of it only that it began
        "connect": "Empty",
        "empty": "Empty",
        "given": "Empty",
        "preparing": "Stable",  # as it was before its rebalance
        "stable": "Stable",
        "static": "Stable",
    }
    names = {each.group_id.partition(".")[2]: each.group_id for each in response.groups}
    described = (await client.ask(DescribeGroupsRequest([names["static"]]), 6)).groups[0]
    member = described.members[0]
    assert (described.protocol_type, described.protocol_data) == ("consumer", "range")
    assert (member.group_instance_id, member.member_assignment) == ("i", b"all")


@pytest.mark.java
@pytest.mark.skipif(
    not LIBS.is_dir() or shutil.which("java") is None, reason="needs Java and Apache Kafka's jars"
)
def test_kafkas_own_tool_reads_our_groups(tmp_path: Path) -> None:
    file = tmp_path / f"{OFFSETS_TOPIC}-0" / "00000000000000000000.log"
    file.parent.mkdir()

    @simulated(**ONE_PARTITION)
    async def script(world: NodeWorld) -> None:
        file.write_bytes(await with_groups(world))

    script()
    tool = "org.apache.kafka.tools.DumpLogSegments"
    words = ["java", "-Xmx256M", "-cp", f"{LIBS}/*", tool, "--offsets-decoder", "--files", str(file)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stdout + done.stderr
    text = done.stdout
    assert "isvalid: false" not in text
    assert '{"type":"1","data":{"group":"stable","topic":"t","partition":1}}' in text
    assert '"offset":6,"leaderEpoch":3,"metadata":"a note"' in text
    assert '"protocolType":"consumer","generation":2,"protocol":"range"' in text
    assert '"groupInstanceId":"seat"' in text
    assert "payload: <DELETE>" in text
    records = [line for line in text.splitlines() if "key:" in line]
    assert len(records) == sum(header.record_count for _, header in batches(file.read_bytes()))
