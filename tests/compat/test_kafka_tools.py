"""Apache Kafka's command-line tools, as their users run them; one JVM runs them all (java/Tools.java)."""

import json
import re
import subprocess
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.compat import prepare
from tests.compat.brokers import NODES, REPLICAS, Broker
from tests.compat.clients.confluent import Confluent
from tests.compat.clients.external import Program
from tests.compat.clients.face import Record, eventually
from tests.compat.conftest import MakeTopic
from tests.compat.dump_check import check_files
from tests.compat.prepare import UnavailableError
from tests.compat.samples import hour_ago_ms

pytestmark = pytest.mark.java

TOOLS = "org.apache.kafka.tools"
GROUP_COMMAND = f"{TOOLS}.consumer.group.ConsumerGroupCommand"
CONSOLE_CONSUMER = f"{TOOLS}.consumer.ConsoleConsumer"
SHARE_GROUP_COMMAND = f"{TOOLS}.consumer.group.ShareGroupCommand"
CONSOLE_SHARE_CONSUMER = f"{TOOLS}.consumer.ConsoleShareConsumer"
CONFIG_COMMAND = "kafka.admin.ConfigCommand"
QUORUM_COMMAND = f"{TOOLS}.MetadataQuorumCommand"

# The versions that the tools of 4.3 use, of the requests that every release must have.
NEWEST = {
    "Produce": 13,
    "Fetch": 18,
    "ListOffsets": 11,
    "Metadata": 13,
    "OffsetCommit": 10,
    "OffsetFetch": 10,
    "FindCoordinator": 6,
    "JoinGroup": 9,
    "Heartbeat": 4,
    "LeaveGroup": 5,
    "SyncGroup": 5,
    "CreateTopics": 7,
    "DeleteTopics": 6,
    "DeleteRecords": 2,
    "InitProducerId": 5,
    "DescribeConfigs": 4,
}

LEADING = frozenset({QUORUM_COMMAND, f"{TOOLS}.FeatureCommand", f"{TOOLS}.TransactionsCommand"})

Tool = Callable[..., str]


@pytest.fixture(scope="module")
def tool(broker: Broker) -> Iterator[Tool]:
    """Runs a tool against the broker and answers what it printed; fails if it ends with another code."""
    try:
        program = Program([*prepare.java_command(classes=prepare.java_program()), "Compat"])
    except UnavailableError as reason:
        pytest.skip(str(reason))

    def run(main: str, *arguments: str, stdin: str = "", code: int = 0) -> str:
        main = main if "." in main else f"{TOOLS}.{main}"
        # MetadataQuorumCommand wants it before its sub-command, ClusterTool after it.
        where = ["--bootstrap-server", broker.bootstrap]
        words = [*where, *arguments] if main in LEADING else [*arguments, *where]
        done = program.ask("tool", main=main, arguments=words, stdin=stdin)
        said = str(done["out"]) + str(done["err"])
        assert done["code"] == code, f"{main} {' '.join(words)} ended with {done['code']}:\n{said}"
        return said

    yield run
    program.close()


@pytest.fixture(scope="module")
def confluent(broker: Broker) -> Confluent:
    return Confluent(broker.bootstrap)


def _fill(confluent: Confluent, topic: str, partitions: int, each: int) -> None:
    records = [Record(at % partitions, hour_ago_ms(), b"key", b"%d" % at) for at in range(partitions * each)]
    confluent.produce(topic, records, "none")


