"""The cluster's active controller, wherever it is: in this process, or on another node.

Requests of brokers themselves (registration, heartbeats, in-sync sets, producer ids, directories, topics that
they need) go to it as they are, with the authority of this node. What a client asked this broker for is
forwarded in an Envelope with the client's principal and address (KIP-590), under a number, so that one that
arrives twice takes effect once. A controller that is gone or not active any more is not an error yet: the
request waits for the next one, as long as its time lasts. A reply that says why a whole request failed is
raised as ApiError, so that it does not matter to the caller where the controller is.
"""

import asyncio
import ipaddress
import itertools
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError, InvalidBytesError
from headrace.controller.controller_result import PartitionChangeQuota, no_quota
from headrace.controller.drivers.controller import Controller
from headrace.controller.drivers.quorum_controller import QuorumController
from headrace.raft.drivers.raft_client import KafkaRaftClient
from headrace.transport.node_client import NodeClient
from headrace.transport.versions import VersionTable
from headrace.wire.apis import API, ApiKey
from headrace.wire.codec import encode, join_chunks
from headrace.wire.framing import read_response, request_frame
from headrace.wire.notation import schema_of
from headrace.wire.schemas.api_versions import ApiVersionsRequest
from headrace.wire.schemas.envelope import EnvelopeRequest, EnvelopeResponse
from headrace.wire.schemas.principal import DefaultPrincipalData

DIRECT: Final = frozenset(
    {
        ApiKey.ALTER_PARTITION,
        ApiKey.BROKER_REGISTRATION,
        ApiKey.BROKER_HEARTBEAT,
        ApiKey.ALLOCATE_PRODUCER_IDS,
        ApiKey.CONTROLLER_REGISTRATION,
        ApiKey.ASSIGN_REPLICAS_TO_DIRS,
        ApiKey.UPDATE_RAFT_VOTER,
    }
)
"""What nodes ask for themselves."""

REQUEST_MS: Final = 30_000
"""How long a request may wait for a controller (Kafka's request.timeout.ms)."""

ATTEMPT_MS: Final = 5_000
"""How long one controller may take to answer before it is asked again, or another one."""

PROBE_MS: Final = 500
"""How long a controller may take to answer whether it is there."""

CORRELATION_ID_MAX: Final = (1 << 31) - 1

FORWARDER: Final = "headrace-broker-"
"""How the client of a forwarded request is called, with this process's name behind it."""

OF_CLIENT: Final = " of client "
"""What stands between that and the id of the client itself."""

RESULTS: Final = ("topics", "results", "responses")
"""Where replies have results."""

PAUSE_S: Final = 0.02
FRAME_LENGTH: Final = 4
ANYWHERE: Final = "127.0.0.1"


class _Client(NamedTuple):
    """For whom a controller is asked; this node itself where there is no principal."""

    principal: str
    host: str
    client_id: str | None


def with_client_id(forwarder: str, client_id: str | None) -> str:
    """The client of a forwarded request: the controller must know who forwards it, and for whom."""
    return forwarder if client_id is None else f"{forwarder}{OF_CLIENT}{client_id}"


def client_id_of(forwarder: str | None) -> str | None:
    """Whose request was forwarded: what `with_client_id` was given. A broker of another kind forwards
    requests under its client's own name.
    """
    if forwarder is None or not forwarder.startswith(FORWARDER):
        return forwarder
    _, is_told, client_id = forwarder.partition(OF_CLIENT)
    return client_id if is_told else None


