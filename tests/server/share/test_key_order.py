"""Order by key and delivery times: whatever members, leaders and the log do, no record is handed out before
its time, nor before those of its key that come before it are done with, and all are in the end."""

import random
from collections.abc import Callable
from typing import Any

import pytest

from headrace.coordinators.share.state_batches import StateBatch, put_batches
from headrace.records.batch import Record, build_batch
from headrace.records.codecs import Codec
from headrace.server.share.acquiring import Limits, LogBatch
from headrace.server.share.in_flight_batch import Acquired, RecordState
from headrace.server.share.key_order import IN_ORDER, KeyedBatch, KeyOrder, LooksFor
from headrace.server.share.log_batches import DELIVER_AT, LogBatches
from headrace.server.share.share_partition import Acknowledgement, SharePartition, Transition, changes_of
from headrace.server.share.window import ShareWindow
from tests.server.share.test_share_partition import ACCEPT, KEY, REJECT, RELEASE, answer, limits, states_of

Patch = pytest.MonkeyPatch

RECORDS = 60
STEPS = 150
LOCK_MS = 20
DELIVERIES = 4


def keyed(base: int, keys: str) -> KeyedBatch:
    """One record for each letter; a dot has no key, and where a space is there is no record."""
    found = [(base + at, ord(key) if key != "." else None) for at, key in enumerate(keys) if key != " "]
    return KeyedBatch(base, base + len(keys) - 1, [at for at, _ in found], [key for _, key in found])


def ordered(*batches: KeyedBatch, records_max: int = 100) -> SharePartition:
    partition = SharePartition(KEY, leader_epoch=1, state_epoch=1, start_offset=0)
    partition.order_by_key(records_max)
    partition.learn_keys(batches, records=100, locks_max=100)
    return partition


def test_each_key_is_handed_out_record_by_record_and_what_has_none_at_once() -> None:
    partition = ordered(keyed(0, "aab.ba.."))
    log = [LogBatch(0, 7)]
    assert partition.acquire("m", log, limits()) == [(0, 0, 1), (2, 3, 1), (6, 7, 1)]
    assert partition.acquire("n", log, limits()) == []
    answer(partition, "m", (0, 0, [RELEASE]), (2, 2, [REJECT]), (3, 3, [ACCEPT]))
    assert partition.acquire("n", log, limits()) == [(0, 0, 2), (4, 4, 1)]
    answer(partition, "n", (0, 0, [ACCEPT]))
    assert partition.acquire("n", log, limits()) == [(1, 1, 1)]
    answer(partition, "n", (1, 1, [ACCEPT]), (4, 4, [ACCEPT]))
    assert partition.acquire("m", log, limits()) == [(5, 5, 1)]
    answer(partition, "m", (5, 7, [ACCEPT]))
    assert (partition.start_offset, len(partition.order or ())) == (8, 0)


def test_what_waits_its_turn_does_not_fill_the_window_but_its_keys_are_so_many_at_most() -> None:
    partition = ordered(keyed(0, "aaaaaaaa"), keyed(8, "aaaaaaab"), keyed(16, "ccc"), records_max=12)
    assert partition.in_flight() == 2
    assert (partition.end_offset, partition.next_fetch_offset()) == (15, 0)
    assert partition.acquire("m", [LogBatch(0, 7), LogBatch(8, 15)], limits()) == [(0, 0, 1), (15, 15, 1)]
    rest = [keyed(16, "ccc")]
    partition.learn_keys(rest, records=100, locks_max=100)
    assert partition.end_offset == 15, "as many keys are known as may be"
    answer(partition, "m", (15, 15, [ACCEPT]))
    for offset in range(4):
        answer(partition, "m", (offset, offset, [ACCEPT]))
        partition.acquire("m", [LogBatch(0, 7)], limits())
    partition.learn_keys(rest, records=100, locks_max=100)
    assert (partition.end_offset, partition.next_fetch_offset()) == (18, 16)


