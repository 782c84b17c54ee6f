"""A broker whose `group.consumer.migration.policy` lets groups go to the new protocol and not back."""

from headrace.wire.schemas.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from tests.compat.alike.scripts.consumer_groups import joining
from tests.compat.alike.scripts.migrations import Old, old_member, tell
from tests.compat.alike.scripts.no_migration import asked
from tests.compat.alike.scripts.states import groups_ready
from tests.compat.alike.session import Session

SETTINGS = {"group.consumer.migration.policy": "upgrade"}


async def script(session: Session) -> None:
    await groups_ready(session)
    await session.topic("topic", 4)
    old = await old_member(session, "group", Old())
    await session.ask("the new one joins", joining(session, "group", "new"))
    await tell(session, "a mixed group", old)
    await session.ask("the new one leaves", ConsumerGroupHeartbeatRequest(old.id, "new", -1))
    await asked(session, "a group of one classic member", old)
