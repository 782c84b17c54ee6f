"""DelayedProduce: appends that acks=all or `flush.messages` do not let be acknowledged yet.

They wait in the purgatory until their offsets are below the high watermark, or on the disk.
"""

from __future__ import annotations

from asyncio import Future
from typing import TYPE_CHECKING, TypeVar

from headrace.base.error_codes import ErrorCode
from headrace.replication.partition import Partition
from headrace.server.purgatory import Step
from headrace.wire.schemas.produce import PartitionProduceResponse

if TYPE_CHECKING:
    from headrace.server.context import Peer, RequestContext
    from headrace.server.parts import Parts

T = TypeVar("T")


class DelayedProduce:
    """An append that must reach the in-sync replicas, or the disk, before it is acknowledged."""

    __slots__ = ("durable_to", "is_completed", "leader_epoch", "partition", "replicated_to", "result")

    def __init__(
        self, partition: Partition, result: PartitionProduceResponse, *, replicated_to: int, durable_to: int
    ) -> None:
        self.partition = partition
        self.leader_epoch = partition.leader_epoch
        self.result = result
        self.replicated_to = replicated_to
        self.durable_to = durable_to
        self.is_completed = False

    def try_complete(self) -> bool:
        """Whether it need not be waited for any longer; then the result says how it ended."""
        if not self.is_completed:
            outcome = self.outcome()
            if outcome is None:
                return False
            if outcome is not ErrorCode.NONE:
                self.result.error_code = outcome
            self.is_completed = True
        return True

    def outcome(self) -> ErrorCode | None:
        """None while it must be waited for."""
        partition = self.partition
        log = partition.log
        if log is None or log.failure is not None:
            return ErrorCode.KAFKA_STORAGE_ERROR if log is None or log.failure is None else log.failure.code
        if not partition.is_leader or partition.leader_epoch != self.leader_epoch:
            # Whatever is at these offsets by now, another leader may have put it there.
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if log.high_watermark < self.replicated_to or log.recovery_point < self.durable_to:
            return None
        if self.replicated_to and not partition.has_enough_in_sync():
            return ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        return ErrorCode.NONE


def complete_or_watch(
    parts: Parts,
    timeout_ms: int,
    delayed: list[DelayedProduce],
    answer: T,
    *,
    who: Peer | RequestContext | None = None,
) -> T | Future[T]:
    """The answer, once all appends are safe, failed or out of time; those that are not safe then say why.
    `who` asked for it, and is named where it takes long."""
    # A flush that could not even begin has said so before anybody watched.
    left = [each for each in delayed if not each.try_complete()]
    if not left:
        return answer

    time = parts.loop.time
    began = time()

    def attempt(expired: bool) -> T | None:
        still = [each for each in left if not each.try_complete()]
        if still and not expired:
            return None
        for each in still:
            each.result.error_code = ErrorCode.REQUEST_TIMED_OUT
            parts.request_log.tell_late(each.partition.topic_partition, timeout_ms)
        took_s = time() - began
        if took_s >= parts.request_log.slow_s and not still:
            last = left[-1]
            parts.request_log.tell_waited(
                last.partition.topic_partition, who, took_s, for_disk=bool(last.durable_to)
            )
        return answer

    if any(each.durable_to for each in left):  # the disk may be later than the replicas, or earlier
        return parts.purgatory.watch([each.partition.topic_partition for each in left], attempt, timeout_ms)
    steps = [Step(each.partition.topic_partition, each.replicated_to, each.try_complete) for each in left]
    return parts.purgatory.watch_in_order(steps, attempt, timeout_ms)
