"""The steps of docs/operations.md, taken as they stand there: backup and restore, several machines with
several nodes each, and a machine that has lost its disks."""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.clients import Admin
from headrace.transport.system_network import free_ports
from tests.compat.brokers import SETTINGS
from tests.compat.clients.confluent import Confluent
from tests.compat.clients.face import Record, eventually
from tests.compat.samples import hour_ago_ms
from tests.packaging.machine import THIS_ENVIRONMENT, Machine, steps

PAGE = "operations.md"
NODES = 2
"""Of each machine: as if they had four cores."""
SENT = [Record(0, hour_ago_ms() + at, b"k", b"%d" % at, ()) for at in range(20)]


@pytest.fixture
def single(tmp_path: Path) -> Iterator[tuple[Machine, str]]:
    """A node that runs, and its address."""
    (port,) = free_ports(1)
    machine = Machine(tmp_path / "machine", f"127.0.0.1:{port}")
    machine.install(THIS_ENVIRONMENT)
    (machine.root / "var/backups").mkdir()
    settings = {
        "listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "log.dirs": f"{machine.root}/var/lib/headrace",
    } | SETTINGS
    lines = "".join(f"{name}={value}\n" for name, value in settings.items())
    (machine.root / "etc/headrace/server.properties").write_text(lines)
    machine.take("systemctl start headrace")
    try:
        yield machine, f"127.0.0.1:{port}"
    finally:
        machine.end("headrace")


def read(address: str, topic: str) -> list[bytes | None]:
    client = Confluent(address)
    ends = {at: end for at, (_, end) in client.bounds(topic).items()}
    found = [record.value for record in client.consume(topic, ends)]
    client.close()
    return found


@pytest.mark.timeout(180)
def test_what_was_deleted_comes_back_from_a_backup(single: tuple[Machine, str]) -> None:
    machine, address = single
    client = Confluent(address)
    client.create_topic("river", 1, {})
    client.produce("river", SENT, "none")
    for block in steps(PAGE, "Backup and restore"):
        machine.take(block)
    client.produce("river", SENT, "none")
    client.delete_topic("river")
    client.close()
    for block in steps(PAGE, "Restoring a node"):
        machine.take(block)
    assert read(address, "river") == [each.value for each in SENT]


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_three_machines_with_two_nodes_each_and_one_that_loses_its_disks(tmp_path: Path) -> None:
    """A machine is an address of the loopback here, so that all can have the same ports."""
    hosts = {f"kafka-{number}": f"127.0.77.{number}" for number in (1, 2, 3)}
    bootstrap = ",".join(f"{host}:9092" for host in hosts.values())
    machines = [Machine(tmp_path / name, bootstrap) for name in hosts]
    for machine in machines:
        machine.install(THIS_ENVIRONMENT)
        unit = machine.root / "etc/systemd/system/headrace-machine.service"
        unit.write_text(unit.read_text().replace("--nodes auto", f"--nodes {NODES}"))
    try:
        _start(machines)
        machines[0].take(f"headrace cluster await-sync --brokers {3 * NODES}")
        with Admin(bootstrap_servers=bootstrap) as admin:
            admin.create_topic("river", partitions=6 * NODES)
            _check_placing(admin)
        client = Confluent(bootstrap)
        client.produce("river", SENT, "none")
        for block in steps(PAGE, "A machine's disks are lost"):
            machines[1].take(block)
        assert read(bootstrap, "river") == [each.value for each in SENT]
        client.close()
    finally:
        for machine in machines:
            machine.end("headrace-machine")


def _start(machines: list[Machine]) -> None:
    (block,) = steps(PAGE, "Several machines")
    for number, machine in enumerate(machines, 1):
        text = re.sub(r"kafka-(\$NUMBER|\d)(?=:)", r"127.0.77.\1", block)
        machine.take(text, NUMBER=str(number))
    for machine in machines:
        eventually(lambda machine=machine: machine.is_ready("headrace-machine"), "all machines are ready")


def _check_placing(admin: Admin) -> None:
    """No two replicas on one machine, and every node leads as much."""
    brokers = {each.node_id: each for each in admin.describe_cluster().brokers}
    assert sorted(brokers) == [10 * machine + node for machine in (1, 2, 3) for node in range(1, NODES + 1)]
    (topic,) = admin.describe_topics("river")
    for partition in topic.partitions:
        assert len({brokers[each].rack for each in partition.replicas}) == 3
    assert set(Counter(each.leader for each in topic.partitions).values()) == {2}