def test_topics(tool: Tool) -> None:
    topic = f"tool-{uuid.uuid4().hex[:8]}"
    options = ("--partitions", "2", "--config", "retention.ms=86400000")
    assert f"Created topic {topic}." in tool("TopicCommand", "--create", "--topic", topic, *options)
    eventually(lambda: topic in tool("TopicCommand", "--list").split(), "the topic to be listed")
    tool("TopicCommand", "--alter", "--topic", topic, "--partitions", "3")
    described = eventually(lambda: _described(tool, topic, partitions=3), "three partitions")
    head = rf"Topic: {topic}\tTopicId: \S{{22}}\tPartitionCount: 3\tReplicationFactor: {REPLICAS}"
    assert re.search(head, described)
    assert "retention.ms=86400000" in described
    places = re.findall(r"Partition: \d\tLeader: (\d+)\tReplicas: ([\d,]+)\tIsr: ([\d,]+)", described)
    assert len(places) == 3
    for leader, replicas, in_sync in places:
        assert leader in replicas.split(",")
        assert len(replicas.split(",")) == REPLICAS
        assert sorted(replicas.split(",")) == sorted(in_sync.split(","))
    assert "already exists" in tool("TopicCommand", "--create", "--topic", topic, code=1)
    tool("TopicCommand", "--create", "--topic", topic, "--if-not-exists")
    tool("TopicCommand", "--delete", "--topic", topic)
    eventually(lambda: topic not in tool("TopicCommand", "--list").split(), "the topic to be gone")


def _described(tool: Tool, topic: str, partitions: int) -> str:
    said = tool("TopicCommand", "--describe", "--topic", topic)
    return said if f"PartitionCount: {partitions}" in said else ""


def test_configurations_of_a_topic(tool: Tool, make_topic: MakeTopic) -> None:
    topic = make_topic()
    entity = ("--entity-type", "topics", "--entity-name", topic)
    change = "max.message.bytes=700000,cleanup.policy=[compact,delete]"
    tool(CONFIG_COMMAND, "--alter", *entity, "--add-config", change)
    described = eventually(lambda: _configured(tool, "max.message.bytes=700000", *entity), "the change")
    assert "max.message.bytes=700000 sensitive=false" in described
    assert "DEFAULT_CONFIG:message.max.bytes=1048588" in described
    assert "cleanup.policy=compact,delete" in described
    tool(CONFIG_COMMAND, "--alter", *entity, "--delete-config", "max.message.bytes")
    eventually(lambda: "max.message.bytes" not in tool(CONFIG_COMMAND, "--describe", *entity), "the default")
    assert "max.message.bytes=1048588" in tool(CONFIG_COMMAND, "--describe", *entity, "--all")
    refused = tool(CONFIG_COMMAND, "--alter", *entity, "--add-config", "retention.ms=soon", code=1)
    assert "retention.ms" in refused


def _configured(tool: Tool, wanted: str, *entity: str) -> str:
    """What the tool describes, once it has this."""
    described = tool(CONFIG_COMMAND, "--describe", *entity)
    return described if wanted in described else ""


def test_configurations_of_the_broker(tool: Tool, confluent: Confluent) -> None:
    node = ("--entity-type", "brokers", "--entity-name", str(confluent.cluster()["controller"]))
    described = tool(CONFIG_COMMAND, "--describe", *node, "--all")
    assert "STATIC_BROKER_CONFIG:group.initial.rebalance.delay.ms=0" in described
    assert re.search(r"^  log\.retention\.hours=168 sensitive=false", described, re.MULTILINE)
    tool(CONFIG_COMMAND, "--alter", *node, "--add-config", "log.cleaner.backoff.ms=14000")
    eventually(lambda: _configured(tool, "log.cleaner.backoff.ms=14000", *node), "the change to be seen")
    everyone = ("--entity-type", "brokers", "--entity-default")
    tool(CONFIG_COMMAND, "--alter", *everyone, "--add-config", "log.cleaner.threads=1")
    eventually(lambda: _configured(tool, "log.cleaner.threads=1", *everyone), "the change to be seen")
    refused = tool(CONFIG_COMMAND, "--alter", *node, "--add-config", "node.id=7", code=1)
    assert "node.id" in refused


