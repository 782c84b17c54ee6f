"""FindCoordinator: kinds of keys, many keys, and keys that nobody can coordinate."""

from headrace.wire.schemas.find_coordinator import FindCoordinatorRequest
from tests.server.beside_kafka.talk import Talk

NEWEST, SINGLE = 6, 3


async def ready(talk: Talk) -> None:
    """The first question has the internal topic made, which Kafka does not wait for."""
    while True:
        reply = await (await talk.begin(FindCoordinatorRequest(coordinator_keys=["any"]), NEWEST))
        if reply.coordinators[0].error_code == 0:
            return
        await talk.pass_time(100)


def ask_for(version: int, *keys: str, key_type: int = 0) -> FindCoordinatorRequest:
    if version <= SINGLE:
        return FindCoordinatorRequest(keys[0], key_type if version else 0)
    return FindCoordinatorRequest(key_type=key_type, coordinator_keys=list(keys))


async def script(talk: Talk) -> None:
    await ready(talk)
    talk.title("Groups")
    await talk.each_version("a group", lambda version: ask_for(version, "g"))
    await talk.each_version("no group id", lambda version: ask_for(version, ""))
    await talk.ask("many", ask_for(NEWEST, "a", "b", "c", "a"), NEWEST)
    await talk.ask("none", ask_for(NEWEST), NEWEST)
    talk.title("Other keys")
    for version in (0, SINGLE, 5, NEWEST):
        request = ask_for(version, "g:AAAAAAAAAAAAAAAAAAAAAQ:0", key_type=2)
        await talk.ask(f"a share group, v{version}", request, version)
    await talk.ask("a share key that is none", ask_for(NEWEST, "g", key_type=2), NEWEST)
    for kind in (3, -1):
        await talk.each_version(
            f"key type {kind}", lambda version, kind=kind: ask_for(version, "g", key_type=kind)
        )
