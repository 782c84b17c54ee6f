"""The broker that coordinates a group or a transactional id: finding it and asking it.

Every answer may say that the coordinator is another one by now; then it is looked for anew and the request is
sent again. Requests go over a channel of their own, so that no fetch holds up a heartbeat.
"""

from collections.abc import Awaitable, Callable
from enum import IntEnum
from typing import Any, Final, TypeVar

from headrace.base.error_codes import ErrorCode
from headrace.clients.errors import TimedOutError, UnreachableError, raise_for
from headrace.clients.internals.broker_channel import BrokerChannel
from headrace.clients.internals.network_client import ANY_BROKER, NetworkClient, Use
from headrace.wire.apis import ApiKey
from headrace.wire.schemas.find_coordinator import BATCHED_SINCE, FindCoordinatorRequest

T = TypeVar("T")

_MOVED: Final = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE})


class CoordinatorKind(IntEnum):
    """What is coordinated: FindCoordinator's key type."""

    GROUP = 0
    TRANSACTION = 1


_NAMES: Final = {CoordinatorKind.GROUP: "group", CoordinatorKind.TRANSACTION: "transactional id"}


class CoordinatorClient:
    """The coordinator of one group or transactional id."""

    def __init__(self, client: NetworkClient, key: str, kind: CoordinatorKind) -> None:
        self._client = client
        self._key = key
        self._kind = kind
        self._node = ANY_BROKER

    async def ask(
        self,
        request: Any,
        *,
        timeout_ms: int | None = None,
        use: Use = Use.COORDINATOR,
        at_most: int | None = None,
    ) -> Any:
        """The coordinator's answer; a lost connection makes it be looked for again."""
        node = await self._find()
        try:
            return await self._client.call(
                request, node=node, use=use, timeout_ms=timeout_ms, at_most=at_most
            )
        except (UnreachableError, TimedOutError):
            self.forget()
            raise

    async def node(self) -> int:
        """Which broker it is."""
        return await self._find()

    def forget(self) -> None:
        """The coordinator is another one now."""
        self._node = ANY_BROKER

    def check(self, code: int, what: str, detail: str | None = None) -> None:
        """RefusedError for an error code; one that says the coordinator moved is acted upon."""
        if code in _MOVED:
            self.forget()
        raise_for(code, what, detail)

    async def patiently(self, action: Callable[[], Awaitable[T]], timeout_ms: int | None = None) -> T:
        return await self._client.patiently(action, timeout_ms=timeout_ms)

    async def version_of(self, api_key: int) -> int:
        """The version in which the coordinator would be asked."""
        return (await self.channel()).versions.choose(api_key)

    async def supports(self, api_key: int) -> bool:
        return (await self.channel()).versions.supports(api_key)

    async def channel(self) -> BrokerChannel:
        """Where requests go, connected."""
        node = await self._find()
        try:
            return await self._client.find(node, Use.COORDINATOR)
        except (UnreachableError, TimedOutError):
            self.forget()
            raise

    async def _find(self) -> int:
        if self._node == ANY_BROKER:
            channel = await self._client.find()
            takes_many = channel.versions.choose(ApiKey.FIND_COORDINATOR) >= BATCHED_SINCE
            keys = {"coordinator_keys": [self._key]} if takes_many else {"key": self._key}
            response = await channel.ask(FindCoordinatorRequest(key_type=int(self._kind), **keys))
            found = response.coordinators[0] if response.coordinators else response
            what = f"cannot find the coordinator of {_NAMES[self._kind]} {self._key!r}"
            raise_for(found.error_code, what, found.error_message)
            self._client.metadata.learn_endpoints([(found.node_id, found.host, found.port)])
            self._node = found.node_id
        return self._node
