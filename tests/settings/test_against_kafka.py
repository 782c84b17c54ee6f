"""Our tables and rules against Apache Kafka's own, asked of its jars.

What headrace refuses although Kafka takes it, or the other way round, is in DIFFERENCES with the reason.
"""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.settings.broker import BROKER
from headrace.settings.broker_config import BrokerConfig
from headrace.settings.changes import check_topic_settings
from headrace.settings.definition import NoDefault, Setting, SettingError, render
from headrace.settings.group import GROUP
from headrace.settings.topic import TOPIC
from tests.compat import prepare
from tests.settings.test_broker_config import NODE

pytestmark = pytest.mark.java

PROGRAM = Path(__file__).parent / "java" / "ConfigFacts.java"
TABLES = {"broker": BROKER, "topic": TOPIC, "group": GROUP}
# headrace has these, and Kafka has them outside its table or not at all.
OURS_ALONE = {
    "inter.broker.protocol.version",
    "super.users",
    "allow.everyone.if.no.acl.found",
    "headrace.audit.changes",
    "headrace.audit.file",
    "headrace.audit.reads",
    "headrace.audit.refusals",
    "headrace.audit.topic",
    "headrace.client.metrics.otlp.endpoint",
    "headrace.client.metrics.otlp.headers",
    "headrace.log.scrub.bytes.per.second",
    "headrace.metrics.listener",
    "headrace.metrics.token",
    "headrace.slow.request.ms",
    "ssl.crl.location",
}
# Of Kafka 4.4, and our own of groups; the facts are of 4.3.
NEWER = {
    "headrace.share.breaker.pause.ms",
    "headrace.share.breaker.records",
    "headrace.share.deliver.at",
    "headrace.share.key.order",
    "headrace.share.key.order.max.records",
    "headrace.share.retry.backoff.max.ms",
    "headrace.share.retry.backoff.ms",
    "errors.deadletterqueue.auto.create.topics.enable",
    "errors.deadletterqueue.copy.record.enable",
    "errors.deadletterqueue.group.enable",
    "errors.deadletterqueue.topic.name",
    "errors.deadletterqueue.topic.name.prefix",
    "log.remote.copy.lag.bytes",
    "log.remote.copy.lag.ms",
    "max.decompressed.message.bytes",
    "remote.copy.lag.bytes",
    "remote.copy.lag.ms",
}

# Where Kafka's default makes everybody wait: what it is, and what it is here.
OTHER_DEFAULTS = {"group.initial.rebalance.delay.ms": ("3000", "500")}