def test_a_new_leader_knows_keys_from_the_log_before_it_hands_out_anything() -> None:
    kept = (
        StateBatch(1, 1, int(RecordState.ACKNOWLEDGED), 1),
        StateBatch(4, 4, int(RecordState.ARCHIVING), 5),
    )
    partition = SharePartition(KEY, leader_epoch=2, state_epoch=1, start_offset=0, batches=kept)
    partition.order_by_key(100)
    assert not partition.has_free
    assert partition.next_fetch_offset() == 0, "where its keys begin"
    partition.learn_keys([keyed(0, "abab")], records=1, locks_max=100)
    partition.learn_keys([keyed(4, "cc d")], records=100, locks_max=100)
    log = [LogBatch(0, 3), LogBatch(4, 7)]
    assert partition.acquire("m", log, limits()) == [(0, 0, 1), (3, 3, 1), (7, 7, 1)]
    assert states_of(partition)[6] == "ARCHIVED", "the log has nothing there"
    partition.commit(partition.archive(4, 4))
    assert partition.acquire("m", log, limits()) == [(5, 5, 1)], "the letter about its predecessor is written"


def test_the_log_s_start_and_compaction_end_the_wait_for_what_is_gone() -> None:
    partition = ordered(keyed(0, "abab"), keyed(4, "abc"))
    assert partition.follow_log_start(2)
    assert partition.acquire("m", [LogBatch(3, 3), LogBatch(4, 6)], limits()) == [(3, 4, 1), (6, 6, 1)], (
        "2 was compacted away"
    )


def test_order_may_begin_and_end_while_records_are_held() -> None:
    partition = SharePartition(KEY, leader_epoch=1, state_epoch=1, start_offset=0)
    log = [LogBatch(0, 5)]
    partition.acquire("m", log, limits())
    answer(partition, "m", (0, 1, [RELEASE]))
    partition.order_by_key(100)
    answer(partition, "m", (2, 3, [RELEASE]))
    assert not partition.has_free
    partition.learn_keys([keyed(0, "ababab")], records=100, locks_max=100)
    assert partition.acquire("n", log, limits()) == [(0, 1, 2)]
    answer(partition, "m", (4, 5, [RELEASE]))
    assert not partition.has_free
    answer(partition, "n", (0, 0, [ACCEPT]))
    assert partition.acquire("n", log, limits()) == [(2, 2, 2)]
    partition.order_by_key(0)
    assert partition.acquire("o", log, limits()) == [(3, 5, 2)]


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
def test_keys_are_read_from_record_batches_and_only_those_that_are_needed_are_sent(codec: Codec) -> None:
    rows = [[b"a", None, b"b"], [b"a", b""], [b"b"], [b"c"]]
    at, parts = 0, []
    for keys in rows:
        records = [Record(key=key, value=b"v" * 50) for key in keys]
        parts.append(bytes(build_batch(records, base_offset=at, codec=codec)))
        at += len(keys)
    first, second, third, fourth = LogBatches(b"".join(parts)).with_keys()
    assert (first.offsets, first.keys[1]) == ([0, 1, 2], None)
    assert first.keys[0] == second.keys[0] != first.keys[2] == third.keys[0]
    assert second.keys[1] is not None, "an empty key is a key"
    batches = LogBatches(b"".join(parts))
    assert [each.last_offset for each in batches] == [2, 4, 5, 6]
    acquired = [Acquired(0, 1, 1), Acquired(6, 6, 1)]
    assert batches.cover_sparsely(acquired) == parts[0] + parts[3]
    assert (batches.cover_sparsely(acquired[1:]), fourth.offsets) == (parts[3], [6])


def test_delivery_times_are_read_from_headers() -> None:
    texts = [b"5000", b"4000", b"soon", None, b"\xb2", b"-7000", b"9" * 40, b"5001", b"4001"]
    records = [Record(key=b"k", headers=(("x", b"1"), (DELIVER_AT, text))) for text in texts]
    looks = LooksFor(keys=False, times=True)
    batch = bytes(build_batch([*records, Record(headers=(("x", b"9000"),))], codec=Codec.GZIP))
    (found,) = LogBatches(batch).with_keys(looks, now_ms=4000, monotonic_ms=1000)
    assert found.times_ms == {0: 2000, 7: 2100, 8: 1100}, "at the next tick of this node's own clock"
    assert set(found.keys) == {None}


# --- random schedules ---


