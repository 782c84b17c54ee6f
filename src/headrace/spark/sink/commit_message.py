"""What a task of the sink tells the driver when it is done: where its rows are, and in which transaction."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql.datasource import WriterCommitMessage

from headrace.base.ids import TopicPartition

if TYPE_CHECKING:
    from headrace.spark.sink.decision_log import SinkTransaction  # with all that clients need


@dataclass(frozen=True, slots=True)
class TaskIdentity:
    """Which attempt of which task of which batch this is. A batch write has no query and no batch id.

    A query keeps its id over restarts; each of them is a run of its own.
    """

    query_id: str | None
    batch_id: int | None
    partition: int
    attempt: int
    run_id: str | None = None

    @classmethod
    def current(cls) -> "TaskIdentity":
        """Of the task that this Python worker runs."""
        context = TaskContext.get()
        if context is None:
            return cls(None, None, 0, 0)
        batch_id = context.getLocalProperty("streaming.sql.batchId")
        return cls(
            context.getLocalProperty("sql.streaming.queryId"),
            None if batch_id is None else int(batch_id),
            context.partitionId(),
            context.attemptNumber(),
            context.getLocalProperty("spark.jobGroup.id"),  # which a streaming query sets to its run's id
        )


@dataclass(frozen=True, slots=True)
class PartitionWrites:
    """A task's records in one partition: how many, and the last one's offset (-1 where nobody told it)."""

    count: int
    last_offset: int

    def __add__(self, other: "PartitionWrites") -> "PartitionWrites":
        return PartitionWrites(self.count + other.count, max(self.last_offset, other.last_offset))


@dataclass(frozen=True)
class TaskCommitMessage(WriterCommitMessage):
    """One task's, after everything in it was acknowledged."""

    task: TaskIdentity
    written: dict[TopicPartition, PartitionWrites]
    transaction: "SinkTransaction | None" = None  # that holds it, still open

    @property
    def count(self) -> int:
        return sum(each.count for each in self.written.values())
