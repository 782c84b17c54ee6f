"""The controller as others call it: a method per request, a future per reply.

Only the leader of the quorum decides. A decision's records are appended to the metadata log and replayed
into the controller's own image at once; its reply is given when they are committed, and with them all that
it rests on. A request that cannot be decided raises ApiError at once: NOT_CONTROLLER where this node does
not lead, STORAGE_ERROR where the disk is full. If the log fails, every waiting reply becomes
NOT_CONTROLLER.
"""

import asyncio
import random
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from headrace.base.clock import Clock
from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError, InvalidBytesError
from headrace.controller import (
    activation,
    brokers,
    configs,
    features,
    new_topics,
    partitions,
    producer_ids,
    quorum,
    reassignments,
    topics,
)
from headrace.controller.core import ControllerCore
from headrace.controller.decision import Decision
from headrace.controller.log_entries import versioned
from headrace.metadata.image import MetadataRecord
from headrace.raft.driver import Commit, RaftDriver
from headrace.raft.snapshots import Snapshot
from headrace.settings.broker_config import BrokerConfig
from headrace.wire.schemas import (
    allocate_producer_ids,
    alter_configs,
    alter_partition,
    alter_partition_reassignments,
    assign_replicas_to_dirs,
    broker_heartbeat,
    broker_registration,
    controller_registration,
    create_partitions,
    create_topics,
    delete_topics,
    describe_quorum,
    elect_leaders,
    incremental_alter_configs,
    list_partition_reassignments,
    unregister_broker,
    update_features,
)

Reply = TypeVar("Reply")