def test_console_producer_and_consumer(tool: Tool, make_topic: MakeTopic, group: str) -> None:
    topic = make_topic()
    parse = ("parse.key=true", "parse.headers=true", "null.marker=NULL")
    lines = "a:1,b:2\tk1\tone\na:3\tk2\tNULL\n"
    options = [word for each in parse for word in ("--reader-property", each)]
    tool("ConsoleProducer", "--topic", topic, *options, stdin=lines)
    show = ("print.key=true", "print.headers=true", "print.partition=true", "print.offset=true")
    options = [word for each in show for word in ("--formatter-property", each)]
    consume = (CONSOLE_CONSUMER, "--topic", topic, "--from-beginning", "--max-messages", "2")
    said = tool(*consume, "--timeout-ms", "60000", "--group", group, *options)
    assert "Partition:0\tOffset:0\ta:1,b:2\tk1\tone" in said
    assert "Partition:0\tOffset:1\ta:3\tk2\tnull" in said
    assert "Processed a total of 2 messages" in said


def test_offsets(tool: Tool, confluent: Confluent, make_topic: MakeTopic) -> None:
    topic = make_topic(2)
    _fill(confluent, topic, 2, 10)
    confluent.delete_records(topic, {1: 4})
    assert tool("GetOffsetShell", "--topic", topic).split() == [f"{topic}:0:10", f"{topic}:1:10"]
    earliest = tool("GetOffsetShell", "--topic", topic, "--time", "earliest").split()
    assert earliest == [f"{topic}:0:0", f"{topic}:1:4"]
    newest = tool("GetOffsetShell", "--topic", topic, "--time", "max-timestamp").split()
    assert len(newest) == 2
    by_time = tool("GetOffsetShell", "--topic", topic, "--time", str(hour_ago_ms() - 60_000)).split()
    assert by_time == [f"{topic}:0:0", f"{topic}:1:4"]


def test_groups(tool: Tool, confluent: Confluent, make_topic: MakeTopic, group: str) -> None:
    topic = make_topic(2)
    _fill(confluent, topic, 2, 10)
    confluent.join("a", group, topic)
    eventually(lambda: len(confluent.taken("a")) == 20, "the member to read")
    confluent.commit("a")
    assert group in tool(GROUP_COMMAND, "--list").split()
    members = tool(GROUP_COMMAND, "--describe", "--group", group, "--members", "--verbose")
    assert re.search(rf"{group} +rdkafka-\S+ +\S+ +rdkafka +2 .*{topic}:0,1", members), members
    state = tool(GROUP_COMMAND, "--describe", "--group", group, "--state")
    assert re.search(rf"{group} .* range +Stable +1", state), state
    confluent.leave("a")

    described = tool(GROUP_COMMAND, "--describe", "--group", group)
    assert re.findall(rf"{group} +{topic} +(\d) +(\d+) +(\d+) +(\d+)", described) == [
        ("0", "10", "10", "0"),
        ("1", "10", "10", "0"),
    ]
    reset = ("--reset-offsets", "--topic", f"{topic}:1", "--to-offset", "3", "--execute")
    tool(GROUP_COMMAND, "--group", group, *reset)
    assert confluent.committed(group, topic) == {0: 10, 1: 3}
    tool(GROUP_COMMAND, "--group", group, "--delete-offsets", "--topic", f"{topic}:0")
    assert confluent.committed(group, topic) == {1: 3}
    assert re.search(rf"{group} +Classic +consumer", tool("GroupsCommand", "--list"))
    tool(GROUP_COMMAND, "--delete", "--group", group)
    assert group not in tool(GROUP_COMMAND, "--list").split()


