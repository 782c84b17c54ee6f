"""The topic that everybody writes to and reads, and its replicas."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from tests.compat.clients.confluent import Confluent
from tests.compat.clients.face import eventually
from tests.compat.faults.logins import NOBODY, Login

TOPIC: Final = "fire"
PARTITIONS: Final = 6
NODES: Final = 3


def create_topic(bootstrap: str, login: Login = NOBODY) -> None:
    admin = admin_of(bootstrap, login)
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, NODES, config={"segment.bytes": "1048576"})])[
        TOPIC
    ].result(60)
    eventually(lambda: are_in_sync(admin), "all replicas are in sync")


def admin_of(bootstrap: str, login: Login) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap, "log_level": 0, **login.librdkafka()})


def are_in_sync(admin: AdminClient) -> bool:
    try:
        found = admin.list_topics(TOPIC, timeout=5).topics[TOPIC].partitions
    except KafkaException:
        return False
    return len(found) == PARTITIONS and all(len(each.isrs) == NODES for each in found.values())


def read_all(client: Confluent, ends: dict[int, int]) -> dict[int, list[tuple[int, bytes]]]:
    """Offset and value of every record up to the ends."""
    log: dict[int, list[tuple[int, bytes]]] = {at: [] for at in ends}
    for record in client.consume(TOPIC, ends):
        log[record.partition].append((record.offset, record.value or b""))
    return log


def differing(folders: Sequence[Path]) -> list[str]:
    """Partitions whose replicas in these nodes' folders are not the same bytes, however they are cut into
    segments."""
    faults = []
    for partition in range(PARTITIONS):
        copies = [
            b"".join(path.read_bytes() for path in sorted((folder / f"{TOPIC}-{partition}").glob("*.log")))
            for folder in folders
        ]
        if len(set(copies)) > 1:
            sizes = ", ".join(f"{at.name}: {len(copy)}" for at, copy in zip(folders, copies, strict=True))
            faults.append(f"partition {partition}: its replicas differ ({sizes} bytes)")
    return faults
