"""What a member of a classic consumer group subscribes to, read from the bytes it hands to its leader.

The broker passes these bytes on and only looks inside to know whether a topic is in use; bytes that do not
follow the consumer protocol belong to a client with a protocol of its own, and name no topics.
"""

from headrace.base.errors import InvalidBytesError
from headrace.wire.record_frames import decode_versioned
from headrace.wire.schemas.consumer_protocol import ConsumerProtocolSubscription


def subscribed_topics(metadata: bytes) -> list[str]:
    """The topics of a ConsumerProtocolSubscription; none where the bytes are something else."""
    try:
        return decode_versioned(ConsumerProtocolSubscription, metadata, take_newer=True).topics
    except InvalidBytesError:
        return []
