"""Groups that may not change their protocol (`group.consumer.migration.policy`), and then a cluster that may
not have consumer groups any more (`group.version` 0).
"""

from typing import Any

from headrace.wire.schemas.api_versions import ApiVersionsRequest
from headrace.wire.schemas.consumer_group_describe import ConsumerGroupDescribeRequest
from headrace.wire.schemas.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from headrace.wire.schemas.delete_groups import DeleteGroupsRequest
from headrace.wire.schemas.list_groups import ListGroupsRequest
from headrace.wire.schemas.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from tests.compat.alike.scripts.consumer_groups import joining
from tests.compat.alike.scripts.migrations import Old, old_member, say_sync, tell, wants
from tests.compat.alike.scripts.states import Group, consumer, groups_ready
from tests.compat.alike.session import Session, versions
from tests.server.group_requests import commit, fetch_offsets, heartbeat, join, leave, sync

SETTINGS = {"group.consumer.migration.policy": "disabled"}
UPGRADE, UNSAFE_DOWNGRADE = 1, 3


async def script(session: Session) -> None:
    await groups_ready(session)
    await session.topic("topic", 6)  # which three members share alike
    classic = await old_member(session, "classic", Old())
    await asked(session, "a classic group", classic)
    empty = await old_member(session, "empty", Old())
    await session.get(leave(empty.id, empty.member))
    await asked(session, "an empty classic group", Group("empty", empty.id))
    group = await consumer(session, "consumer")
    group.member = ""
    await level(session, 0)
    await asked(session, "without the feature, a new group", Group("new", session.name("new")))
    await asked(session, "without the feature, a consumer group", group)
    await asked(session, "without the feature, a classic group", classic)
    await level(session, 1)
    await asked(session, "with the feature again, a consumer group", group)


async def level(session: Session, wanted: int) -> None:
    kind = UPGRADE if wanted else UNSAFE_DOWNGRADE
    update = FeatureUpdateKey("group.version", wanted, upgrade_type=kind)
    await session.ask(f"group.version {wanted}", UpdateFeaturesRequest(10_000, [update]))

    def is_so(reply: Any) -> bool:
        levels = {each.name: each.max_version_level for each in reply.finalized_features}
        return bool(levels.get("group.version", 0) == wanted)

    await session.until(ApiVersionsRequest("c", "1"), is_so)


async def asked(session: Session, label: str, group: Group) -> None:
    """What members of both protocols and administrators are told of a group, and its classic member if it has
    one.
    """
    for version in versions("ConsumerGroupHeartbeat"):
        request = joining(session, "", f"new{version}")
        request.group_id = group.id
        await session.ask(f"{label}: joins", request, version)
    for epoch in (1, 2, -1):
        await session.ask(f"{label}: at {epoch}", ConsumerGroupHeartbeatRequest(group.id, "new1", epoch))
    await session.every(f"{label}", lambda version: ConsumerGroupDescribeRequest([group.id, ""]))
    await tell(session, label, group)
    reply = await session.get(ListGroupsRequest())
    reply.groups = [each for each in reply.groups if each.group_id == group.id]
    session.write(f"{label}: listed", session.names.plain(reply, versions("ListGroups")[-1]))
    topic = session.name("topic")
    await session.ask(label, commit(group.id, topic, {0: 1}, member="new1", generation=2), 9)
    await session.ask(label, fetch_offsets(9, group.id, topic), 9)
    if group.member:
        await session.ask(label, heartbeat(group.id, group.member, group.generation))
        await say_sync(session, label, sync(group.id, group.member, group.generation), 5)
    else:
        request = join(group.id, protocols={"range": wants(session)})
        await session.ask(f"{label}: a classic one joins", request)
    await session.ask(f"{label}: deleted", DeleteGroupsRequest([group.id]))
