"""Incremental fetch sessions (KIP-227): what is remembered, told, refused and displaced."""

import random

import pytest

from headrace.base.chunks import FileSlice
from headrace.base.error_codes import ErrorCode
from headrace.server.fetch_sessions import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    NO_SESSION,
    CachedPartition,
    FetchContext,
    FetchSessionCache,
    epoch_after,
    has_records,
)
from headrace.wire.schemas.fetch import (
    EpochEndOffset,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
)

BY_NAME, BY_ID = 12, 13
ID = {"a": b"a" * 16, "b": b"b" * 16}


def request(session_id=0, epoch=INITIAL_EPOCH, forget=(), **topics):
    """`a=[0, 1]` asks for a-0 and a-1 from offset 0, `a={0: 7}` for a-0 from 7."""
    return FetchRequest(
        session_id=session_id,
        session_epoch=epoch,
        topics=[
            FetchTopic(
                name, ID[name], [FetchPartition(p, fetch_offset=at) for p, at in dict_of(wanted).items()]
            )
            for name, wanted in topics.items()
        ],
        forgotten_topics_data=[ForgottenTopic(name, ID[name], [partition]) for name, partition in forget],
    )


def dict_of(wanted):
    return wanted if isinstance(wanted, dict) else dict.fromkeys(wanted, 0)


def data(partition, *, high_watermark=10, start=0, records=b"", **more):
    return PartitionData(partition, 0, high_watermark, high_watermark, start, records=records, **more)


def names(fetch):
    return [f"{wanted.topic}-{wanted.partition}" for wanted in fetch.partitions]


def told(response):
    return [
        f"{topic.topic}-{part.partition_index}" for topic in response.responses for part in topic.partitions
    ]


def answer(fetch, now_ms=0, **fields):
    """Answer every partition, with the given fields for those that are named like a0=dict(records=b"x")."""
    return fetch.finish(
        [
            (wanted, data(wanted.partition, **fields.get(f"{wanted.topic}{wanted.partition}", {})))
            for wanted in fetch.partitions
        ],
        now_ms,
    )


@pytest.fixture
def sessions():
    return FetchSessionCache(random.Random(1))


def opened(sessions, version=BY_NAME, now_ms=0, follower=False, **topics):
    fetch = sessions.begin(request(**topics), version, now_ms, follower=follower)
    return answer(fetch, now_ms).session_id


def go_on(sessions, session_id, epoch, version=BY_NAME, now_ms=0, **more):
    return sessions.begin(request(session_id, epoch, **more), version, now_ms)


def test_a_full_fetch_opens_a_session_and_tells_everything(sessions):
    fetch = sessions.begin(request(a=[0, 1], b=[0]), BY_NAME, 0)
    assert names(fetch) == ["a-0", "a-1", "b-0"]
    assert len(sessions) == 0, "a session is made when the reply leaves"
    response = answer(fetch)
    assert response.session_id != NO_SESSION
    assert told(response) == ["a-0", "a-1", "b-0"]
    assert [topic.topic for topic in response.responses] == ["a", "b"]
    assert len(sessions) == 1


def test_afterwards_only_news_is_told(sessions):
    session = opened(sessions, a=[0, 1, 2, 3, 4])
    fetch = go_on(sessions, session, 1)
    assert names(fetch) == ["a-0", "a-1", "a-2", "a-3", "a-4"]
    assert told(answer(fetch)) == []
    fetch = go_on(sessions, session, 2)
    response = answer(
        fetch,
        a1={"high_watermark": 11},
        a2={"start": 3},
        a3={"records": b"x"},
        a4={"preferred_read_replica": 2},
    )
    assert told(response) == ["a-1", "a-2", "a-3", "a-4"]
    assert response.session_id == session
    fetch = go_on(sessions, session, 3)
    assert told(answer(fetch, a1={"high_watermark": 11}, a2={"start": 3})) == []


def test_a_moved_stable_offset_and_a_diverging_epoch_are_news(sessions):
    session = opened(sessions, a=[0, 1])
    fetch = go_on(sessions, session, 1)
    first, second = fetch.partitions
    stable = PartitionData(0, 0, 10, 8, 0)
    diverging = data(1, diverging_epoch=EpochEndOffset(3, 100))
    assert told(fetch.finish([(first, stable), (second, diverging)], 0)) == ["a-0", "a-1"]
    fetch = go_on(sessions, session, 2)
    first, second = fetch.partitions
    reply = fetch.finish([(first, stable), (second, data(1))], 0)
    assert told(reply) == ["a-1"], "who cuts its log back has not looked at the high watermark"


