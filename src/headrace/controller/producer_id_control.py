"""Producer ids are handed to brokers in blocks, so that a producer's start costs no write to the metadata
log.
"""

from typing import Final

from headrace.base.error_codes import ErrorCode
from headrace.controller.cluster_control import check_broker_epoch
from headrace.controller.cluster_state import ClusterState
from headrace.controller.controller_result import ControllerResult
from headrace.wire.schemas.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from headrace.wire.schemas.metadata_records import ProducerIdsRecord

BLOCK_SIZE: Final = 1000
LAST_ID: Final = 2**63 - 1


def allocate_producer_ids(
    cluster: ClusterState, request: AllocateProducerIdsRequest
) -> ControllerResult[AllocateProducerIdsResponse]:
    """The next block, for this broker alone: ids of a block that was not used up are never given again."""
    check_broker_epoch(cluster, request.broker_id, request.broker_epoch)
    first = cluster.image.next_producer_id
    if first > LAST_ID - BLOCK_SIZE:
        return ControllerResult((), AllocateProducerIdsResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR))
    record = ProducerIdsRecord(
        broker_id=request.broker_id, broker_epoch=request.broker_epoch, next_producer_id=first + BLOCK_SIZE
    )
    reply = AllocateProducerIdsResponse(producer_id_start=first, producer_id_len=BLOCK_SIZE)
    return ControllerResult((record,), reply)