BROKER_CASES: tuple[dict[str, str], ...] = (
    {},
    {"node.id": "-1"},
    {"broker.id": "2"},
    {"controller.quorum.bootstrap.servers": ""},
    {"controller.quorum.bootstrap.servers": "foo"},
    {"controller.quorum.voters": "2@localhost:9093"},
    {"controller.quorum.voters": "1@localhost:9093"},
    {"controller.quorum.voters": "x@foo:1"},
    {"process.roles": "broker"},
    {"process.roles": "broker", "listeners": "PLAINTEXT://:9092"},
    {
        "process.roles": "broker",
        "listeners": "PLAINTEXT://:9092",
        "controller.quorum.voters": "1@localhost:9093",
    },
    {
        "process.roles": "broker",
        "listeners": "PLAINTEXT://:9092",
        "controller.quorum.voters": "2@localhost:9093",
    },
    {"process.roles": "controller"},
    {"process.roles": "controller", "listeners": "CONTROLLER://:9093"},
    {"process.roles": "observer"},
    {"process.roles": ""},
    {"listeners": "PLAINTEXT://:9092"},
    {"listeners": "CONTROLLER://:9093"},
    {"listeners": "PLAINTEXT://:9092,CONTROLLER://:9092"},
    {"listeners": "PLAINTEXT://127.0.0.1:9092,CONTROLLER://[::1]:9092"},
    {"listeners": "PLAINTEXT://:9092,EXTRA://:9094,CONTROLLER://:9093"},
    {"listeners": "PLAINTEXT://:9092,PLAINTEXT://:9094,CONTROLLER://:9093"},
    {"listeners": "PLAINTEXT://:0,CONTROLLER://:0"},
    {"listeners": "plaintext://:9092,controller://:9093"},
    {"listeners": "nonsense,CONTROLLER://:9093"},
    {"listeners": "SSL://:9092,CONTROLLER://:9093", "security.inter.broker.protocol": "SSL"},
    {"advertised.listeners": "PLAINTEXT://0.0.0.0:9092"},
    {"advertised.listeners": "SSL://a:9092"},
    {"advertised.listeners": "PLAINTEXT://a:9092,CONTROLLER://localhost:9093"},
    {"advertised.listeners": "PLAINTEXT://a:9092,SSL://a:9093"},
    {"listener.security.protocol.map": "PLAINTEXT:NOPE"},
    {"inter.broker.listener.name": "SSL"},
    {"inter.broker.listener.name": "CONTROLLER"},
    {"inter.broker.listener.name": "PLAINTEXT", "security.inter.broker.protocol": "PLAINTEXT"},
    {"log.retention.ms": "0"},
    {"log.retention.ms": "-5"},
    {"log.retention.minutes": "0"},
    {"log.roll.ms": "0"},
    {"log.roll.jitter.ms": "-1"},
    {"log.segment.bytes": "1000"},
    {"log.cleaner.dedupe.buffer.size": "1000"},
    {"log.dirs": "/a,/a"},
    {"log.dirs": ""},
    {"cordoned.log.dirs": "/nope"},
    {"cordoned.log.dirs": "*"},
    {"replica.fetch.wait.max.ms": "40000"},
    {"replica.fetch.wait.max.ms": "31000", "replica.socket.timeout.ms": "40000"},
    {"queued.max.request.bytes": "1000"},
    {"max.connections.per.ip": "0"},
    {"max.connections.per.ip": "0", "max.connections.per.ip.overrides": "127.0.0.1:5"},
    {"max.connections.per.ip.overrides": "foo"},
    {"connection.failed.authentication.delay.ms": "700000"},
    {"group.consumer.session.timeout.ms": "1000"},
    {"group.consumer.min.heartbeat.interval.ms": "20000"},
    {"group.consumer.max.heartbeat.interval.ms": "100000", "group.consumer.heartbeat.interval.ms": "50000"},
    {"group.consumer.assignment.interval.ms": "16000"},
    {"group.consumer.migration.policy": "UPGRADE"},
    {"group.coordinator.rebalance.protocols": "classic,other"},
    {"group.share.delivery.count.limit": "10", "group.share.max.delivery.count.limit": "5"},
    {"group.streams.num.standby.replicas": "5"},
    {"offsets.topic.compression.codec": "9"},
    {"offsets.topic.replication.factor": "32768"},
    {"min.insync.replicas": "0"},
    {"num.partitions": "x"},
    {"auto.create.topics.enable": "maybe"},
    {"compression.gzip.level": "0"},
    {"compression.gzip.level": "-1"},
    {"log.cleaner.min.cleanable.ratio": "2"},
    {"log.cleaner.min.compaction.lag.ms": "10", "log.cleaner.max.compaction.lag.ms": "5"},
    {
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
    },
)
TOPIC_CASES = (
    {"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "5"},
    {"remote.storage.enable": "true"},
    {"remote.storage.enable": "true", "cleanup.policy": "compact"},
    {"remote.storage.enable": "true", "cleanup.policy": ""},
    {"remote.storage.enable": "true", "local.retention.ms": "100", "retention.ms": "10"},
    {"remote.storage.enable": "true", "local.retention.ms": "-1", "retention.ms": "10"},
    {"remote.storage.enable": "true", "local.retention.bytes": "-1", "retention.bytes": "10"},
    {"remote.storage.enable": "true", "local.retention.bytes": "-1", "retention.bytes": "-1"},
    {"remote.storage.enable": "true", "local.retention.bytes": "5", "retention.bytes": "10"},
    {"remote.storage.enable": "true", "remote.log.copy.disable": "true"},
    {"remote.storage.enable": "true", "remote.log.copy.disable": "true", "local.retention.ms": "100"},
    {"local.retention.ms": "100", "retention.ms": "10"},
    {"cleanup.policy": ""},
    {"cleanup.policy": "delete,delete"},
    {"cleanup.policy": "compact, delete"},
    {"cleanup.policy": "compact,,delete"},
    {"cleanup.policy": "shred"},
    {"segment.bytes": "1000"},
    {"min.insync.replicas": "1_0"},
    {"leader.replication.throttled.replicas": "*"},
    {"leader.replication.throttled.replicas": ""},
    {"leader.replication.throttled.replicas": "1:2,3:4"},
    {"leader.replication.throttled.replicas": "1,3:4"},
    {"leader.replication.throttled.replicas": "*,1:1"},
    {"retention.ms": "+5"},
    {"retention.ms": " 5 "},
    {"retention.ms": "-2"},
    {"preallocate": "TRUE"},
    {"preallocate": "yes"},
    {"min.cleanable.dirty.ratio": "1e-1"},
    {"min.cleanable.dirty.ratio": "NaN"},
    {"compression.type": "Gzip"},
    {"no.such.setting": "1"},
)
DIFFERENCES = (
    # Compares with nothing, so Kafka's bounds let it through.
    {"min.cleanable.dirty.ratio": "NaN"},
    # Kafka finds out only when the first topic is made.
    {"log.cleaner.min.compaction.lag.ms": "10", "log.cleaner.max.compaction.lag.ms": "5"},
    # Here compacted topics can be tiered too.
    {"remote.storage.enable": "true", "cleanup.policy": "compact"},
)


def ask_kafka(*arguments: str) -> list[list[str]]:
    try:
        command = [*prepare.java_command(), str(PROGRAM), *arguments]
    except prepare.UnavailableError as reason:
        pytest.skip(str(reason))
    run = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert run.returncode == 0, run.stderr
    return [line.split("\t") for line in run.stdout.splitlines()]


@pytest.fixture(scope="module")
def facts() -> list[list[str]]:
    return ask_kafka()


def test_names_kinds_defaults_and_modes(facts: list[list[str]]) -> None:
    for title, table in TABLES.items():
        theirs = {name: rest for kind, name, *rest in facts if kind == title}
        assert table.keys() - theirs.keys() - NEWER == (OURS_ALONE if title == "broker" else set())
        assert not theirs.keys() - table.keys()
        for name, (kind, default, importance, _, mode, internal) in theirs.items():
            ours = table[name]
            if name in OTHER_DEFAULTS:
                assert (default, written_default(ours)) == OTHER_DEFAULTS[name]
                default = written_default(ours)
            found = (
                ours.kind.upper(),
                written_default(ours),
                ours.importance.upper(),
                ours.update,
                ours.internal,
            )
            assert found == (kind, default, importance, mode, internal == "true"), name


def written_default(setting: Setting) -> str:
    if isinstance(setting.default, NoDefault):
        return "(required)"
    text = render(setting.default)
    return "(null)" if text is None else text


def test_bounds(facts: list[list[str]]) -> None:
    for title, table in TABLES.items():
        for kind, name, *rest in facts:
            if kind != title or not rest[3].startswith("[") or "..." not in rest[3] or ":" in rest[3]:
                continue
            check = table[name].check
            assert check is not None, name
            least, _, most = rest[3].partition("]")[0].strip("[").partition(",...")
            words = f"at least {least}" if not most else f"from {least} to {most.strip(',')}"
            assert check.allowed.startswith(words), name


def test_stand_ins(facts: list[list[str]]) -> None:
    theirs = {name: synonyms for kind, name, *synonyms in facts if kind == "synonyms"}
    ours = {
        name: [f"{each.name}*{each.factor}" for each in setting.synonyms]
        for name, setting in (TOPIC | GROUP).items()
        if setting.synonyms and name not in NEWER
    }
    assert ours == theirs


def test_what_is_refused(tmp_path: Path) -> None:
    cases = tmp_path / "cases"
    cases.write_text(
        "\n".join([*map(line_of, broker_cases()), *(line_of({"TOPIC": "1"} | case) for case in TOPIC_CASES)])
    )
    answers = [answer for answer in ask_kafka(str(cases)) if answer[0] in ("ok", "refused")]
    ours = [refused_broker(case) for case in broker_cases()] + [refused_topic(case) for case in TOPIC_CASES]
    assert len(answers) == len(ours)
    for case, theirs, refusal in zip((*BROKER_CASES, *TOPIC_CASES), answers, ours, strict=True):
        if case not in DIFFERENCES:
            assert (theirs[0] == "refused") == bool(refusal), (case, theirs, refusal)


def broker_cases() -> Iterator[dict[str, str]]:
    return (NODE | case for case in BROKER_CASES)


def line_of(properties: dict[str, str]) -> str:
    return "\t".join(f"{name}={text}" for name, text in properties.items())


def refused_broker(properties: dict[str, str]) -> str:
    try:
        BrokerConfig(properties)
    except SettingError as wrong:
        return str(wrong)
    return ""


def refused_topic(overrides: dict[str, str]) -> str:
    tiering = BrokerConfig(NODE | {"remote.log.storage.system.enable": "true"})
    wrong = check_topic_settings(tiering, "rows", overrides)
    return "" if wrong is None else str(wrong)