class Schedule:
    """Members, failovers and a growing log, drawn from a seed. What is written is what counts."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.now = 0
        self.log = self._random_log()
        self.end = self.log[0].last_offset + 1
        self.keys = {at: key for each in self.log for at, key in zip(each.offsets, each.keys, strict=True)}
        late = self.rng.choice([0.0, 0.2])
        self.times = {at: self.rng.randrange(2 * STEPS) for at in self.keys if self.rng.random() < late}
        self.kept: list[StateBatch] = []
        self.kept_start = self.log_start = 0
        self.done: set[int] = set()
        self.held: dict[int, str] = {}
        self.records_max = self.rng.choice([1, 5, 1000])
        self.core = self._new_leader()

    def _random_log(self) -> list[KeyedBatch]:
        rng, log, at = self.rng, [], 0
        letters = rng.choice(["a", "ab.", "abcdef.", "ab  .", "aaaaaab"])
        while at < RECORDS:
            at += rng.choice((0, 0, 0, 2))
            keys = "".join(rng.choices(letters, k=rng.randrange(1, 9)))
            log.append(keyed(at, keys if rng.random() < 0.9 else " " * len(keys)))
            at += len(keys)
        return log

    def _new_leader(self) -> SharePartition:
        self.held.clear()
        core = SharePartition(
            KEY, leader_epoch=1, state_epoch=1, start_offset=self.kept_start, batches=self.kept
        )
        core.follow_log_start(self.log_start)
        core.order_by_key(self.records_max)
        return core

    def fetch(self, member: str, wish: Limits) -> None:
        core, order = self.core, self.core.order
        assert order is not None
        unknown = [each for each in self.log if order.known_to <= each.last_offset < self.end]
        learned = [self._with_times(each) for each in unknown[: self.rng.randrange(1, 4)]]
        core.learn_keys(learned, records=wish.records_max, locks_max=wish.locks_max)
        begin = core.next_fetch_offset()
        seen = [each for each in self.log if begin <= each.last_offset < self.end]
        piece = [LogBatch(each.base_offset, each.last_offset, bool(each.offsets)) for each in seen]
        for first, last, count in core.acquire(member, piece, wish):
            assert 1 <= count <= DELIVERIES
            for offset in range(first, last + 1):
                if offset in self.keys:
                    self._check(offset)
                    self.held[offset] = member
        biggest = max(len(each.offsets) for each in self.log)
        assert len(order) < self.records_max + biggest, "bounded memory"

    def _with_times(self, batch: KeyedBatch) -> KeyedBatch:
        times = {at: self.times[at] for at in batch.offsets if self.times.get(at, 0) > self.now}
        return batch._replace(times_ms=times)

    def _check(self, offset: int) -> None:
        assert self.times.get(offset, 0) <= self.now, f"{offset} comes before its time"
        assert offset not in self.held, f"{offset} is handed out twice"
        assert offset not in self.done, f"{offset} comes back"
        key = self.keys[offset]
        earlier = [each for each in self.keys if each < offset and self.keys[each] == key]
        assert key is None or set(earlier) <= self.done, f"{offset} comes before others of its key"

    def answer(self, member: str, kinds: list[int]) -> None:
        mine = sorted(offset for offset, holder in self.held.items() if holder == member)
        if mine:
            chosen = sorted(self.rng.sample(mine, self.rng.randrange(1, len(mine) + 1)))
            answers = [Acknowledgement(each, each, [self.rng.choice(kinds)]) for each in chosen]
            self._settle(
                self.core.acknowledge(member, answers, delivery_count_limit=DELIVERIES, renew_until_ms=None)
            )

    def _settle(self, transition: Transition, *, fails: float = 0.2) -> None:
        if self.rng.random() < fails:
            self.core.roll_back(transition)
            return
        state = self.core.to_write(changes_of(transition))
        put_batches(self.kept, state.batches, state.start_offset)
        self.kept_start = state.start_offset
        for batch in transition:
            offsets = range(batch.first, batch.last + 1)
            if batch.next_state is not RecordState.AVAILABLE:
                self.done.update(offsets)
            elif self.rng.random() < 0.3:
                batch.not_before_ms = self.now + self.rng.randrange(1, 30)
            for offset in offsets:
                self.held.pop(offset, None)
        self.core.commit(transition)

    def step(self) -> None:
        rng, self.now = self.rng, self.now + 1
        member, action = rng.choice("abc"), rng.random()
        self.core.end_rests(self.now)
        if action < 0.45:
            wish = Limits(
                rng.randrange(1, 8),
                rng.randrange(1, 9),
                rng.random() < 0.5,
                self.now + LOCK_MS,
                30,
                DELIVERIES,
            )
            self.fetch(member, wish)
        elif action < 0.85:
            self.answer(member, [ACCEPT, RELEASE, REJECT])
        elif action < 0.9:
            self._settle(self.core.expire(self.now, DELIVERIES))
        elif action < 0.92:
            self._settle(self.core.release(member, DELIVERIES))
        elif action < 0.94:
            self.core = self._new_leader()
        elif action < 0.95:
            gone = self.log_start = min(self.core.start_offset + rng.randrange(4), self.end)
            self.core.follow_log_start(gone)
            self.done.update(range(gone))
            self.held = {offset: member for offset, member in self.held.items() if offset >= gone}
        else:
            self.end = next(
                (each.last_offset + 1 for each in self.log if each.last_offset >= self.end), self.end
            )

    def finish(self) -> None:
        """Nothing fails any more: everything must be done with."""
        self.end = self.log[-1].last_offset + 1
        for _ in range(20 * RECORDS):
            self.now += LOCK_MS
            self.core.end_rests(self.now)
            self._settle(self.core.expire(self.now, DELIVERIES), fails=0)
            self.fetch("a", limits(until=self.now + 2 * LOCK_MS))
            mine = sorted(offset for offset, holder in self.held.items() if holder == "a")
            answers = [Acknowledgement(each, each, [ACCEPT]) for each in mine]
            given = self.core.acknowledge("a", answers, delivery_count_limit=5, renew_until_ms=None)
            self._settle(given, fails=0)
        assert set(self.keys) <= self.done, f"{set(self.keys) - self.done} are never handed out"
        assert not self.core.order


def play(seed: int) -> None:
    schedule = Schedule(seed)
    for _ in range(STEPS):
        schedule.step()
    schedule.finish()


@pytest.mark.parametrize("begin", [0, 50])
def test_order_is_kept_whatever_happens(begin: int) -> None:
    for seed in range(begin, begin + 50):
        play(seed)


def _nobody_waits(patch: Patch) -> None:
    rightly = KeyOrder.add
    patch.setattr(KeyOrder, "add", lambda order, *record: rightly(order, *record) * 0)


def _what_comes_back_lets_the_next_go(patch: Patch) -> None:
    def follow(core: SharePartition, became: list[tuple[int, int, RecordState]]) -> None:
        for first, last, _ in became:
            core.let_next_go(range(first, last + 1))

    patch.setattr(SharePartition, "_follow_order", follow)


def _an_answer_counts_before_it_is_written(patch: Patch) -> None:
    def acknowledge(core: SharePartition, *args: Any, **settings: Any) -> Transition:
        transition = rightly(core, *args, **settings)
        for batch in transition:
            if batch.next_state is not RecordState.AVAILABLE:
                core.let_next_go(range(batch.first, batch.last + 1))
        return transition

    rightly = SharePartition.acknowledge
    patch.setattr(SharePartition, "acknowledge", acknowledge)


def _a_new_leader_knows_only_what_comes(patch: Patch) -> None:
    def order_by_key(core: ShareWindow, records_max: int, looks: LooksFor = IN_ORDER) -> None:
        core.order = KeyOrder(core.end_offset + 1, records_max)

    patch.setattr(ShareWindow, "order_by_key", order_by_key)


def _a_turn_makes_a_time_forgotten(patch: Patch) -> None:
    patch.setattr(KeyOrder, "time_of", lambda order, offset: 0)


def _the_next_is_not_let_go(patch: Patch) -> None:
    patch.setattr(ShareWindow, "let_next_go", lambda core, offsets: None)


def _there_is_always_room(patch: Patch) -> None:
    patch.setattr(KeyOrder, "has_room", property(lambda order: True))


@pytest.mark.parametrize(
    ("plant", "rule"),
    [
        (_nobody_waits, "before others of its key"),
        (_what_comes_back_lets_the_next_go, "before others of its key"),
        (_an_answer_counts_before_it_is_written, "before others of its key"),
        (_a_new_leader_knows_only_what_comes, "before others of its key"),
        (_a_turn_makes_a_time_forgotten, "before its time"),
        (_the_next_is_not_let_go, "never handed out"),
        (_there_is_always_room, "bounded memory"),
    ],
)
def test_a_planted_mistake_is_found(plant: Callable[[Patch], None], rule: str, monkeypatch: Patch) -> None:
    plant(monkeypatch)
    for seed in range(40):
        try:
            play(seed)
        except (AssertionError, IndexError, KeyError) as found:
            if rule in str(found):
                return
    pytest.fail("not found within 40 seeds")
