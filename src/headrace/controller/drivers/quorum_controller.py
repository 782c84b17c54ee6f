"""This node's controller: it decides requests while its node leads the quorum.

Only the leader of the quorum decides. A decision's records are appended to the metadata log and replayed
into the controller's own image at once; its reply is given when they are committed, and with them all that
it rests on. A request that cannot be decided raises ApiError at once: NOT_CONTROLLER where this node does
not lead, STORAGE_ERROR where the disk is full. If the log fails, every waiting reply becomes
NOT_CONTROLLER.
"""

import asyncio
import logging
import random
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar, get_args

from headrace.base.clock import Clock
from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError, InvalidBytesError
from headrace.base.futures import ignore, then
from headrace.controller import (
    acl_control,
    activation,
    client_quota_control,
    cluster_control,
    configuration_control,
    delegation_token_control,
    feature_control,
    partition_control,
    producer_id_control,
    reassignments,
    replication_control,
    scram_control,
)
from headrace.controller.cluster_state import DiskRoom
from headrace.controller.controller_result import ControllerResult, PartitionChangeQuota, no_quota
from headrace.controller.core import ControllerCore
from headrace.controller.delegation_token_control import AskedForToken, TokenRequest
from headrace.controller.drivers.controller import Controller
from headrace.controller.drivers.periodic_tasks import PeriodicTasks
from headrace.controller.feature_control import voters_for_upgrade
from headrace.metadata.image import MetadataImage, MetadataRecord
from headrace.metadata.image_writer import versioned
from headrace.metadata.metadata_loader import PreparedImage
from headrace.raft.drivers.describe_quorum import handle_describe_quorum
from headrace.raft.drivers.raft_client import Commit, KafkaRaftClient
from headrace.raft.drivers.voter_changes import VoterChanges
from headrace.raft.snapshots import Snapshot
from headrace.settings.broker_config import BrokerConfig
from headrace.wire.apis import API, ApiKey
from headrace.wire.schemas import (
    add_raft_voter,
    allocate_producer_ids,
    alter_client_quotas,
    alter_configs,
    alter_partition,
    alter_partition_reassignments,
    alter_user_scram_credentials,
    assign_replicas_to_dirs,
    broker_heartbeat,
    broker_registration,
    controller_registration,
    create_acls,
    create_partitions,
    create_topics,
    delete_acls,
    delete_topics,
    describe_quorum,
    elect_leaders,
    incremental_alter_configs,
    list_partition_reassignments,
    remove_raft_voter,
    unregister_broker,
    update_features,
    update_raft_voter,
)

logger = logging.getLogger(__name__)

Reply = TypeVar("Reply")

FEATURES_VERSION: Final = 2
"""Of UpdateFeatures, where the request did not come over the wire."""

ABSENCE_MS: Final = 100
"""A timer that comes later than this tells of a process that was paused or did not get the processor."""

FENCE_AGAIN_S: Final = 1.0
"""Before a fencing that could not be written, for want of room on the disk, is tried again."""


