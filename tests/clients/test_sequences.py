"""Idempotence as a table of answers: what each means for a batch, and when the epoch is raised."""

from headrace.base.error_codes import ErrorCode
from headrace.base.ids import TopicPartition
from headrace.base.producer_id_and_epoch import EPOCH_MAX, NO_PRODUCER, ProducerIdAndEpoch
from headrace.clients.internals.producer.producer_batch import ProducerBatch
from headrace.clients.internals.producer.sequences import (
    Sequences,
    Verdict,
)

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def sequences(epoch: int = 0, in_flight_max: int = 5, *, is_known: bool = True) -> Sequences:
    """Of a producer which both partitions know, as far as it matters."""
    made = Sequences(is_idempotent=True, in_flight_max=in_flight_max)
    made.identity = ProducerIdAndEpoch(9, epoch)
    if is_known:
        for partition in (T0, T1):
            made.run(partition).identity = made.identity
            made.run(partition).acked_sequence = 0
    return made


def batch(count: int = 3, partition: TopicPartition = T0) -> ProducerBatch:
    made = ProducerBatch(partition, 0)
    made.rows = [(0, None, b"v", ())] * count
    made.seal(0, None)
    return made


def send(book: Sequences, *batches: ProducerBatch) -> None:
    for each in batches:
        assert book.may_send(each)
        book.sent(each)


def sequence(each: ProducerBatch) -> tuple[int, int]:
    return each.producer_epoch, each.base_sequence


def test_sequences_run_on_and_around() -> None:
    book = sequences()
    first, second = batch(), batch()
    send(book, first, second)
    assert (sequence(first), sequence(second)) == ((0, 0), (0, 3))
    book.run(T0).next_sequence = 2**31 - 2
    third, fourth = batch(), batch()
    send(book, third, fourth)
    assert sequence(third) == (0, 2**31 - 2)
    assert sequence(fourth) == (0, 1)


def test_the_first_batch_goes_alone() -> None:
    book = sequences(is_known=False)
    first, second, third = batch(), batch(), batch()
    send(book, first)
    assert not book.may_send(second)  # a broker that refused the first would take this one for it
    book.back(first)
    assert book.judge(first, ErrorCode.NOT_LEADER_OR_FOLLOWER, -1) is Verdict.RETRY
    assert not book.may_send(second)
    send(book, first)
    book.back(first)
    book.written(first, 0)
    send(book, second, third)


def test_no_more_are_undecided_than_a_broker_knows_again() -> None:
    """Also where they are on their way to several nodes, because the leader has changed."""
    book = sequences()
    first, *others = [batch() for _ in range(5)]
    send(book, first, *others)
    waiting = batch()
    assert not book.may_send(waiting)
    book.back(first)
    assert not book.may_send(waiting)
    book.written(first, 0)
    assert book.may_send(waiting)


def test_those_that_are_written_since_the_oldest_undecided_one_count_too() -> None:
    """A broker knows its last five batches again, whether we have heard of them or not."""
    book = sequences()
    first, *others = [batch() for _ in range(5)]
    send(book, first, *others)
    book.back(first)
    assert book.judge(first, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, -1) is Verdict.RETRY
    for each in others[:2]:
        book.back(each)
        book.written(each, 0)
    send(book, first)
    new = batch()
    assert not book.may_send(new)
    book.back(first)
    book.written(first, 0)
    send(book, new)


def test_what_comes_before_a_written_batch_is_written() -> None:
    book = sequences()
    first, second, third = batch(), batch(), batch()
    send(book, first, second, third)
    for each in (first, second):
        book.back(each)
    book.written(second, 0)
    assert book.judge(first, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1) is Verdict.WRITTEN
    book.written(first, -1)
    assert not book.needing_epoch()
    book.back(third)
    assert book.judge(third, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1) is Verdict.RETRY
    assert book.needing_epoch() == [T0]