def test_an_error_is_told_each_time_and_its_end_too(sessions):
    session = opened(sessions, a=[0])
    for epoch in (1, 2):
        fetch = go_on(sessions, session, epoch)
        (wanted,) = fetch.partitions
        failed = PartitionData(0, ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)
        assert told(fetch.finish([(wanted, failed)], 0)) == ["a-0"]
    assert told(answer(go_on(sessions, session, 3))) == ["a-0"]
    assert told(answer(go_on(sessions, session, 4))) == []


def test_partitions_are_added_changed_and_forgotten(sessions):
    session = opened(sessions, a=[0, 1])
    fetch = go_on(sessions, session, 1, a={1: 7, 2: 9}, b=[0], forget=[("a", 0)])
    assert [(wanted.topic, wanted.partition, wanted.fetch_offset) for wanted in fetch.partitions] == [
        ("a", 1, 7),
        ("a", 2, 9),
        ("b", 0, 0),
    ]
    assert told(answer(fetch)) == ["a-2", "b-0"], "a-1 was told before and has not changed"


def test_the_epoch_must_be_the_next(sessions):
    session = opened(sessions, a=[0])
    go_on(sessions, session, 1)
    for wrong in (1, 3, 7):
        response = go_on(sessions, session, wrong)
        assert isinstance(response, FetchResponse)
        assert response.error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert isinstance(go_on(sessions, session, 2), FetchContext)


def test_epochs_wrap_around_to_1():
    assert epoch_after(0) == 1
    assert epoch_after(2**31 - 1) == 1
    assert epoch_after(FINAL_EPOCH) == FINAL_EPOCH


def test_a_session_that_is_not_there(sessions):
    response = go_on(sessions, 4711, 1)
    assert (response.error_code, response.session_id) == (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0)


def test_names_and_ids_do_not_mix_in_a_session(sessions):
    by_name, by_id = opened(sessions, a=[0]), opened(sessions, version=BY_ID, a=[0])
    for session, version in ((by_name, BY_ID), (by_id, BY_NAME)):
        response = go_on(sessions, session, 1, version=version)
        assert response.error_code == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR


def test_topics_by_id(sessions):
    wanted = FetchRequest(
        session_epoch=0,
        topics=[FetchTopic("", ID["a"], [FetchPartition(0)]), FetchTopic("", ID["b"], [FetchPartition(0)])],
    )
    fetch = sessions.begin(wanted, BY_ID, 0)
    response = answer(fetch)
    assert [topic.topic_id for topic in response.responses] == [ID["a"], ID["b"]]
    again = FetchRequest(
        session_id=response.session_id,
        session_epoch=1,
        forgotten_topics_data=[ForgottenTopic("", ID["a"], [0])],
    )
    assert [one.topic_id for one in sessions.begin(again, BY_ID, 0).partitions] == [ID["b"]]


def test_a_final_fetch_ends_its_session_and_is_answered_without_one(sessions):
    session = opened(sessions, a=[0])
    fetch = go_on(sessions, session, FINAL_EPOCH, a=[5])
    assert len(sessions) == 0
    response = answer(fetch)
    assert (response.session_id, told(response)) == (NO_SESSION, ["a-5"])
    assert len(sessions) == 0


def test_a_new_full_fetch_ends_the_session_it_names(sessions):
    session = opened(sessions, a=[0])
    response = answer(go_on(sessions, session, INITIAL_EPOCH, a=[1]))
    assert response.session_id not in (session, NO_SESSION)
    assert len(sessions) == 1


def test_a_session_without_partitions_ends(sessions):
    session = opened(sessions, a=[0])
    fetch = go_on(sessions, session, 1, forget=[("a", 0)])
    assert names(fetch) == []
    assert answer(fetch).session_id == NO_SESSION
    assert len(sessions) == 0


def test_what_gave_records_goes_last_next_time(sessions):
    session = opened(sessions, a=[0, 1, 2])
    answer(go_on(sessions, session, 1), a0={"records": b"x"})
    fetch = go_on(sessions, session, 2)
    assert names(fetch) == ["a-1", "a-2", "a-0"]
    answer(fetch, a1={"records": b"x"}, a2={"high_watermark": 12})
    assert names(go_on(sessions, session, 3)) == ["a-2", "a-0", "a-1"]


def test_a_reply_that_was_overtaken_is_refused(sessions):
    session = opened(sessions, a=[0])
    parked = go_on(sessions, session, 1)
    overtaking = go_on(sessions, session, 2)
    response = answer(parked, a0={"records": b"x"})
    assert (response.error_code, response.session_id) == (ErrorCode.INVALID_FETCH_SESSION_EPOCH, session)
    assert response.responses == []
    assert told(answer(overtaking, a0={"records": b"x"})) == ["a-0"]


