"""What a ConsumerGroupHeartbeat must look like before anybody looks at the group, in Kafka's order."""

from collections.abc import Sequence
from typing import Final

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.coordinators.group.consumer.member import JOINING, LEAVING, STATIC_LEAVING
from headrace.coordinators.group.consumer.patterns import check_pattern
from headrace.wire.schemas.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest

CLIENT_MADE_IDS_SINCE: Final = 1


def check_heartbeat(
    request: ConsumerGroupHeartbeatRequest, *, api_version: int, assignors: Sequence[str]
) -> None:
    """ApiError says what is wrong with a request that no client should send."""
    _refuse(not request.group_id.strip(), "the group id is empty")
    _refuse(_is_blank(request.instance_id), "the instance id is empty: leave it out")
    _refuse(_is_blank(request.rack_id), "the rack id is empty: leave it out")
    epoch = request.member_epoch
    if api_version >= CLIENT_MADE_IDS_SINCE or epoch > 0 or epoch == LEAVING:
        _refuse(not request.member_id.strip(), "the member id is empty")
    if epoch == JOINING:
        _check_join(request)
    elif epoch == STATIC_LEAVING:
        _refuse(request.instance_id is None, "only a static member can leave for a while: no instance id")
    else:
        _refuse(epoch < LEAVING, f"{epoch} is no member epoch")
    if request.server_assignor is not None and request.server_assignor not in assignors:
        raise ApiError(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"there is no assignor {request.server_assignor!r} here, but {', '.join(assignors)}",
        )
    if request.subscribed_topic_regex:
        check_pattern(request.subscribed_topic_regex)


def _check_join(request: ConsumerGroupHeartbeatRequest) -> None:
    _refuse(request.rebalance_timeout_ms == -1, "a member that joins must give its rebalance time-out")
    _refuse(request.topic_partitions is None or bool(request.topic_partitions), "who joins owns nothing yet")
    _refuse(
        request.subscribed_topic_names is None and request.subscribed_topic_regex is None,
        "a member that joins must say what it subscribes to, by names or by a pattern",
    )


def _is_blank(text: str | None) -> bool:
    return text is not None and not text.strip()


def _refuse(wrong: bool, message: str) -> None:
    if wrong:
        raise ApiError(ErrorCode.INVALID_REQUEST, message)
