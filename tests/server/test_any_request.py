"""Whatever a client asks for in good form, it is answered, refused or cut off: never by a traceback.

Random requests of every version, half made up of names and numbers that exist and half of any others, go to
one node that holds a topic, a group with members and committed offsets. After them it still works.
"""

from typing import Any

import pytest

from headrace.base.error_codes import ErrorCode
from headrace.wire.apis import API
from tests.server.beside_kafka.produce import produce
from tests.server.beside_kafka.talk import batch
from tests.server.group_members import stable_group
from tests.server.group_requests import commit, subscription
from tests.server.node_world import NodeWorld, simulated
from tests.server.test_offset_commit import committed
from tests.wire.messages import Randomizer

KEYS = {
    "produce": 0,
    "fetch": 1,
    "list_offsets": 2,
    "offset_commit": 8,
    "offset_fetch": 9,
    "find_coordinator": 10,
    "join_group": 11,
    "heartbeat": 12,
    "leave_group": 13,
    "sync_group": 14,
    "describe_groups": 15,
    "list_groups": 16,
    "delete_records": 21,
    "offset_for_leader_epoch": 23,
    "describe_log_dirs": 35,
    "delete_groups": 42,
    "offset_delete": 47,
    "describe_producers": 61,
}
REQUESTS_PER_VERSION = 25


class Mischief(Randomizer):
    """Requests that get past the first check often enough to meet the others."""

    def __init__(self, seed: object, known: dict[str, list[Any]]) -> None:
        super().__init__(seed, largest=4)
        self._known = known

    def _value(self, field: Any) -> Any:
        known = [] if field.struct is not None else self._known.get(field.spec.name, [])
        fitting = [each for each in known if each is not None or field.is_nullable]
        if fitting and self._random.random() < 0.7:
            return self._random.choice(fitting)
        return super()._value(field)


def known_names(topic_id: bytes, members: list[str]) -> dict[str, list[Any]]:
    topics, groups, partitions = ["t", "t", "", "none"], ["g", "h", ""], [0, 1, 1, 7]
    small = [0, 1, 2, 5, -1, 100]
    return {
        "name": topics,
        "topic": topics,
        "topic_id": [topic_id],
        "group_id": groups,
        "groups": groups,
        "groups_names": groups,
        "coordinator_keys": groups,
        "member_id": [*members, "", "nobody"],
        "group_instance_id": [None, "seat"],
        "protocol_type": ["consumer", None],
        "protocol_name": ["range", None],
        "generation_id": [1, 2],
        "generation_id_or_member_epoch": [1, 2, -1],
        "partition": partitions,
        "index": partitions,
        "partition_index": partitions,
        "partition_indexes": partitions,
        "partitions": partitions,
        "acks": [-1, 0, 1],
        "records": [batch(), batch(3, codec=4), batch(producer_id=9, producer_epoch=0, base_sequence=0)],
        "replica_id": [-1],
        "isolation_level": [0, 1],
        "timestamp": [-1, -2, -3, -4, -5, -6, 1_700_000_000_000],
        "current_leader_epoch": [-1, 0, 1],
        "leader_epoch": small,
        "fetch_offset": small,
        "offset": small,
        "max_bytes": [0, 100, 100_000],
        "partition_max_bytes": [0, 100, 100_000],
        "session_epoch": [-1, 0, 1],
        "session_id": [0],
        "max_wait_ms": [0, 100],
        "min_bytes": [0, 1, 100],
        "timeout_ms": [0, 1000],
        "session_timeout_ms": [10_000],
        "rebalance_timeout_ms": [10_000, -1],
        "key_type": [0],
    }


@pytest.mark.parametrize("name", KEYS)
@simulated(offsets_topic_num_partitions="1")
async def test_any_request_is_survived(world: NodeWorld, name: str) -> None:
    api = API[KEYS[name]]
    topic_id = await world.create_topic("t", 2)
    members = await stable_group(world, "g", 2, protocols={"range": subscription("t")})
    client = members[0].client
    await client.ask(commit("h", "t", {0: 5}), 9)
    mischief = Mischief(name, known_names(topic_id, [each.id for each in members]))
    for version in range(api.min_version, api.max_version + 1):
        for _ in range(REQUESTS_PER_VERSION):
            sender = await world.connect("random")
            sender.tell(mischief.message(api.request, version), version)
    await world.pass_time(60_000)
    client = await world.connect()
    response = await client.ask(produce("t", batch(), acks=-1), 12)
    assert response.responses[0].partition_responses[0].error_code == ErrorCode.NONE
    assert (await client.ask(commit("new", "t", {0: 7}), 9)).topics[0].partitions[0].error_code == 0
    assert await committed(client, "new", "t") == 7
    await world.stop()
    await world.start()
    assert await committed(await world.connect(), "new", "t") == 7
