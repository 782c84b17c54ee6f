"""`headrace debug bundle`: what is packed, and that no secret is."""

import json
import tarfile
from pathlib import Path

import pytest
from click.testing import CliRunner

from headrace.cli.main import cli
from headrace.cli.redaction import HIDDEN, Redaction, is_secret
from headrace.clients import Admin, Producer
from headrace.testing import Cluster
from headrace.transport.system_network import free_ports
from tests.security.certificates import Authority

SECRETS = {
    "sasl.jaas.config": 'org.x.PlainLoginModule required username="node" password="jaas-Pa55-secret";',
    "listener.name.https.ssl.keystore.password": "keystore-Pa55",
    "ssl.key.password": "key-Pa55-x",
    "headrace.metrics.token": "metrics-token-Pa55",
    "headrace.client.metrics.otlp.headers": "X-Api-Key=otlp-Pa55-key",
    "delegation.token.secret.key": "delegation-Pa55",
    "rsm.config.s3.secret.key": "s3-Pa55-secret",
}
NEVER = ("Pa55", "PRIVATE KEY", "record-of-a-topic")


def unpacked(path: Path) -> dict[str, str]:
    with tarfile.open(path) as archive:
        members = [each for each in archive.getmembers() if each.isfile()]
        assert all(each.name.startswith("headrace-debug-") for each in members)
        found = {}
        for each in members:
            content = archive.extractfile(each)
            assert content is not None
            found[each.name.partition("/")[2]] = content.read().decode()
        return found


def pack(tmp_path: Path, *words: str, code: int = 0) -> dict[str, str]:
    path = tmp_path / "case.tar.gz"
    result = CliRunner().invoke(cli, ["debug", "bundle", "-o", str(path), *words])
    assert result.exit_code == code, result.output
    assert path.stat().st_mode & 0o777 == 0o600
    return unpacked(path)


def node_files(tmp_path: Path) -> tuple[Path, Path, Path]:
    """Settings, a folder and a log file with secrets wherever a person or a program may leave them."""
    key = Authority().sign("node", ["127.0.0.1"]).key_pem()
    settings = tmp_path / "server.properties"
    lines = [f"{name}={value}" for name, value in SECRETS.items()]
    lines += ["# old password: comment-Pa55", "node.id=1", "ssl.keystore.location=/etc/node.p12"]
    lines += [
        "ssl.keystore.key=" + key.replace("\n", "\\\n"),
        "ssl.truststore.password=${file:/run/secrets:trust}",
    ]
    settings.write_text("\n".join(lines))
    folder = tmp_path / "data"
    for path, text in {
        "meta.properties": "version=1\ncluster.id=abc\nnode.id=1\n",
        "t-0/00000000000000000000.log": "record-of-a-topic",
        "recovery-point-offset-checkpoint": "0\n1\nt 0 17\n",
        ".headrace_uncleanable": '{"version": 0, "partitions": []}',
        "security/admin.properties": 'sasl.jaas.config=x required password="generated-Pa55";\n',
        "security/ca.key": key,
        "server.log": "",
    }.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    log = folder / "server.log"
    log.write_text(
        "INFO started with jaas-Pa55-secret\n"
        "WARN login failed: password=typed-Pa55 for alice\n"
        "INFO Authorization: Bearer abcPa55defghijkl\n"
        "INFO store at https://user:url-Pa55@store/bucket\n"
        f"INFO {key}\n"
        "INFO generated-Pa55 is not written by anybody, is it\n"
        "INFO an ordinary line\n"
    )
    return settings, folder, log


