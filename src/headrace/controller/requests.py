"""What can be asked of the cluster's controller: a method per request, a future per reply.

The controller of this node (`driver.Controller`) and the active one, wherever it is (`active.py`), have the
same face. A request that cannot be decided raises ApiError, at once or in its future; replies that carry an
error of their own for each topic or partition come as they are.
"""

from abc import ABC, abstractmethod
from asyncio import Future
from typing import Any

from headrace.wire.schemas import (
    add_raft_voter,
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
    remove_raft_voter,
    unregister_broker,
    update_features,
    update_raft_voter,
)


class ControllerRequests(ABC):
    """The requests by name; `ask` is what a kind of controller does with each."""

    async def is_out_of_reach(self) -> bool:
        """Whether there can be no controller: the processes of a majority of the quorum have ended."""
        return False

    def on_behalf_of(self, principal: str, host: str) -> "ControllerRequests":
        """The same controller, for requests of a client: whoever passes them on says whose they are."""
        return self

    @abstractmethod
    def ask(self, request: Any, *, api_version: int | None = None) -> "Future[Any]":
        """The reply to a request of any kind; `api_version` where its meaning depends on that."""

    def create_topics(
        self, request: create_topics.CreateTopicsRequest
    ) -> "Future[create_topics.CreateTopicsResponse]":
        return self.ask(request)

    def delete_topics(
        self, request: delete_topics.DeleteTopicsRequest
    ) -> "Future[delete_topics.DeleteTopicsResponse]":
        return self.ask(request)

    def create_partitions(
        self, request: create_partitions.CreatePartitionsRequest
    ) -> "Future[create_partitions.CreatePartitionsResponse]":
        return self.ask(request)

    def incremental_alter_configs(
        self, request: incremental_alter_configs.IncrementalAlterConfigsRequest
    ) -> "Future[incremental_alter_configs.IncrementalAlterConfigsResponse]":
        return self.ask(request)

    def alter_configs(
        self, request: alter_configs.AlterConfigsRequest
    ) -> "Future[alter_configs.AlterConfigsResponse]":
        return self.ask(request)

    def unregister_broker(
        self, request: unregister_broker.UnregisterBrokerRequest
    ) -> "Future[unregister_broker.UnregisterBrokerResponse]":
        return self.ask(request)

    def elect_leaders(
        self, request: elect_leaders.ElectLeadersRequest
    ) -> "Future[elect_leaders.ElectLeadersResponse]":
        return self.ask(request)

    def alter_partition_reassignments(
        self, request: alter_partition_reassignments.AlterPartitionReassignmentsRequest
    ) -> "Future[alter_partition_reassignments.AlterPartitionReassignmentsResponse]":
        return self.ask(request)

    def list_partition_reassignments(
        self, request: list_partition_reassignments.ListPartitionReassignmentsRequest
    ) -> "Future[list_partition_reassignments.ListPartitionReassignmentsResponse]":
        return self.ask(request)

    def allocate_producer_ids(
        self, request: allocate_producer_ids.AllocateProducerIdsRequest
    ) -> "Future[allocate_producer_ids.AllocateProducerIdsResponse]":
        return self.ask(request)

    def assign_replicas_to_dirs(
        self, request: assign_replicas_to_dirs.AssignReplicasToDirsRequest
    ) -> "Future[assign_replicas_to_dirs.AssignReplicasToDirsResponse]":
        return self.ask(request)

    def update_features(
        self, request: update_features.UpdateFeaturesRequest, *, api_version: int
    ) -> "Future[update_features.UpdateFeaturesResponse]":
        return self.ask(request, api_version=api_version)

    def describe_quorum(
        self, request: describe_quorum.DescribeQuorumRequest, *, api_version: int
    ) -> "Future[describe_quorum.DescribeQuorumResponse]":
        return self.ask(request, api_version=api_version)

    def alter_partition(
        self, request: alter_partition.AlterPartitionRequest, *, api_version: int = 3
    ) -> "Future[alter_partition.AlterPartitionResponse]":
        return self.ask(request, api_version=api_version)

    # -- of brokers and controllers themselves ---------------------------------------------------------------

    def register_broker(
        self, request: broker_registration.BrokerRegistrationRequest
    ) -> "Future[broker_registration.BrokerRegistrationResponse]":
        return self.ask(request)

    def heartbeat(
        self, request: broker_heartbeat.BrokerHeartbeatRequest
    ) -> "Future[broker_heartbeat.BrokerHeartbeatResponse]":
        return self.ask(request)

    def register_controller(
        self, request: controller_registration.ControllerRegistrationRequest
    ) -> "Future[controller_registration.ControllerRegistrationResponse]":
        return self.ask(request)

    # -- of the quorum ---------------------------------------------------------------------------------------

    def add_raft_voter(
        self, request: add_raft_voter.AddRaftVoterRequest
    ) -> "Future[add_raft_voter.AddRaftVoterResponse]":
        return self.ask(request)

    def remove_raft_voter(
        self, request: remove_raft_voter.RemoveRaftVoterRequest
    ) -> "Future[remove_raft_voter.RemoveRaftVoterResponse]":
        return self.ask(request)

    def update_raft_voter(
        self, request: update_raft_voter.UpdateRaftVoterRequest
    ) -> "Future[update_raft_voter.UpdateRaftVoterResponse]":
        return self.ask(request)
