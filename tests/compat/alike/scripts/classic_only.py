"""A broker whose `group.coordinator.rebalance.protocols` has only the classic protocol."""

from tests.compat.alike.scripts.migrations import Old, old_member
from tests.compat.alike.scripts.no_migration import asked
from tests.compat.alike.scripts.states import Group, groups_ready
from tests.compat.alike.session import Session

SETTINGS = {"group.coordinator.rebalance.protocols": "classic"}


async def script(session: Session) -> None:
    await groups_ready(session)
    await session.topic("topic", 4)
    await asked(session, "a new group", Group("new", session.name("new")))
    await asked(session, "a classic group", await old_member(session, "classic", Old()))
