"""Every client in a group: two members share, one leaves, a third resumes after what was committed."""

from typing import Any

import pytest

from tests.compat.brokers import Broker
from tests.compat.clients.face import Client, Record, RefusedError, eventually
from tests.compat.clients.roster import CONSUMER_PROTOCOL_ROSTER, ROSTER, Entry, as_params
from tests.compat.conftest import MakeTopic
from tests.compat.dump_check import check_files
from tests.compat.samples import hour_ago_ms

BOTH_PROTOCOLS = (*ROSTER, *CONSUMER_PROTOCOL_ROSTER)
PARTITIONS = 4
EACH = 25


def _fill(client: Client, topic: str, first_value: int) -> set[bytes]:
    """EACH records to every partition; answers their values, which no two records share."""
    values = range(first_value, first_value + PARTITIONS * EACH)
    sent = [Record(at % PARTITIONS, hour_ago_ms(), b"key", b"value-%d" % at) for at in values]
    client.produce(topic, sent, "lz4")
    return {b"value-%d" % at for at in values}


def _values(client: Client, member: str) -> set[bytes | None]:
    return {record.value for record in client.taken(member)}


def _await_values(client: Client, wanted: set[bytes], *members: str) -> None:
    """Until the members have read all of it between them. Reading some twice is no fault of a group."""

    def missing() -> set[bytes | None]:
        return set(wanted) - {value for member in members for value in _values(client, member)}

    def told() -> str:
        records = [record for member in members for record in client.taken(member)]
        owned = {member: client.assigned(member) for member in members}
        last = {record.partition: record.offset for record in records}
        return (
            f"{len(missing())} records not read; {len(records)} read, last offsets {last}, assigned {owned}"
        )

    eventually(lambda: not missing(), told)


def _await_assignment(client: Client, **counts: int) -> None:
    """Until the members own as many partitions as said, and together every one exactly once."""

    def is_shared() -> bool:
        owned = {member: client.assigned(member) for member in counts}
        partitions = sorted(at for each in owned.values() for at in each)
        return partitions == list(range(PARTITIONS)) and all(
            len(each) == counts[member] for member, each in owned.items()
        )

    eventually(is_shared, f"members to own {counts}")


def _await_described(client: Client, group: str, wanted: dict[str, Any]) -> None:
    """What members do reaches the coordinator with their next requests."""
    eventually(
        lambda: client.describe_group(group) == wanted, lambda: f"{wanted}: {client.describe_group(group)}"
    )


@pytest.mark.parametrize("entry", as_params(roster=BOTH_PROTOCOLS))
def test_two_members_share_and_a_third_resumes(
    entry: Entry, client: Client, make_topic: MakeTopic, group: str
) -> None:
    topic = make_topic(PARTITIONS)
    first = _fill(client, topic, 0)
    client.join("a", group, topic)
    _await_assignment(client, a=4)
    _await_values(client, first, "a")
    client.commit("a")
    assert client.committed(group, topic) == dict.fromkeys(range(PARTITIONS), EACH)

    client.join("b", group, topic)
    _await_assignment(client, a=2, b=2)
    second = _fill(client, topic, 1000)
    _await_values(client, second, "a", "b")
    assert _values(client, "b") <= second, "the second member read again what was committed"
    assert not _values(client, "a") & _values(client, "b"), "both members read the same record"
    client.commit("a")
    client.commit("b")
    client.leave("b")

    _await_assignment(client, a=4)
    client.leave("a")
    assert client.committed(group, topic) == dict.fromkeys(range(PARTITIONS), 2 * EACH)
    third = _fill(client, topic, 2000)
    client.join("c", group, topic)
    _await_values(client, third, "c")
    assert _values(client, "c") == third
    client.leave("c")


@pytest.mark.parametrize("entry", as_params("delete_group", roster=BOTH_PROTOCOLS))
def test_group_is_listed_described_and_deleted(
    entry: Entry, client: Client, make_topic: MakeTopic, group: str
) -> None:
    topic = make_topic(PARTITIONS)
    sent = _fill(client, topic, 0)
    client.join("a", group, topic)
    _await_assignment(client, a=4)
    _await_described(client, group, {"state": "Stable", "members": 1})
    assert group in client.groups()
    with pytest.raises(RefusedError) as refusal:
        client.delete_group(group)
    assert refusal.value.code == 68  # NON_EMPTY_GROUP
    _await_values(client, sent, "a")
    client.commit("a")
    client.leave("a")
    _await_described(client, group, {"state": "Empty", "members": 0})
    assert client.committed(group, topic) == dict.fromkeys(range(PARTITIONS), EACH)
    client.delete_group(group)
    assert group not in client.groups()
    with pytest.raises(RefusedError) as refusal:
        client.delete_group(group)
    assert refusal.value.code == 69  # GROUP_ID_NOT_FOUND


@pytest.mark.java
def test_apache_kafka_reads_every_file(broker: Broker) -> None:
    check_files(broker)