class QuorumController(Controller):
    """This node's controller. Subscribe it to raft before raft starts, and before whoever keeps `committed`,
    the image of what is committed. `bootstrap` is for a log that is empty.
    """

    def __init__(
        self,
        raft: KafkaRaftClient,
        config: BrokerConfig,
        *,
        cluster_id: str,
        bootstrap: Sequence[MetadataRecord],
        committed: MetadataImage,
        incarnation_id: bytes,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        rng: random.Random,
        room: DiskRoom = dict,
    ) -> None:
        self.core = ControllerCore(
            cluster_id, config, committed=committed, incarnation_id=incarnation_id, room=room
        )
        self._raft = raft
        self._voter_changes = VoterChanges(raft, cluster_id, loop)
        self._bootstrap = bootstrap
        self._committed = committed
        self._loop = loop
        self._clock = clock
        self._rng = rng
        self._active = False
        self._replayed_to = -1
        self._preparing = PreparedImage(lambda: self.core.empty_image())
        self._last_append: asyncio.Future[int] | None = None
        self._expiry: asyncio.TimerHandle | None = None
        self._leader_upkeep = PeriodicTasks(
            self._decide, lambda: self.core.cluster, loop=loop, wall_ms=clock.now_ms
        )

    # -- following the log -----------------------------------------------------------------------------------

    def prepare(self, snapshot: Snapshot, records: Sequence[MetadataRecord]) -> None:
        """A slice of a snapshot; what this controller knows stays as it is meanwhile."""
        self._preparing.add(snapshot, records)

    def handle_load_snapshot(self, snapshot: Snapshot) -> None:
        self.core.start_over(self._preparing.take(snapshot), snapshot.kraft_version)
        self._replayed_to = snapshot.id.end_offset - 1

    def handle_commit(self, commit: Commit) -> None:
        """Records that this controller decided itself are known to it already."""
        if commit.last_offset > self._replayed_to:
            self.core.replay(commit.records)
            self._replayed_to = commit.last_offset
        if commit.kraft_version is not None:
            self.core.image.kraft_version = commit.kraft_version

    def handle_leader_change(self, leader_id: int, epoch: int) -> None:
        """Become active, or stop deciding."""
        self._active = leader_id == self.core.node_id
        if not self._active and self._replayed_to >= self._raft.delivered:
            # What was decided here and never committed may be decided otherwise elsewhere.
            self.core.restore(self._committed)
            self._replayed_to = self._raft.delivered - 1
        self.core.image.controller_id = leader_id
        self._leader_upkeep.stop()
        if self._active:
            now_ms = self._clock.monotonic_ms()
            try:
                begun = self._decide(lambda: self.core.activate(self._bootstrap, now_ms))
            except ApiError as error:
                # A controller that cannot write what its office begins with must leave it to another.
                self._raft.fail(error)
                return
            begun.add_done_callback(ignore)
            self._leader_upkeep.start()

    @property
    def is_active(self) -> bool:
        return self._active and self._raft.is_leader

    async def settle(self) -> None:
        """Return once everything decided so far is committed."""
        if self._last_append is not None and not self._last_append.done():
            await asyncio.wait([self._last_append])

    def stop(self) -> None:
        self._active = False
        self._leader_upkeep.stop()
        if self._expiry is not None:
            self._expiry.cancel()

    # -- deciding --------------------------------------------------------------------------------------------

    def _decide(self, decide: Callable[[], ControllerResult[Reply]]) -> "asyncio.Future[Reply]":
        """Make one decision, write it, think on as if it were committed, and reply when it is."""
        if not self.is_active:
            raise ApiError(ErrorCode.NOT_CONTROLLER, "this node is not the active controller")
        decision = decide()
        if decision.records:
            entries = list(versioned(decision.records, self.core.image.features))
            try:
                written = self._raft.append(entries)
            except InvalidBytesError as error:
                # A name or value that the request could carry but a record cannot.
                raise ApiError(ErrorCode.INVALID_REQUEST, str(error)) from error
            self.core.replay(decision.records)
            self._replayed_to = self._raft.next_offset - 1
            self._last_append = written
        if self._last_append is None or self._last_append.done():
            answer: asyncio.Future[Reply] = self._loop.create_future()
            answer.set_result(decision.reply)
            return answer
        # A reply without records of its own may tell of what earlier decisions did, so it waits for them too.
        return then(self._last_append, lambda _: decision.reply, loop=self._loop, shared=True)

    def ask(
        self, request: Any, *, api_version: int | None = None, quota: PartitionChangeQuota = no_quota
    ) -> "asyncio.Future[Any]":
        """Decide a request. ApiError at once where it cannot be decided."""
        kind = type(request)
        if kind is describe_quorum.DescribeQuorumRequest:
            return self._describe_quorum(
                request, API[ApiKey.DESCRIBE_QUORUM].max_version if api_version is None else api_version
            )
        if kind in _OF_VOTERS:
            if not self.is_active:
                raise ApiError(ErrorCode.NOT_CONTROLLER, "this node is not the active controller")
            return self._voter_changes.ask(request)
        if kind is update_features.UpdateFeaturesRequest:
            return self._update_features(request, FEATURES_VERSION if api_version is None else api_version)
        if kind in _KEEP_ALIVE:
            self._note_replayed()
        if kind in CHANGES_OF_PARTITIONS:
            change = CHANGES_OF_PARTITIONS[kind]
            return self._decide(lambda: change(self, request, quota))
        decide = DECISIONS[kind]
        if kind not in _KEEP_ALIVE:
            return self._decide(lambda: decide(self, request, api_version))
        answer = self._decide(lambda: cluster_control.tell_of_brokers(decide(self, request, api_version)))
        self._watch_sessions()
        return answer

    def _update_features(
        self, request: update_features.UpdateFeaturesRequest, api_version: int
    ) -> "asyncio.Future[Any]":
        """The quorum's own version is raised by records of the quorum, before those of other features."""
        if not self.is_active:
            raise ApiError(ErrorCode.NOT_CONTROLLER, "this node is not the active controller")
        voters, obstacle = voters_for_upgrade(self._raft, self.core.image, request)
        decision = feature_control.update_features(
            self.core.cluster, request, api_version=api_version, kraft_obstacle=obstacle
        )
        if voters is not None and not decision.reply.error_code and not request.validate_only:
            self._last_append = self._voter_changes.upgrade(voters)
            self._replayed_to = self._raft.next_offset - 1
        return self._decide(lambda: decision)

    def _describe_quorum(
        self, request: describe_quorum.DescribeQuorumRequest, api_version: int
    ) -> "asyncio.Future[Any]":
        """What the quorum's leader knows of its members; no decision, so it waits for none."""
        answer: asyncio.Future[Any] = self._loop.create_future()
        answer.set_result(
            handle_describe_quorum(self._raft, request, api_version=api_version, clock=self._clock)
        )
        return answer

    def _note_replayed(self) -> None:
        """Replicas tell with every fetch what they know to be committed: sooner than by heartbeats."""
        leader_state = self._raft.core.leader_state
        if leader_state is not None:
            for node_id, replica in leader_state.replicas.items():
                self.core.sessions.note_replayed(node_id, replica.committed_to - 1)
            self.core.sessions.note_replayed(self.core.node_id, self._raft.delivered - 1)

    @property
    def rng(self) -> random.Random:
        return self._rng

    @property
    def next_offset(self) -> int:
        """Where the next record of the log will be."""
        return self._raft.next_offset

    def now_ms(self) -> int:
        return self._clock.monotonic_ms()

    def wall_ms(self) -> int:
        return self._clock.now_ms()

    def broker_gone(self, broker_id: int, epoch: int) -> None:
        """A broker's process has certainly ended: fence it now."""
        broker = self.core.image.brokers.get(broker_id)
        if not self.is_active or broker is None or broker.epoch != epoch:
            return
        # One that hands over has closed its listeners already, and leads nothing when it goes.
        if not broker.fenced and not broker.in_controlled_shutdown:
            logger.warning("broker %d is gone: its process has ended, or its machine", broker_id)
            self.core.sessions.expire(broker_id)
            if self._expiry is not None:
                self._expiry.cancel()
            self._fence_silent()

    def _watch_sessions(self) -> None:
        """Look again when the next session can be over."""
        if self._expiry is None and self.is_active:
            due_ms = self.core.sessions.next_expiry_ms(self.core.node_id)
            if due_ms is not None:
                delay_ms = max(due_ms - self._clock.monotonic_ms(), 1)
                self._expiry = self._loop.call_later(
                    delay_ms / 1000, self._sessions_over, self._clock.monotonic_ms() + delay_ms
                )

    def _sessions_over(self, due_ms: int) -> None:
        """A session has run out, unless it is this process that was away: then what the brokers said
        meanwhile is still to be read."""
        now_ms = self._clock.monotonic_ms()
        if now_ms - due_ms > ABSENCE_MS:
            logger.info("this controller could not listen for %d ms: sessions last longer", now_ms - due_ms)
            self.core.sessions.forgive(now_ms - due_ms, now_ms)
        self._fence_silent()

    def _fence_silent(self) -> None:
        self._expiry = None
        if self.is_active:
            now_ms = self._clock.monotonic_ms()
            node_id = self.core.node_id
            try:
                fenced = self._decide(
                    lambda: cluster_control.tell_of_brokers(
                        cluster_control.fence_silent(
                            self.core.cluster, self.core.sessions, now_ms, spare=node_id
                        )
                    )
                )
            except ApiError as error:
                logger.warning("silent brokers are not fenced yet: %s", error)
                self._expiry = self._loop.call_later(FENCE_AGAIN_S, self._fence_silent)
                return
            fenced.add_done_callback(ignore)
            self._watch_sessions()