def test_share_groups(tool: Tool, confluent: Confluent, make_topic: MakeTopic, group: str) -> None:
    """Read once by the verifiable share consumer, again by the console's after a reset, then deleted."""
    topic = make_topic(2)
    _fill(confluent, topic, 2, 10)
    read = ("--group-id", group, "--max-messages", "20", "--acknowledgement-mode", "sync")
    said = tool("VerifiableShareConsumer", "--topic", topic, *read, "--offset-reset-strategy", "earliest")
    events = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
    assert sum(event["count"] for event in events if event["name"] == "records_consumed") == 20
    acknowledged = [event for event in events if event["name"] == "offsets_acknowledged"]
    assert sum(event["count"] for event in acknowledged) == 20
    assert all(event["success"] for event in acknowledged)

    assert group in tool(SHARE_GROUP_COMMAND, "--list").split()
    assert re.search(rf"{group} +Share +share", tool("GroupsCommand", "--list"))
    described = tool(SHARE_GROUP_COMMAND, "--describe", "--group", group)
    found = re.findall(rf"{group} +{topic} +(\d) +(\d+) +(\d+)", described)
    assert sorted(found) == [("0", "10", "0"), ("1", "10", "0")], described
    state = (SHARE_GROUP_COMMAND, "--describe", "--state", "--group", group)
    eventually(lambda: re.search(rf"{group} .* Empty +0", tool(*state)), "the consumer to have left")

    tool(
        SHARE_GROUP_COMMAND,
        "--group",
        group,
        "--reset-offsets",
        "--topic",
        topic,
        "--to-earliest",
        "--execute",
    )
    again = tool(CONSOLE_SHARE_CONSUMER, "--topic", topic, "--group", group, "--max-messages", "20")
    assert "Processed a total of 20 messages" in again
    tool(SHARE_GROUP_COMMAND, "--group", group, "--delete-offsets", "--topic", topic)
    tool(SHARE_GROUP_COMMAND, "--delete", "--group", group)
    assert group not in tool(SHARE_GROUP_COMMAND, "--list").split()


def test_deleted_records(tool: Tool, confluent: Confluent, make_topic: MakeTopic, tmp_path: Path) -> None:
    topic = make_topic(2)
    _fill(confluent, topic, 2, 10)
    wanted = [{"topic": topic, "partition": 0, "offset": 4}, {"topic": topic, "partition": 1, "offset": -1}]
    file = tmp_path / "offsets.json"
    file.write_text(json.dumps({"version": 1, "partitions": wanted}))
    said = tool("DeleteRecordsCommand", "--offset-json-file", str(file))
    assert f"partition: {topic}-0\tlow_watermark: 4" in said
    assert f"partition: {topic}-1\tlow_watermark: 10" in said
    assert confluent.bounds(topic) == {0: (4, 10), 1: (10, 10)}


def test_log_folders(broker: Broker, tool: Tool, confluent: Confluent, make_topic: MakeTopic) -> None:
    topic = make_topic(2)
    _fill(confluent, topic, 2, 10)
    said = tool("LogDirsCommand", "--describe", "--topic-list", topic)
    told = json.loads(said[said.index("{") :])["brokers"]
    assert len(told) == len(broker.addresses)
    for each in told:
        (folder,) = each["logDirs"]
        assert folder["error"] is None
        assert {place["partition"] for place in folder["partitions"]} == {f"{topic}-0", f"{topic}-1"}
        assert all(place["size"] > 0 and not place["isFuture"] for place in folder["partitions"])
        if broker.folders:
            assert folder["logDir"] == str(broker.folders[each["broker"]])


def test_cluster_and_quorum(broker: Broker, tool: Tool) -> None:
    (cluster_id,) = re.findall(r"Cluster ID: (\S{22})", tool("ClusterTool", "cluster-id"))
    endpoints = tool("ClusterTool", "list-endpoints")
    for address in broker.addresses:
        host, port = address.split(":")
        assert re.search(rf"^\d+ +{re.escape(host)} +{port} .*unfenced +broker", endpoints, re.MULTILINE)
    status = tool(QUORUM_COMMAND, "describe", "--status")
    assert re.search(rf"ClusterId: +{cluster_id}\n", status)
    leader = re.search(r"LeaderId: +(\d+)\n", status)
    assert leader
    assert re.search(r"HighWatermark: +[1-9]\d*\n", status)
    assert len(re.findall(r'"id": \d+', status.partition("CurrentVoters:")[2])) == len(broker.addresses)
    replication = tool(QUORUM_COMMAND, "describe", "--replication")
    assert re.search(rf"^{leader[1]} .*Leader", replication, re.MULTILINE)


