"""What a heartbeat says of its member: null in a field is no news."""

from dataclasses import replace

from headrace.coordinators.group.consumer.consumer_group import ConsumerGroup
from headrace.coordinators.group.consumer.member import JOINING, ConsumerMember, MemberState
from headrace.wire.schemas.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest


def as_described(
    member: ConsumerMember, request: ConsumerGroupHeartbeatRequest, client_id: str, client_host: str
) -> ConsumerMember:
    """The member with what this request says anew: null is no news."""
    names, regex, assignor = (
        request.subscribed_topic_names,
        request.subscribed_topic_regex,
        request.server_assignor,
    )
    timeout_ms = request.rebalance_timeout_ms
    return replace(
        member,
        instance_id=request.instance_id if request.instance_id is not None else member.instance_id,
        rack_id=request.rack_id if request.rack_id is not None else member.rack_id,
        client_id=client_id,
        client_host=client_host,
        topics=member.topics if names is None else tuple(sorted(set(names))),
        regex=member.regex if regex is None else regex,
        rebalance_timeout_ms=member.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
        assignor=member.assignor if assignor is None else assignor,
        classic=None,
    )


def is_idle(
    group: ConsumerGroup,
    member: ConsumerMember,
    request: ConsumerGroupHeartbeatRequest,
    client_id: str,
    client_host: str,
) -> bool:
    """Nothing new on either side: most heartbeats are that, so they are answered without a draft."""
    return (
        request.member_epoch == member.epoch == group.epoch == group.assignment_epoch
        and member.state is MemberState.STABLE
        and not group.is_stale
        and request.topic_partitions is None
        and request.subscribed_topic_names is None
        and request.subscribed_topic_regex is None
        and request.server_assignor is None
        and request.rebalance_timeout_ms == -1
        and request.rack_id in (None, member.rack_id)
        and request.instance_id in (None, member.instance_id)
        and (client_id, client_host, member.classic) == (member.client_id, member.client_host, None)
    )


def is_full(request: ConsumerGroupHeartbeatRequest) -> bool:
    """A client that is not sure what we know tells everything, and wants to hear everything."""
    subscribes = request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None
    tells_all = subscribes and request.rebalance_timeout_ms != -1 and request.topic_partitions is not None
    return request.member_epoch == JOINING or tells_all
