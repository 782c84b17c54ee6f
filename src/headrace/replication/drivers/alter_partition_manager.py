"""Asks the controller for in-sync sets (AlterPartition): all that leaders of this node propose, in one
request
at a time.

What is noted while a request is under way goes with the next. A proposal is taken from its partition again
when it is sent, so one that the metadata log has overtaken is not sent at all. An answer is one of these:

- it is so: the partition goes on with the new set at once;
- the controller will not have a replica in the set (it is fenced, or another process by now): withdrawn;
- the asker does not know the partition as it is: nothing to do, the metadata log is about to tell it;
- anything else, and a request that failed: asked again after a pause.
"""

import asyncio
import logging
from collections.abc import Callable
from itertools import islice
from typing import Final

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.base.ids import TopicId, TopicPartition
from headrace.metadata.topics import RECOVERED
from headrace.replication.leader_state import IsrProposal
from headrace.replication.partition import Partition
from headrace.wire.schemas.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    BrokerState,
    RequestPartitionData,
    RequestTopicData,
    ResponsePartitionData,
)

logger = logging.getLogger(__name__)

TOLD_MAX: Final = 5
RETRY_S: Final = 0.05
"""After a failure; Kafka's AlterPartition manager waits as long."""

PARTITIONS_MAX: Final = 2_000
"""In one request: its records must fit into one batch of the metadata log."""

OVERTAKEN: Final = frozenset(
    {
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.NEW_LEADER_ELECTED,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)
REFUSED: Final = frozenset({ErrorCode.INELIGIBLE_REPLICA, ErrorCode.OPERATION_NOT_ATTEMPTED})

SendAlterPartition = Callable[[AlterPartitionRequest], "asyncio.Future[AlterPartitionResponse]"]


class AlterPartitionManager:
    """What is noted waits until `begin`: only a registered broker can ask."""

    def __init__(self, send: SendAlterPartition, *, node_id: int, loop: asyncio.AbstractEventLoop) -> None:
        self._send_to_controller = send
        self._node_id = node_id
        self._loop = loop
        self._broker_epoch: int | None = None
        self._noted: dict[TopicPartition, Partition] = {}
        self._next: asyncio.Handle | None = None
        self._is_asking = False
        self._shrunk: list[str] = []
        self._expanded: list[str] = []

    def submit(self, partition: Partition) -> None:
        """A partition has an in-sync set to propose."""
        self._noted[partition.topic_partition] = partition
        self._ask_soon(0)

    def begin(self, broker_epoch: int) -> None:
        self._broker_epoch = broker_epoch
        self._ask_soon(0)

    def stop(self) -> None:
        self._broker_epoch = None
        if self._next is not None:
            self._next.cancel()
            self._next = None

    def _ask_soon(self, delay_s: float) -> None:
        idle = self._next is None and not self._is_asking
        if self._noted and self._broker_epoch is not None and idle:
            self._next = self._loop.call_later(delay_s, self._ask)

    def _ask(self) -> None:
        self._next = None
        if self._broker_epoch is None:
            return
        asked: dict[tuple[TopicId, int], tuple[Partition, IsrProposal]] = {}
        for partition in list(islice(self._noted.values(), PARTITIONS_MAX)):
            del self._noted[partition.topic_partition]
            proposal = partition.proposal()
            if proposal is not None:
                asked[partition.topic_id, partition.topic_partition.partition] = partition, proposal
        if not asked:
            self._ask_soon(0)
            return
        self._is_asking = True
        try:
            answer = self._send_to_controller(_request(self._node_id, self._broker_epoch, asked))
        except ApiError as error:
            self._failed(asked, error)
        else:
            answer.add_done_callback(lambda done: self._answered(done, asked))

    def _answered(
        self,
        done: "asyncio.Future[AlterPartitionResponse]",
        asked: dict[tuple[TopicId, int], tuple[Partition, IsrProposal]],
    ) -> None:
        error = asyncio.CancelledError() if done.cancelled() else done.exception()
        if error is None and done.result().error_code:
            error = ApiError(ErrorCode(done.result().error_code))
        if error is not None:
            self._failed(asked, error)
            return
        self._is_asking = False
        left = dict(asked)
        for topic in done.result().topics:
            for result in topic.partitions:
                found = left.pop((TopicId(topic.topic_id), result.partition_index), None)
                if found is not None:
                    self._apply_result(*found, result)
        for partition, _ in left.values():
            self._noted[partition.topic_partition] = partition
        self._tell()
        self._ask_soon(RETRY_S)

    def _tell(self) -> None:
        """One line for the changes of one answer: a broker that comes back joins thousands of sets."""
        if self._shrunk:
            logger.warning("%d ISRs shrink: %s", len(self._shrunk), _first(self._shrunk))
        if self._expanded:
            logger.info("%d ISRs expand: %s", len(self._expanded), _first(self._expanded))
        self._shrunk, self._expanded = [], []

    def _apply_result(
        self, partition: Partition, proposal: IsrProposal, result: ResponsePartitionData
    ) -> None:
        code = ErrorCode(result.error_code)
        if code is ErrorCode.NONE:
            before = partition.in_sync
            partition.proposal_accepted(
                proposal,
                leader_epoch=result.leader_epoch,
                partition_epoch=result.partition_epoch,
                in_sync=result.isr,
            )
            told = self._shrunk if before - set(result.isr) else self._expanded
            told.append(f"{partition.topic_partition} from {sorted(before)} to {sorted(result.isr)}")
        elif code in REFUSED:
            partition.proposal_withdrawn(proposal)
        elif code not in OVERTAKEN:
            self._noted[partition.topic_partition] = partition
        if code is not ErrorCode.NONE:
            logger.info("%s: no change of who is in sync: %s", partition.topic_partition, code.name)

    def _failed(
        self, asked: dict[tuple[TopicId, int], tuple[Partition, IsrProposal]], error: BaseException
    ) -> None:
        self._is_asking = False
        logger.info("%d in-sync sets are not proposed yet: %s", len(asked), error)
        for partition, _ in asked.values():
            self._noted[partition.topic_partition] = partition
        self._ask_soon(RETRY_S)


def _first(changes: list[str]) -> str:
    return "; ".join(changes[:TOLD_MAX]) + ("; …" if len(changes) > TOLD_MAX else "")


def _request(
    node_id: int, broker_epoch: int, asked: dict[tuple[TopicId, int], tuple[Partition, IsrProposal]]
) -> AlterPartitionRequest:
    topics: dict[TopicId, list[RequestPartitionData]] = {}
    for (topic_id, index), (_, proposal) in asked.items():
        topics.setdefault(topic_id, []).append(
            RequestPartitionData(
                partition_index=index,
                leader_epoch=proposal.leader_epoch,
                new_isr_with_epochs=[BrokerState(*each) for each in proposal.in_sync],
                # A leader has recovered what it has when it serves: there is nowhere to get more from.
                leader_recovery_state=RECOVERED,
                partition_epoch=proposal.partition_epoch,
            )
        )
    return AlterPartitionRequest(node_id, broker_epoch, [RequestTopicData(*each) for each in topics.items()])