def _without_principal() -> ControllerResult[Any]:
    """A request about tokens that set out for another controller, and found that this one is active now."""
    raise ApiError(ErrorCode.REQUEST_TIMED_OUT, "the controller has changed meanwhile: ask again")


Decide = Callable[[QuorumController, Any, int | None], ControllerResult[Any]]

Change = Callable[[QuorumController, Any, PartitionChangeQuota], ControllerResult[Any]]

CHANGES_OF_PARTITIONS: Final[dict[type[Any], Change]] = {
    create_topics.CreateTopicsRequest: lambda c, request, quota: replication_control.create_topics(
        c.core.cluster, request, rng=c.rng, quota=quota
    ),
    delete_topics.DeleteTopicsRequest: lambda c, request, quota: replication_control.delete_topics(
        c.core.cluster, request, quota=quota
    ),
    create_partitions.CreatePartitionsRequest: lambda c, request, quota: (
        replication_control.create_partitions(c.core.cluster, request, rng=c.rng, quota=quota)
    ),
}
"""Who decides requests that clients have quotas of."""

DECISIONS: Final[dict[type[Any], Decide]] = {
    alter_client_quotas.AlterClientQuotasRequest: lambda c, request, _: (
        client_quota_control.alter_client_quotas(c.core.cluster, request)
    ),
    AskedForToken: lambda c, request, _: delegation_token_control.change_token(
        c.core.cluster, request, now_ms=c.wall_ms(), rng=c.rng
    ),
    **dict.fromkeys(get_args(TokenRequest), lambda c, request, _: _without_principal()),
    alter_user_scram_credentials.AlterUserScramCredentialsRequest: lambda c, request, _: (
        scram_control.alter_user_scram_credentials(c.core.cluster, request)
    ),
    incremental_alter_configs.IncrementalAlterConfigsRequest: lambda c, request, _: (
        configuration_control.incremental_alter_configs(c.core.cluster, request)
    ),
    alter_configs.AlterConfigsRequest: lambda c, request, _: configuration_control.alter_configs(
        c.core.cluster, request
    ),
    create_acls.CreateAclsRequest: lambda c, request, _: acl_control.create_acls(
        c.core.cluster, request, rng=c.rng
    ),
    delete_acls.DeleteAclsRequest: lambda c, request, _: acl_control.delete_acls(c.core.cluster, request),
    unregister_broker.UnregisterBrokerRequest: lambda c, request, _: cluster_control.unregister_broker(
        c.core.cluster, request
    ),
    controller_registration.ControllerRegistrationRequest: lambda c, request, _: (
        activation.register_controller(request)
    ),
    allocate_producer_ids.AllocateProducerIdsRequest: lambda c, request, _: (
        producer_id_control.allocate_producer_ids(c.core.cluster, request)
    ),
    elect_leaders.ElectLeadersRequest: lambda c, request, _: partition_control.elect_leaders(
        c.core.cluster, request
    ),
    alter_partition.AlterPartitionRequest: lambda c, request, version: partition_control.alter_partition(
        c.core.cluster, request, api_version=3 if version is None else version
    ),
    assign_replicas_to_dirs.AssignReplicasToDirsRequest: lambda c, request, _: (
        partition_control.assign_replicas_to_dirs(c.core.cluster, request)
    ),
    alter_partition_reassignments.AlterPartitionReassignmentsRequest: lambda c, request, _: (
        reassignments.alter_partition_reassignments(c.core.cluster, request)
    ),
    list_partition_reassignments.ListPartitionReassignmentsRequest: lambda c, request, _: ControllerResult(
        (), reassignments.list_partition_reassignments(c.core.image, request)
    ),
    broker_registration.BrokerRegistrationRequest: lambda c, request, _: cluster_control.register_broker(
        c.core.cluster, c.core.sessions, request, next_offset=c.next_offset, now_ms=c.now_ms()
    ),
    broker_heartbeat.BrokerHeartbeatRequest: lambda c, request, _: cluster_control.heartbeat(
        c.core.cluster, c.core.sessions, request, next_offset=c.next_offset, now_ms=c.now_ms()
    ),
}
"""Who decides each kind of request."""

_OF_VOTERS: Final = frozenset(
    {
        add_raft_voter.AddRaftVoterRequest,
        remove_raft_voter.RemoveRaftVoterRequest,
        update_raft_voter.UpdateRaftVoterRequest,
    }
)

_KEEP_ALIVE: Final = frozenset(
    {broker_registration.BrokerRegistrationRequest, broker_heartbeat.BrokerHeartbeatRequest}
)