def test_no_secret_is_packed(tmp_path: Path) -> None:
    settings, folder, log = node_files(tmp_path)
    found = pack(tmp_path, "--no-cluster", "-c", str(settings), "-d", str(folder), "--log-file", str(log))
    everything = "\n".join(found.values())
    for secret in NEVER:
        assert secret not in everything
    shown = found["settings/0-server.properties"]
    assert "node.id=1\n" in shown
    assert f"ssl.key.password={HIDDEN}\n" in shown
    assert "ssl.keystore.location=/etc/node.p12\n" in shown
    assert "ssl.truststore.password=${file:/run/secrets:trust}\n" in shown  # where it is, not what it is
    [name] = [each for each in found if each.startswith("logs/")]
    assert "INFO an ordinary line" in found[name]
    assert f"WARN login failed: password={HIDDEN} for alice" in found[name]
    [name] = [each for each in found if each.startswith("folders/")]
    assert "t-0/00000000000000000000.log" in found[name]
    assert [each for each in found if each.endswith("recovery-point-offset-checkpoint")]
    assert [each for each in found if each.endswith(".headrace_uncleanable")]
    assert "Nothing was left out." in found["README.txt"]


def test_a_cluster_is_packed(tmp_path: Path) -> None:
    [port] = free_ports(1)
    settings = {
        "headrace.metrics.listener": f"HTTP://127.0.0.1:{port}",
        "headrace.metrics.token": "token-Pa55",
    }
    with Cluster(settings=settings) as cluster:
        with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
            admin.create_topic("orders", configs={"retention.ms": "60000"})
            admin.create_topic("plain")
            admin.alter_client_quotas({"client-id": "greedy"}, set_to={"producer_byte_rate": 5})
        with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
            producer.send("orders", b"record-of-a-topic").result(30)
        words = ["-b", cluster.bootstrap_servers, "--metrics", f"127.0.0.1:{port}"]
        found = pack(tmp_path, *words, "--metrics-token", "token-Pa55")
    everything = "\n".join(found.values())
    for secret in NEVER:
        assert secret not in everything
    assert json.loads(found["cluster/topics.json"])[0]["name"] == "orders"
    assert json.loads(found["cluster/topic-settings.json"]) == {"orders": {"retention.ms": "60000"}}
    assert json.loads(found["cluster/quotas.json"])[0]["entity"] == {"client-id": "greedy"}
    assert json.loads(found["cluster/broker-1-settings.json"])["node.id"] == "1"
    assert json.loads(found["cluster/top.json"])["topics"][0]["end_offsets"] == 1
    assert json.loads(found["cluster/doctor.json"]) is not None
    [name] = [each for each in found if each.startswith("metrics/")]
    assert 'kafka_topic_partition_current_offset{topic="orders",partition="0"} 1' in found[name]
    assert "headrace" in json.loads(found["machine.json"])["packages"]


def test_what_cannot_be_had_is_said(tmp_path: Path) -> None:
    [port] = free_ports(1)
    nowhere = f"127.0.0.1:{port}"
    found = pack(
        tmp_path,
        *("-b", nowhere, "--request-timeout-ms", "300", "--metrics", nowhere, "-d", str(tmp_path / "none")),
    )
    for what in (f"the cluster at {nowhere}", f"metrics of {nowhere}", f"folder {tmp_path / 'none'}"):
        assert what in found["README.txt"]
    assert "machine.json" in found


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "case.tar.gz"
    path.write_text("mine")
    result = CliRunner().invoke(cli, ["debug", "bundle", "--no-cluster", "-o", str(path)])
    assert result.exit_code == 1
    assert "is there already" in result.output
    assert path.read_text() == "mine"


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        ("ssl.keystore.password", True),
        ("listener.name.a.plain.sasl.jaas.config", True),
        ("rsm.config.aws.secret.access.key", True),
        ("vendor.api.token", True),
        ("ssl.keystore.location", False),
        ("delegation.token.max.lifetime.ms", False),
        ("vendor.token.url", False),
        ("node.id", False),
    ],
)
def test_secrets_are_known_by_name(name: str, secret: bool) -> None:
    assert is_secret(name) is secret


def test_ordinary_text_is_left_alone() -> None:
    text = "token bucket of 5, keys of 3 partitions, basic checks passed; see https://host:9092/path"
    assert Redaction().text(text) == text
