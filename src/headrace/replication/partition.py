"""One partition as this node sees it: leadership, in-sync replicas, and how far each kind of reader may read.

The log keeps the bytes; the partition knows what they mean in the cluster. It is a synchronous machine: the
metadata log tells it who leads (`follow_metadata`), requests ask it to append or where they may read, and
it answers or raises an ApiError with Kafka's code. It opens no file, reads no clock and waits for nobody.

What a leader knows of its followers is in `leader_state`, and there is none for a partition with one replica:
that one pays nothing for the others. What a follower takes from its leader is in `following`.

Three offsets bound the readers. The log end is for followers, the high watermark (what every in-sync
replica has) for consumers, and the last stable offset (nothing of an open transaction below it) for
consumers that read committed.
"""

from collections.abc import Callable, Collection
from typing import Final

from headrace.base.chunks import Buffer
from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.base.ids import NO_EPOCH, NO_LEADER, TopicId, TopicPartition
from headrace.log.append import AppendOrigin, LogAppendInfo
from headrace.log.unified_log import UnifiedLog
from headrace.metadata.topics import PartitionImage
from headrace.records.kernels.produce import RunHead, RunRow
from headrace.records.validate import ProducedBatch
from headrace.replication.leader_state import IsrProposal, LeaderState, ReplicaContext
from headrace.telemetry.metrics.broker_topic_stats import BrokerTopicMetrics

ALL_IN_SYNC: Final = -1
"""acks=all: the leader answers once every in-sync replica has the records."""

READ_COMMITTED: Final = 1
"""The isolation level of a consumer that sees nothing of open and aborted transactions."""

FLUSH_NEVER: Final = 2**63 - 1
"""`flush.messages` by default: the page cache and the other replicas are trusted."""


