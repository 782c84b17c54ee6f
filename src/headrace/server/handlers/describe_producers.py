"""DescribeProducers (61), v0: the idempotent and transactional producers a partition remembers (KIP-664).

A follower knows them as well as its leader, and answers too, as in Kafka. Checks, in order: topic name
valid? partition known? a replica here?
"""

from headrace.base.errors import ApiError
from headrace.metadata.topic_names import check_name
from headrace.server.context import RequestContext
from headrace.wire.schemas.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)


def handle(context: RequestContext, request: DescribeProducersRequest) -> DescribeProducersResponse:
    return DescribeProducersResponse(
        topics=[
            TopicResponse(
                topic.name, [_describe(context, topic.name, index) for index in topic.partition_indexes]
            )
            for topic in request.topics
        ]
    )


def _describe(context: RequestContext, topic: str, index: int) -> PartitionResponse:
    try:
        check_name(topic)
        log = context.parts.replica_manager.find(topic, index).local_log()
    except ApiError as error:
        return PartitionResponse(index, error.code, error.message)
    producers = [
        ProducerState(
            producer_id=state.producer_id,
            producer_epoch=state.epoch,
            last_sequence=state.last_sequence,
            last_timestamp=state.last_timestamp,
            coordinator_epoch=state.coordinator_epoch,
            current_txn_start_offset=state.txn_first_offset,
        )
        for state in log.producer_state_manager.producers.values()
    ]
    return PartitionResponse(index, active_producers=producers)