def test_a_partition_forgotten_while_its_reply_waits_stays_forgotten(sessions):
    session = opened(sessions, a=[0, 1])
    fetch = go_on(sessions, session, 1)
    wanted = fetch.partitions
    go_on(sessions, session, 2, forget=[("a", 0)])
    fetch.finish([(wanted[0], data(0, records=b"x"))], 0)
    assert names(go_on(sessions, session, 3)) == ["a-1"]


def test_neighbours_of_one_topic_share_a_heading(sessions):
    session = opened(sessions, a=[0, 1], b=[0])
    answer(go_on(sessions, session, 1), a0={"records": b"x"})
    fetch = go_on(sessions, session, 2)
    every = {name: {"high_watermark": 20} for name in ("a0", "a1", "b0")}
    assert [topic.topic for topic in answer(fetch, **every).responses] == ["a", "b", "a"]


@pytest.mark.parametrize(
    ("records", "expected"),
    [(None, False), (b"", False), (b"x", True), ([], False), ([b"", b""], False), ([b"", b"x"], True)],
)
def test_records_count_by_their_bytes(records, expected):
    assert has_records(PartitionData(records=records)) is expected


def test_a_slice_of_a_file_is_records():
    assert has_records(PartitionData(records=FileSlice(None, 0, 5)))
    assert not has_records(PartitionData(records=FileSlice(None, 0, 0)))


def test_a_full_cache_opens_no_session(sessions):
    small = FetchSessionCache(random.Random(1), slots=2, eviction_ms=100)
    assert opened(small, a=[0])
    assert opened(small, a=[0])
    fetch = small.begin(request(a=[0, 1, 2]), BY_NAME, 50)
    response = answer(fetch, 50)
    assert (response.session_id, told(response)) == (NO_SESSION, ["a-0", "a-1", "a-2"])


def test_the_longest_unused_session_makes_room(sessions):
    small = FetchSessionCache(random.Random(1), slots=2, eviction_ms=100)
    used, unused = opened(small, a=[0]), opened(small, a=[0])
    go_on(small, used, 1, now_ms=90)
    assert opened(small, now_ms=101, a=[0]) != NO_SESSION
    assert go_on(small, unused, 1).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert isinstance(go_on(small, used, 2, now_ms=101), FetchContext)


def test_a_larger_session_displaces_an_old_smaller_one(sessions):
    small = FetchSessionCache(random.Random(1), slots=2, eviction_ms=100)
    large, little = opened(small, a=[0, 1, 2]), opened(small, a=[0, 1])
    for epoch, now_ms in ((1, 60), (2, 120)):
        go_on(small, large, epoch, now_ms=now_ms)
        go_on(small, little, epoch, now_ms=now_ms)
    assert opened(small, now_ms=121, a=[0, 1]) == NO_SESSION, "no larger than the smallest"
    assert opened(small, now_ms=121, a=[0, 1, 2]) != NO_SESSION
    assert go_on(small, little, 3).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_a_follower_displaces_consumers_of_any_age_and_no_young_follower(sessions):
    small = FetchSessionCache(random.Random(1), slots=2, eviction_ms=100)
    follower = opened(small, follower=True, a=[0])
    consumer = opened(small, a=[0, 1, 2])
    second = opened(small, follower=True, now_ms=1, a=[0])
    assert second != NO_SESSION
    assert go_on(small, consumer, 1).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert opened(small, follower=True, now_ms=1, a=[0, 1, 2]) == NO_SESSION
    assert opened(small, now_ms=1, a=[0, 1, 2]) == NO_SESSION
    assert isinstance(go_on(small, follower, 1), FetchContext)


def test_a_cache_without_slots_opens_nothing(sessions):
    assert opened(FetchSessionCache(random.Random(1), slots=0), a=[0]) == NO_SESSION


def test_requests_of_old_versions_stand_alone(sessions):
    """Below v7 there are no sessions: the defaults of the missing fields ask for none."""
    fetch = sessions.begin(FetchRequest(topics=[FetchTopic("a", partitions=[FetchPartition(0)])]), 4, 0)
    assert answer(fetch).session_id == NO_SESSION
    assert len(sessions) == 0


def test_a_follower_behind_the_high_watermark_is_told_of_it_again_once_it_has_more() -> None:
    """Of several answers under way a follower takes one, and of a high watermark no more than it has."""
    wanted = CachedPartition("t", bytes(16), ("t", 0), FetchPartition(0, fetch_offset=212))
    news = PartitionData(0, high_watermark=213, last_stable_offset=213, log_start_offset=0)
    wanted.told(news)
    wanted.replica = object()
    assert not wanted.is_news(news)
    wanted.ask(FetchPartition(0, fetch_offset=213))
    assert wanted.is_news(news)
    wanted.told(news)
    wanted.ask(FetchPartition(0, fetch_offset=214))
    assert not wanted.is_news(news), "it had all of that already"