class Controller:
    """This node's controller. Subscribe it to raft before raft starts; `bootstrap` is for a log that is
    empty.
    """

    def __init__(
        self,
        raft: RaftDriver,
        config: BrokerConfig,
        *,
        cluster_id: str,
        bootstrap: Sequence[MetadataRecord],
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        rng: random.Random,
    ) -> None:
        self.core = ControllerCore(cluster_id, config)
        self._raft = raft
        self._bootstrap = bootstrap
        self._loop = loop
        self._clock = clock
        self._rng = rng
        self._active = False
        self._replayed_to = -1
        self._last_append: asyncio.Future[int] | None = None
        self._expiry: asyncio.TimerHandle | None = None

    # -- following the log -----------------------------------------------------------------------------------

    def load_snapshot(self, snapshot: Snapshot) -> None:
        self.core.start_over(snapshot.records, snapshot.kraft_version)
        self._replayed_to = snapshot.id.end_offset - 1

    def commit(self, commit: Commit) -> None:
        """Records that this controller decided itself are known to it already."""
        if commit.last_offset > self._replayed_to:
            self.core.replay(commit.records)
            self._replayed_to = commit.last_offset

    def follow_leader(self, leader_id: int, epoch: int) -> None:
        """Become active, or stop deciding."""
        self.core.image.controller_id = leader_id
        self._active = leader_id == self.core.node_id
        if self._active:
            now_ms = self._clock.monotonic_ms()
            self._decide(lambda: self.core.activate(self._bootstrap, now_ms)).add_done_callback(_forget)

    @property
    def is_active(self) -> bool:
        return self._active and self._raft.is_leader

    async def settle(self) -> None:
        """Return once everything decided so far is committed."""
        if self._last_append is not None and not self._last_append.done():
            await asyncio.wait([self._last_append])

    def stop(self) -> None:
        self._active = False
        if self._expiry is not None:
            self._expiry.cancel()

    # -- deciding --------------------------------------------------------------------------------------------

    def _decide(self, decide: Callable[[], Decision[Reply]]) -> "asyncio.Future[Reply]":
        """Make one decision, write it, think on as if it were committed, and reply when it is."""
        if not self.is_active:
            raise ApiError(ErrorCode.NOT_CONTROLLER, "this node is not the active controller")
        decision = decide()
        answer: asyncio.Future[Reply] = self._loop.create_future()
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
            answer.set_result(decision.reply)
            return answer
        # A reply without records of its own may tell of what earlier decisions did, so it waits for them too.
        self._last_append.add_done_callback(lambda done: _answer(answer, done, decision.reply))
        return answer

    def create_topics(
        self, request: create_topics.CreateTopicsRequest
    ) -> "asyncio.Future[create_topics.CreateTopicsResponse]":
        return self._decide(lambda: new_topics.create_topics(self.core.cluster, request, rng=self._rng))

    def delete_topics(
        self, request: delete_topics.DeleteTopicsRequest
    ) -> "asyncio.Future[delete_topics.DeleteTopicsResponse]":
        return self._decide(lambda: topics.delete_topics(self.core.cluster, request))

    def create_partitions(
        self, request: create_partitions.CreatePartitionsRequest
    ) -> "asyncio.Future[create_partitions.CreatePartitionsResponse]":
        return self._decide(lambda: topics.create_partitions(self.core.cluster, request, rng=self._rng))

    def incremental_alter_configs(
        self, request: incremental_alter_configs.IncrementalAlterConfigsRequest
    ) -> "asyncio.Future[incremental_alter_configs.IncrementalAlterConfigsResponse]":
        return self._decide(lambda: configs.incremental_alter_configs(self.core.cluster, request))

    def alter_configs(
        self, request: alter_configs.AlterConfigsRequest
    ) -> "asyncio.Future[alter_configs.AlterConfigsResponse]":
        return self._decide(lambda: configs.alter_configs(self.core.cluster, request))

    def update_features(
        self, request: update_features.UpdateFeaturesRequest, *, api_version: int
    ) -> "asyncio.Future[update_features.UpdateFeaturesResponse]":
        return self._decide(
            lambda: features.update_features(self.core.cluster, request, api_version=api_version)
        )

    def unregister_broker(
        self, request: unregister_broker.UnregisterBrokerRequest
    ) -> "asyncio.Future[unregister_broker.UnregisterBrokerResponse]":
        return self._decide(lambda: brokers.unregister_broker(self.core.cluster, request))

    def register_controller(
        self, request: controller_registration.ControllerRegistrationRequest
    ) -> "asyncio.Future[controller_registration.ControllerRegistrationResponse]":
        return self._decide(lambda: activation.register_controller(request))

    def allocate_producer_ids(
        self, request: allocate_producer_ids.AllocateProducerIdsRequest
    ) -> "asyncio.Future[allocate_producer_ids.AllocateProducerIdsResponse]":
        return self._decide(lambda: producer_ids.allocate_producer_ids(self.core.cluster, request))

    def elect_leaders(
        self, request: elect_leaders.ElectLeadersRequest
    ) -> "asyncio.Future[elect_leaders.ElectLeadersResponse]":
        return self._decide(lambda: partitions.elect_leaders(self.core.cluster, request))

    def alter_partition(
        self, request: alter_partition.AlterPartitionRequest, *, api_version: int = 3
    ) -> "asyncio.Future[alter_partition.AlterPartitionResponse]":
        return self._decide(
            lambda: partitions.alter_partition(self.core.cluster, request, api_version=api_version)
        )

    def assign_replicas_to_dirs(
        self, request: assign_replicas_to_dirs.AssignReplicasToDirsRequest
    ) -> "asyncio.Future[assign_replicas_to_dirs.AssignReplicasToDirsResponse]":
        return self._decide(lambda: partitions.assign_replicas_to_dirs(self.core.cluster, request))

    def alter_partition_reassignments(
        self, request: alter_partition_reassignments.AlterPartitionReassignmentsRequest
    ) -> "asyncio.Future[alter_partition_reassignments.AlterPartitionReassignmentsResponse]":
        return self._decide(lambda: reassignments.alter_partition_reassignments(self.core.cluster, request))

    def list_partition_reassignments(
        self, request: list_partition_reassignments.ListPartitionReassignmentsRequest
    ) -> "asyncio.Future[list_partition_reassignments.ListPartitionReassignmentsResponse]":
        image = self.core.image
        return self._decide(lambda: Decision((), reassignments.list_partition_reassignments(image, request)))

    def describe_quorum(
        self, request: describe_quorum.DescribeQuorumRequest, *, api_version: int
    ) -> describe_quorum.DescribeQuorumResponse:
        """What the quorum's leader knows of its members; no decision, so no future."""
        return quorum.describe_quorum(
            self._raft, request, api_version=api_version, now_ms=self._clock.now_ms()
        )

    # -- brokers ---------------------------------------------------------------------------------------------

    def register_broker(
        self, request: broker_registration.BrokerRegistrationRequest
    ) -> "asyncio.Future[broker_registration.BrokerRegistrationResponse]":
        answer = self._decide(
            lambda: brokers.register_broker(
                self.core.cluster,
                self.core.sessions,
                request,
                next_offset=self._raft.next_offset,
                now_ms=self._clock.monotonic_ms(),
            )
        )
        self._watch_sessions()
        return answer

    def heartbeat(
        self, request: broker_heartbeat.BrokerHeartbeatRequest
    ) -> "asyncio.Future[broker_heartbeat.BrokerHeartbeatResponse]":
        answer = self._decide(
            lambda: brokers.heartbeat(
                self.core.cluster,
                self.core.sessions,
                request,
                next_offset=self._raft.next_offset,
                now_ms=self._clock.monotonic_ms(),
            )
        )
        self._watch_sessions()
        return answer

    def _watch_sessions(self) -> None:
        """Look again when the next session can be over."""
        if self._expiry is None and self.is_active:
            due_ms = self.core.sessions.next_expiry_ms(self.core.node_id)
            if due_ms is not None:
                delay_ms = max(due_ms - self._clock.monotonic_ms(), 1)
                self._expiry = self._loop.call_later(delay_ms / 1000, self._fence_silent)

    def _fence_silent(self) -> None:
        self._expiry = None
        if self.is_active:
            now_ms = self._clock.monotonic_ms()
            node_id = self.core.node_id
            fenced = self._decide(
                lambda: brokers.fence_silent(self.core.cluster, self.core.sessions, now_ms, spare=node_id)
            )
            fenced.add_done_callback(_forget)
            self._watch_sessions()


def _answer(answer: "asyncio.Future[Reply]", written: "asyncio.Future[int]", reply: Reply) -> None:
    if answer.done():
        return
    error = written.exception()
    if error is None:
        answer.set_result(reply)
    else:
        answer.set_exception(error)


def _forget(done: "asyncio.Future[Any]") -> None:
    """Nobody waits for this: a failure of the log is told to those who do."""
    if not done.cancelled():
        done.exception()