def test_parts_of_a_batch_count_as_batches() -> None:
    book = sequences()
    whole, *others = [batch(4) for _ in range(4)]
    send(book, whole, *others)
    book.back(whole)
    book.split(whole, whole.split())
    for each in others:
        book.back(each)
        book.written(each, 0)
    left, right = book.run(T0).in_flight
    send(book, left)
    new = batch()
    assert not book.may_send(new)  # the broker may have five others since
    book.back(left)
    book.written(left, 0)
    send(book, right, new)


def test_what_came_back_goes_first_and_alone() -> None:
    book = sequences()
    first, second, new = batch(), batch(), batch()
    send(book, first, second)
    book.back(first)
    book.back(second)
    assert not book.may_send(second)
    assert not book.may_send(new)
    send(book, first)
    assert not book.may_send(second)
    book.back(first)
    book.written(first, 0)
    send(book, second)
    assert sequence(second) == (0, 3)
    send(book, new)


def test_out_of_order_behind_an_earlier_batch_only_waits() -> None:
    book = sequences()
    first, second = batch(), batch()
    send(book, first, second)
    assert book.judge(second, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1) is Verdict.RETRY
    assert not book.needing_epoch()


def test_a_proven_gap_raises_the_epoch_once_nothing_is_on_the_wire() -> None:
    book = sequences()
    lost, first, second = batch(), batch(), batch()
    send(book, lost, first, second)
    book.back(lost)
    book.given_up(lost, is_unwritten=False)
    assert not book.needing_epoch()  # perhaps it was written
    book.back(first)
    assert book.judge(first, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1) is Verdict.RETRY
    assert book.needing_epoch() == [T0]
    assert not book.maybe_bump_epoch(T0)  # the second is still on the wire
    book.back(second)
    assert book.maybe_bump_epoch(T0)
    assert (sequence(first), sequence(second)) == ((1, 0), (1, 3))
    assert book.identity == ProducerIdAndEpoch(9, 1)
    send(book, first)


def test_a_refused_batch_frees_its_sequence() -> None:
    book = sequences()
    first = batch()
    send(book, first)
    book.back(first)
    assert book.judge(first, ErrorCode.MESSAGE_TOO_LARGE, -1) is Verdict.FAILED
    book.given_up(first, is_unwritten=True)
    second = batch()
    send(book, second)
    assert sequence(second) == (0, 0)


def test_other_partitions_take_up_the_new_epoch_when_they_are_done() -> None:
    book = sequences()
    here, there = batch(), batch(partition=T1)
    send(book, here, there)
    book.back(here)
    book.judge(here, ErrorCode.UNKNOWN_PRODUCER_ID, 50)
    assert book.maybe_bump_epoch(T0)
    later = batch(partition=T1)
    assert not book.may_send(later)
    book.back(there)
    book.written(there, 7)
    send(book, later)
    assert (sequence(there), sequence(later)) == ((0, 0), (1, 0))


def test_after_the_last_epoch_a_new_id_is_needed() -> None:
    book = sequences(epoch=EPOCH_MAX)
    first = batch()
    send(book, first)
    book.back(first)
    book.judge(first, ErrorCode.UNKNOWN_PRODUCER_ID, 50)
    assert not book.maybe_bump_epoch(T0)
    assert book.needs_identity
    assert book.identity == NO_PRODUCER
    book.identity = ProducerIdAndEpoch(10, 0)
    assert book.maybe_bump_epoch(T0)
    assert (first.producer_id, sequence(first)) == (10, (0, 0))


def test_what_is_there_already_is_written() -> None:
    book = sequences()
    first = batch()
    send(book, first)
    assert book.judge(first, ErrorCode.DUPLICATE_SEQUENCE_NUMBER, -1) is Verdict.WRITTEN
    assert book.judge(first, ErrorCode.NOT_LEADER_OR_FOLLOWER, -1) is Verdict.RETRY
    assert book.judge(first, ErrorCode.INVALID_PRODUCER_EPOCH, -1) is Verdict.FAILED


def test_one_in_flight_keeps_order_without_idempotence() -> None:
    book = Sequences(is_idempotent=False, in_flight_max=1)
    first, second = batch(), batch()
    send(book, first)
    assert not book.may_send(second)
    book.back(first)
    send(book, second)
    assert sequence(second) == (-1, -1)