class Partition:
    """A replica on this node. `log` is None while its directory is offline."""

    __slots__ = (
        "_context",
        "_durable_first",
        "_in_sync",
        "_replica_count",
        "_request_flush",
        "leader_epoch",
        "leader_id",
        "leader_state",
        "log",
        "metrics",
        "node_id",
        "on_advance",
        "partition_epoch",
        "question",
        "remote_known_epoch",
        "topic_id",
        "topic_partition",
    )

    def __init__(
        self,
        topic_partition: TopicPartition,
        topic_id: TopicId,
        log: UnifiedLog | None,
        *,
        node_id: int,
        on_advance: Callable[[TopicPartition], None],
        request_flush: Callable[[UnifiedLog], None] = UnifiedLog.want_flush,
        context: ReplicaContext | None = None,
        metrics: BrokerTopicMetrics | None = None,
    ) -> None:
        self.metrics = metrics or BrokerTopicMetrics()
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.log = log
        self.node_id = node_id
        self.on_advance = on_advance
        self.leader_id = NO_LEADER
        self.leader_epoch = NO_EPOCH
        self.partition_epoch = NO_EPOCH
        self._context = context or ReplicaContext()
        self._in_sync: frozenset[int] = frozenset()
        self._replica_count = 0
        self.leader_state: LeaderState | None = None
        self.question = 0
        self.remote_known_epoch = NO_EPOCH
        self._durable_first = 0
        self._request_flush = request_flush

    @property
    def is_leader(self) -> bool:
        return self.leader_id == self.node_id

    @property
    def is_catching_up(self) -> bool:
        """Whether this leader's high watermark is still below where its epoch began: its predecessor's may
        have been higher, and so may its own have been before it ended.
        """
        leader_state, log = self.leader_state, self.log
        if log is None:
            return False
        start = (
            log.leader_epoch_cache.start_of(self.leader_epoch)
            if leader_state is None
            else leader_state.epoch_start
        )
        return log.high_watermark < start

    @property
    def knows_remote(self) -> bool:
        """Whether this node leads, and has read of everything that was done in the remote tier before."""
        return self.remote_known_epoch == self.leader_epoch and self.leader_id == self.node_id

    @property
    def knows_start(self) -> bool:
        """Whether the log is sure to start where it says. Of a tiered one another leader may have removed
        more, or a crash may have forgotten that it was removed: the records of the remote tier tell.
        """
        log = self.log
        if log is None or not log.config.is_tiered or self.knows_remote:
            return True
        return log.log_start_offset >= log.local_start_offset and not self._context.has_remote_records()

    @property
    def in_sync_count(self) -> int:
        return len(self._in_sync)

    @property
    def in_sync(self) -> frozenset[int]:
        return self._in_sync

    def is_in_sync(self, replica: int) -> bool:
        return replica in self._in_sync

    def follow_metadata(self, image: PartitionImage, now_ms: int = 0) -> bool:
        """Take on what the metadata log says; returns whether a new leader epoch began on this node as
        leader. `now_ms` is of the clock that never goes back.
        """
        if image.leader_epoch == self.leader_epoch and image.partition_epoch < self.partition_epoch:
            return False  # the controller's answer to a proposal was here before the log
        leads_anew = image.leader == self.node_id and image.leader_epoch > self.leader_epoch
        is_news = image.partition_epoch != self.partition_epoch or frozenset(image.isr) != self._in_sync
        self.leader_id = image.leader
        self.leader_epoch = image.leader_epoch
        self.partition_epoch = image.partition_epoch
        self._in_sync = frozenset(image.isr)
        self._replica_count = len(image.replicas)
        if leads_anew:
            self.enter_epoch()
        self._follow_followers(image, anew=leads_anew, is_news=is_news, now_ms=now_ms)
        if self.is_leader:
            self._maybe_increment_leader_hw()
        else:
            self.on_advance(self.topic_partition)  # who waits for this leader waits in vain
        return leads_anew

    def leave(self) -> None:
        """The replica moved away, or its topic is gone: nobody leads here, and nobody is followed."""
        self.leader_id = NO_LEADER
        self.leader_state = None

    def enter_epoch(self) -> None:
        """Begin to lead in this epoch, where the log takes it."""
        log = self.log
        # KIP-101: the epoch's start offset is what a follower will be told to truncate to. An epoch below
        # what the log has seen is one whose records are not the newest: the log refuses to write in it.
        if log is not None and self.leader_epoch > log.leader_epoch_cache.latest_epoch:
            log.leader_epoch_cache.assign(self.leader_epoch, log.log_end_offset)
        self.hold_what_is_not_synced()

    def hold_what_is_not_synced(self) -> None:
        """Where acknowledgements wait for the disk, flush what is there without being durable: nobody reads
        it before, and no leader is told of it. After a kill the page cache has what was never synced.
        """
        log = self.log
        if (
            log is not None
            and log.config.flush_messages != FLUSH_NEVER
            and log.recovery_point < log.log_end_offset
        ):
            self._hold_until_durable(log)

    def _follow_followers(self, image: PartitionImage, *, anew: bool, is_news: bool, now_ms: int) -> None:
        if not self.is_leader or len(image.replicas) < 2 or self.log is None:
            self.leader_state = None
        elif anew or self.leader_state is None:
            self.leader_state = LeaderState(
                image,
                node_id=self.node_id,
                epoch_start=self.log.log_end_offset
                if anew
                else self.log.leader_epoch_cache.start_of(self.leader_epoch),
                context=self._context,
                now_ms=now_ms,
            )
        elif is_news:
            self.leader_state.take_on(image)

    def check_epoch(self, current_leader_epoch: int) -> None:
        """Refuse a request that knows an older or newer leader than this node does (KIP-320)."""
        if current_leader_epoch < 0 or current_leader_epoch == self.leader_epoch:
            return
        if current_leader_epoch < self.leader_epoch:
            raise ApiError(ErrorCode.FENCED_LEADER_EPOCH)
        raise ApiError(ErrorCode.UNKNOWN_LEADER_EPOCH)

    def leading_log(self, current_leader_epoch: int = NO_EPOCH) -> UnifiedLog:
        """The log, where this node leads in that epoch and the log's directory is online.

        That its disk failed comes first: the controller takes the lead from such a replica, and a client
        that is told to look for another leader would not learn why.
        """
        log = self.log
        if log is None or log.failure is not None:
            return self.local_log()
        if current_leader_epoch != self.leader_epoch:
            self.check_epoch(current_leader_epoch)
        if self.leader_id != self.node_id:
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return log

    def following_log(self, current_leader_epoch: int = NO_EPOCH) -> UnifiedLog:
        """The log of a replica that consumers may read from: whoever leads, there is a leader."""
        log = self.local_log()
        self.check_epoch(current_leader_epoch)
        if self.leader_id == NO_LEADER:
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return log

    def local_log(self) -> UnifiedLog:
        """The log of this replica, whoever leads."""
        log = self.log
        if log is None:
            raise ApiError(
                ErrorCode.KAFKA_STORAGE_ERROR, f"the log directory of {self.topic_partition} is offline"
            )
        if log.failure is not None:
            raise log.failure
        return log

    def append(
        self,
        batch: Buffer,
        *,
        now_ms: int,
        origin: AppendOrigin,
        acks: int = ALL_IN_SYNC,
        api_version: int,
        produced: ProducedBatch | None = None,
    ) -> LogAppendInfo:
        """Append one batch as leader and move the high watermark where nobody else is in sync to wait for.
        What large batches of clients need besides, `log.append` says.
        """
        try:
            log = self._appendable_log(acks)
        except ApiError as error:
            if self.log is not None and origin is AppendOrigin.CLIENT:
                self.log.note_refusal(batch, error)
            raise
        result = log.append_as_leader(
            batch,
            leader_epoch=self.leader_epoch,
            now_ms=now_ms,
            origin=origin,
            api_version=api_version,
            produced=produced,
        )
        metrics = self.metrics
        metrics.total_produce_requests += 1
        if not result.duplicate:
            metrics.bytes_in += len(batch)
            metrics.messages_in += result.last_offset + 1 - result.first_offset
            if self.must_flush(now_ms):
                self._hold_until_durable(log)
            if self.leader_state is not None:
                self.leader_state.appended(result.first_offset)
            self._maybe_increment_leader_hw()
        return result

    def _appendable_log(self, acks: int) -> UnifiedLog:
        """The log of a leader that may take a write now."""
        log = self.leading_log()
        if acks == ALL_IN_SYNC and self._lacks_replicas(log):
            raise ApiError(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"{self.topic_partition} has {len(self._in_sync)} of {self._replica_count} replicas in sync, "
                f"min.insync.replicas is {log.config.min_insync_replicas}",
            )
        return log

    def _lacks_replicas(self, log: UnifiedLog) -> bool:
        """Whether fewer are in sync than `min.insync.replicas` asks for.

        No more can be asked for than there are (KIP-966): one replica with a minimum of two takes writes.
        """
        in_sync = len(self._in_sync)
        return in_sync < self._replica_count and in_sync < log.config.min_insync_replicas

    def append_run(self, view: memoryview, run: RunHead, rows: list[RunRow], *, now_ms: int) -> int:
        """Append the batches of a run of requests; how many, from the first on. What is not taken is for
        `append`, which tells why.
        """
        log = self.log
        if (
            log is None
            or self.leader_id != self.node_id
            or log.config.flush_messages != FLUSH_NEVER
            or (run.acks == ALL_IN_SYNC and self._lacks_replicas(log))
        ):
            return 0
        first_offset = log.log_end_offset
        taken = log.append_run(view, run, rows, leader_epoch=self.leader_epoch, now_ms=now_ms)
        if taken:
            metrics = self.metrics
            metrics.total_produce_requests += taken
            metrics.bytes_in += (
                run.batch_bytes if taken == run.requests else sum(row[3] for row in rows[:taken])
            )
            metrics.messages_in += log.log_end_offset - first_offset
            if self.leader_state is not None:
                self.leader_state.appended(first_offset)
            self._maybe_increment_leader_hw()
        return taken

    def replicated_to(self, offset: int) -> bool:
        """Whether every in-sync replica has all records below `offset`: what acks=all waits for."""
        return self.log is not None and self.log.high_watermark >= offset

    def must_flush(self, now_ms: int) -> bool:
        """Whether `flush.messages` asks for a sync before what was just appended is acknowledged."""
        log = self.log
        return log is not None and log.config.flush_messages != FLUSH_NEVER and log.flush_due(now_ms)

    def durable(self) -> None:
        """The log's recovery point moved, or its disk failed: who waits for either looks again."""
        if self.is_leader:
            self._maybe_increment_leader_hw()
        else:
            self.on_advance(self.topic_partition)

    @property
    def owes_flush(self) -> bool:
        """Whether what was fetched must be on disk before the leader is told, by the next fetch, that it is
        here.
        """
        log = self.log
        return log is not None and log.recovery_point < min(self._durable_first, log.log_end_offset)

    def appended_as_follower(self, now_ms: int) -> None:
        """Records of the leader were written: `flush.messages` holds for them too."""
        log = self.log
        if log is not None and self.must_flush(now_ms):
            self._hold_until_durable(log)

    def _hold_until_durable(self, log: UnifiedLog) -> None:
        """Let nobody read what is to be flushed before it is: a power cut could still change it."""
        self._durable_first = log.log_end_offset
        self._request_flush(log)

    def end_for_consumer(self, isolation: int) -> int:
        """The first offset a consumer may not read."""
        log = self.local_log()
        return log.last_stable_offset if isolation == READ_COMMITTED else log.high_watermark

    def delete_records(self, before_offset: int) -> int:
        """Advance the log start as leader; -1 means up to the high watermark. Returns the new log start: the
        followers' are told by their fetches.
        """
        log = self.leading_log()
        target = log.high_watermark if before_offset == -1 else before_offset
        if target < 0 or target > log.high_watermark:
            raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE)
        log.maybe_increment_log_start_offset(target)
        self.on_advance(self.topic_partition)
        return log.log_start_offset

    def low_watermark(self) -> int:
        """The first offset that any replica which is up still has."""
        log = self.leading_log()
        return (
            log.log_start_offset
            if self.leader_state is None
            else self.leader_state.low_watermark(log.log_start_offset)
        )

    # -- as leader of others ---------------------------------------------------------------------------------

    def follower_fetched(
        self,
        replica: int,
        *,
        offset: int,
        log_start_offset: int,
        broker_epoch: int,
        now_ms: int,
        current_leader_epoch: int = NO_EPOCH,
    ) -> None:
        """A follower asked for `offset`, so it has all below. ApiError where it is none of this partition's,
        or a process that another has replaced.
        """
        log, leader_state = self.leading_log(current_leader_epoch), self.leader_state
        if leader_state is None or replica not in leader_state.followers:
            # It may know of its assignment before this node does: it shall ask again.
            is_early = current_leader_epoch != NO_EPOCH
            raise ApiError(
                ErrorCode.UNKNOWN_LEADER_EPOCH if is_early else ErrorCode.NOT_LEADER_OR_FOLLOWER,
                f"broker {replica} is no replica of {self.topic_partition}",
            )
        registered = self._context.broker_epoch(replica)
        if broker_epoch >= 0 and registered is not None and broker_epoch < registered:
            raise ApiError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
                f"broker {replica} was registered again since, with epoch {registered}",
            )
        follower = leader_state.followers[replica]
        has_news = log_start_offset > follower.log_start or follower.asked > follower.answered
        proposes = leader_state.fetched(
            replica,
            offset=offset,
            log_start=log_start_offset,
            leader_end=log.log_end_offset,
            high_watermark=log.high_watermark,
            broker_epoch=broker_epoch,
            now_ms=now_ms,
        )
        if log.high_watermark < offset:
            self._maybe_increment_leader_hw()
        elif has_news:
            self.on_advance(self.topic_partition)  # DeleteRecords may wait for it, or who asked the followers
        if proposes:
            self._context.propose(self)

    def ask_followers(self) -> int:
        """Find out whether this node still leads: `is_followed_since` tells, given what this returns.

        A leader that was replaced may not hear of it for long. But one of the replicas that count replaced
        it, which does not fetch here any more. So every follower's next reply leaves at once and puts the
        question, and the fetch after that reply answers it: an earlier one may have been long on its way.
        """
        self.question += 1
        if self.leader_state is not None:
            self.on_advance(self.topic_partition)
        return self.question

    def owes_answer(self, replica: int) -> bool:
        """Whether this follower has not answered the last question yet."""
        if not self.question or self.leader_state is None:
            return False
        follower = self.leader_state.followers.get(replica)
        return follower is not None and follower.answered < self.question

    def put_question(self, replica: int) -> None:
        """A reply that leaves now puts the last question to this follower."""
        if self.leader_state is not None:
            self.leader_state.followers[replica].asked = self.question

    def is_followed_since(self, question: int) -> bool:
        """Whether this node led when the question was asked, as all who could have replaced it say."""
        return self.is_leader and (self.leader_state is None or self.leader_state.is_followed_since(question))

    def maybe_shrink_isr(self, now_ms: int) -> None:
        """Propose that followers which lag for too long are no longer in sync."""
        log, leader_state = self.log, self.leader_state
        if log is not None and leader_state is not None:
            if leader_state.maybe_shrink_isr(log.log_end_offset, now_ms):
                self._context.propose(self)
            if log.high_watermark < log.log_end_offset:
                self._maybe_increment_leader_hw()  # nobody waits for ever for one that was about to join

    def proposal(self) -> IsrProposal | None:
        """The in-sync set that the controller is to be asked for, as long as it is wanted."""
        return (
            None
            if self.leader_state is None
            else self.leader_state.proposal(self.leader_epoch, self.partition_epoch)
        )

    def proposal_accepted(
        self, asked: IsrProposal, *, leader_epoch: int, partition_epoch: int, in_sync: Collection[int]
    ) -> None:
        """The controller's answer; nothing changes where the metadata log has told more by now."""
        leader_state = self.leader_state
        if (
            leader_state is None
            or leader_epoch != self.leader_epoch
            or partition_epoch <= self.partition_epoch
        ):
            return
        self.partition_epoch = partition_epoch
        self._context.note_isr_change(len(in_sync) - len(self._in_sync))
        self._in_sync = frozenset(in_sync)
        leader_state.accepted(self._in_sync)
        self._maybe_increment_leader_hw()

    def proposal_withdrawn(self, asked: IsrProposal) -> None:
        """The controller refused a set for a replica that it does not take: the committed one holds on."""
        is_of_now = (asked.leader_epoch, asked.partition_epoch) == (self.leader_epoch, self.partition_epoch)
        if self.leader_state is not None and is_of_now:
            self.leader_state.withdrawn()
            self._maybe_increment_leader_hw()

    def has_enough_in_sync(self) -> bool:
        """Whether what was just replicated has reached `min.insync.replicas` of them."""
        leader_state, log = self.leader_state, self.log
        return leader_state is None or log is None or leader_state.has_enough(log.config.min_insync_replicas)

    def _maybe_increment_leader_hw(self) -> None:
        """The high watermark is the least log end of the in-sync replicas; it never goes back."""
        log = self.log
        if log is None:
            return
        end = log.log_end_offset
        if self.leader_state is not None:
            end = self.leader_state.replicated_to(end, min_in_sync=log.config.min_insync_replicas)
        if log.recovery_point < self._durable_first:
            end = min(end, log.recovery_point)
        if end > log.high_watermark:
            log.maybe_increment_high_watermark(end)
        self.on_advance(self.topic_partition)