def test_features(tool: Tool) -> None:
    said = tool("FeatureCommand", "describe")
    levels = dict(re.findall(r"Feature: (\S+) .*FinalizedVersionLevel: (\S+)", said))
    assert levels["metadata.version"].startswith("4.")
    assert levels["group.version"] == "1"
    assert {"kraft.version", "transaction.version"} <= set(levels)


def test_api_versions(broker: Broker, tool: Tool) -> None:
    said = tool("BrokerApiVersionsCommand")
    assert set(re.findall(r"^(\S+) \(id: \d+ ", said, re.MULTILINE)) == set(broker.addresses)
    usable = dict(re.findall(r"^\t(\w+)\(\d+\): .*\[usable: (\d+)\]", said, re.MULTILINE))
    older = {
        name: usable.get(name) for name, version in NEWEST.items() if int(usable.get(name, -1)) < version
    }
    assert not older, "both sides know newer versions"


def test_leader_election(tool: Tool, make_topic: MakeTopic) -> None:
    topic = make_topic()
    one = ("--topic", topic, "--partition", "0")
    said = tool("LeaderElectionCommand", "--election-type", "preferred", *one)
    assert f"Valid replica already elected for partitions {topic}-0" in said


def test_producers_of_a_partition(tool: Tool, make_topic: MakeTopic) -> None:
    topic = make_topic()
    tool("ConsoleProducer", "--topic", topic, stdin="one\ntwo\n")  # idempotent by default
    describe = ("describe-producers", "--topic", topic, "--partition", "0")
    said = tool("TransactionsCommand", *describe)
    assert re.search(r"^\d+\s+0\s+-1\s+\d+\s+\d+\s+None", said, re.MULTILINE), said


def test_performance_tools(tool: Tool, make_topic: MakeTopic) -> None:
    topic = make_topic(2)
    send = ("--num-records", "5000", "--record-size", "100", "--throughput", "-1")
    assert "5000 records sent" in tool("ProducerPerformance", "--topic", topic, *send)
    said = tool("ConsumerPerformance", "--topic", topic, "--num-records", "5000", "--timeout", "60000")
    assert said.strip().splitlines()[-1].split(", ")[4] == "5000"
    loop = ("--num-records", "50", "--producer-acks", "all", "--record-size", "20")
    assert "Avg latency" in tool("EndToEndLatency", "--topic", topic, *loop)


def test_verifiable_clients(broker: Broker, tool: Tool, make_topic: MakeTopic, group: str) -> None:
    topic = make_topic(3)
    # It speaks up at the end of its JVM only, so it has one of its own.
    command = [*prepare.java_command(), f"{TOOLS}.VerifiableProducer", "--bootstrap-server", broker.bootstrap]
    command += ["--topic", topic, "--max-messages", "100", "--throughput", "-1", "--acks", "-1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=110)
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert sum(event["name"] == "producer_send_success" for event in events) == 100
    (summary,) = (event for event in events if event["name"] == "tool_data")
    assert (summary["sent"], summary["acked"]) == (100, 100)
    read = ("--group-id", group, "--max-messages", "100", "--reset-policy", "earliest")
    said = tool("VerifiableConsumer", "--topic", topic, *read)
    events = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
    assert sum(event["count"] for event in events if event["name"] == "records_consumed") == 100
    assert all(event["success"] for event in events if event["name"] == "offsets_committed")
    assert events[-1]["name"] == "shutdown_complete"


def test_clients_own_compatibility_test(tool: Tool, make_topic: MakeTopic) -> None:
    topic = make_topic()
    expected = {
        "offsets-for-times-supported": "true",
        "cluster-id-supported": "true",
        "expect-record-too-large-exception": "false",
        "num-cluster-nodes": str(NODES),
        "create-topics-supported": "true",
        "describe-acls-supported": "true",
        "describe-configs-supported": "true",
        "idempotent-producer-supported": "true",
    }
    options = [word for name, value in expected.items() for word in (f"--{name}", value)]
    tool("ClientCompatibilityTest", "--topic", topic, *options)


def test_apache_kafka_reads_every_file(broker: Broker) -> None:
    check_files(broker)