class ActiveController(Controller):
    """`local` is this node's own controller, if it has one; `new_peer` makes the way to another node's. No
    other process, of this node or another one, has the same `name`."""

    def __init__(
        self,
        raft: KafkaRaftClient,
        local: QuorumController | None,
        *,
        name: str,
        loop: asyncio.AbstractEventLoop,
        new_peer: Callable[[int], NodeClient],
        is_stopping: Callable[[], bool] = lambda: False,
    ) -> None:
        self._raft = raft
        self._local = local
        self._forwarder = FORWARDER + name
        self._numbers = itertools.count()
        self._loop = loop
        self._new_peer = new_peer
        self._is_stopping = is_stopping
        self._peers: dict[int, NodeClient] = {}
        self._asking: set[asyncio.Task[Any]] = set()

    def ask(
        self,
        request: Any,
        *,
        api_version: int | None = None,
        quota: PartitionChangeQuota = no_quota,
        principal: str = "",
        host: str = ANYWHERE,
        client_id: str | None = None,
    ) -> "asyncio.Future[Any]":
        local = self._local
        alone = self._raft.core.is_voter and len(self._raft.core.voters) == 1
        if local is not None and alone:
            return local.ask(request, api_version=api_version, quota=quota)
        # Also where the controller is in this process: it may lose its office before what it decides is
        # committed, and then the next one has to be asked.
        client = _Client(principal, host, client_id)
        task = self._loop.create_task(self._ask_around(request, api_version, client, quota))
        self._asking.add(task)
        task.add_done_callback(self._asking.discard)
        return task

    def on_behalf_of(self, principal: str, host: str, client_id: str | None = None) -> Controller:
        return _OnBehalf(self, _Client(principal, host, client_id))

    async def is_out_of_reach(self) -> bool:
        core = self._raft.core
        others = [voter for voter in core.voters if voter != core.node_id]
        refused = sum(await asyncio.gather(*map(self._refuses, others)))
        return bool(core.voters) and len(core.voters) - refused < core.majority

    async def _refuses(self, node_id: int) -> bool:
        """Whether nothing listens where a controller did; a way of its own, that no pause holds up."""
        peer = self._new_peer(node_id)
        try:
            await peer.send(ApiVersionsRequest("headrace", "0.1"), timeout_ms=PROBE_MS)
        except ConnectionRefusedError:
            return True
        except (OSError, ApiError, InvalidBytesError):
            return False
        finally:
            peer.close()
        return False

    def stop(self) -> None:
        for task in list(self._asking):
            task.cancel()
        for peer in self._peers.values():
            peer.close()

    async def _ask_around(
        self, request: Any, api_version: int | None, client: _Client, quota: PartitionChangeQuota
    ) -> Any:
        """Ask whoever is the controller, and the next one after it, until one answers."""
        number = next(self._numbers) & CORRELATION_ID_MAX
        deadline = self._loop.time() + REQUEST_MS / 1000
        reason = "no controller is known"
        while self._loop.time() < deadline and not self._is_stopping():
            try:
                if self._local is not None and self._local.is_active:
                    return await self._local.ask(request, api_version=api_version, quota=quota)
                if self._raft.core.leader_id not in (-1, self._raft.core.node_id):
                    return await self._ask_peer(request, number, api_version, client)
            except (ConnectionError, InvalidBytesError) as error:
                reason = str(error)
            except ApiError as error:
                if error.code is not ErrorCode.NOT_CONTROLLER:
                    raise
                reason = error.message
            await asyncio.sleep(PAUSE_S)
        raise ApiError(ErrorCode.REQUEST_TIMED_OUT, f"no active controller answered: {reason}")

    async def _ask_peer(self, request: Any, number: int, api_version: int | None, client: _Client) -> Any:
        # A way of its own to each: the next controller must not wait for the pause after the last one's end.
        leader_id = self._raft.core.leader_id
        peer = self._peers.get(leader_id)
        if peer is None:
            peer = self._peers[leader_id] = self._new_peer(leader_id)
        api_key = schema_of(type(request)).api_key
        assert api_key is not None
        if api_key in DIRECT or not client.principal:
            response = await peer.send(request, timeout_ms=ATTEMPT_MS, at_most=api_version)
            _raise_for(response)
            return response
        used: list[int] = []

        def envelope(versions: VersionTable) -> EnvelopeRequest:
            used.append(versions.choose(api_key, at_most=api_version))
            forwarder = with_client_id(self._forwarder, client.client_id)
            frame = join_chunks(request_frame(request, used[0], number, forwarder))
            return EnvelopeRequest(
                frame[FRAME_LENGTH:], _principal_bytes(client.principal), _host_bytes(client.host)
            )

        answered: EnvelopeResponse = await peer.send(envelope, timeout_ms=REQUEST_MS)
        if answered.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            # Not the client lacks it, but this node: the client is told that something is wrong here.
            raise ApiError(
                ErrorCode.UNKNOWN_SERVER_ERROR,
                f"controller {leader_id} takes nothing that this node forwards: its principal needs "
                "ClusterAction on the cluster, or a place in super.users",
            )
        _raise_for(answered)
        response = read_response(API[api_key].response, used[0], answered.response_data or b"")
        if getattr(response, "error_code", 0) == ErrorCode.NOT_CONTROLLER:
            raise ApiError(ErrorCode.NOT_CONTROLLER, "the node that was asked is not the active controller")
        return response


class _OnBehalf(Controller):
    """The active controller as one client's requests reach it."""

    def __init__(self, controller: ActiveController, client: _Client) -> None:
        self._controller = controller
        self._client = client

    def ask(
        self, request: Any, *, api_version: int | None = None, quota: PartitionChangeQuota = no_quota
    ) -> "asyncio.Future[Any]":
        return self._controller.ask(request, api_version=api_version, quota=quota, **self._client._asdict())


def _raise_for(response: Any) -> None:
    """Also where a reply has no place for an error but its results: none of them was decided then."""
    if not hasattr(response, "error_code"):
        results = [each for name in RESULTS for each in getattr(response, name, ())]
        if any(each.error_code == ErrorCode.NOT_CONTROLLER for each in results):
            raise ApiError(ErrorCode.NOT_CONTROLLER, "the node that was asked is not the active controller")
    elif response.error_code:
        raise ApiError(ErrorCode(response.error_code), getattr(response, "error_message", None) or "")


def _principal_bytes(principal: str) -> bytes:
    """As Kafka serialises a principal: the version of the form, then the form."""
    kind, _, name = principal.partition(":")
    return b"\0\0" + encode(DefaultPrincipalData(type=kind, name=name), 0)


def _host_bytes(host: str) -> bytes:
    try:
        return ipaddress.ip_address(host).packed
    except ValueError:
        return ipaddress.ip_address(ANYWHERE).packed
