"""Whatever the bytes, a reader gives a message or InvalidBytesError, and takes memory in proportion."""

import random
import struct
import tracemalloc
from collections.abc import Iterator
from typing import Any

import pytest

from headrace.base.errors import InvalidBytesError
from headrace.wire import primitives
from headrace.wire.codec import LongMessageError, decode, encode, reader, short_reader, sliced_reader
from headrace.wire.plan import StructPlan, plan_message
from headrace.wire.primitives import ELEMENTS_MAX, TAGGED_FIELDS_MAX, uvarint
from headrace.wire.reader_source import compile_reader
from headrace.wire.schemas.fetch import FetchRequest
from headrace.wire.schemas.heartbeat import HeartbeatRequest
from headrace.wire.schemas.metadata import MetadataRequest, MetadataResponse, MetadataResponseTopic
from headrace.wire.schemas.metadata import MetadataResponsePartition as Partition
from headrace.wire.schemas.offset_fetch import OffsetFetchRequest

from .messages import MESSAGES, Randomizer, versions_of

EVERY = pytest.mark.parametrize("cls", [pytest.param(cls, id=cls.__name__) for cls in MESSAGES])
BAD_LENGTHS = (
    struct.pack(">i", 0x7FFFFFFF),
    struct.pack(">i", -0x80000000),
    struct.pack(">i", -1),
    struct.pack(">i", -2),
    struct.pack(">h", 0x7FFF),
    struct.pack(">h", -2),
    uvarint(0x7FFFFFFF),
    b"\xff\xff\xff\xff\x0f",
    b"\xff\xff\xff\xff\xff\xff",
    b"\0",
    b"\x7f",
)


def is_survived(cls: type[Any], version: int, data: bytes) -> bool:
    """Whether the bytes are refused as they should be; False if they made a message."""
    try:
        reader(cls, version)(data, 0)
    except InvalidBytesError:
        return True
    return False


@EVERY
def test_random_bytes(cls: type[Any]) -> None:
    for version in versions_of(cls):
        chance = random.Random(f"{cls.__name__} {version}")
        for size in (0, 1, 2, 3, 7, 20, 60, 200):
            is_survived(cls, version, chance.randbytes(size))
            is_survived(cls, version, bytes(size))
            is_survived(cls, version, b"\xff" * size)
            is_survived(cls, version, bytes(chance.choices((0, 1, 2, 3, 127, 128), k=size)))


@EVERY
def test_every_truncation_is_refused(cls: type[Any]) -> None:
    for version in versions_of(cls):
        chance = random.Random(f"{cls.__name__} {version}")
        data = encode(Randomizer(f"cut {cls.__name__} {version}", largest=2).message(cls, version), version)
        sizes = range(len(data))
        for size in sizes if len(data) < 200 else chance.sample(sizes, 200):
            assert is_survived(cls, version, data[:size]), f"v{version}, {size} of {len(data)} bytes"


@EVERY
def test_mutated_lengths(cls: type[Any]) -> None:
    """Every place of a message could be a length: put a bad one there."""
    for version in versions_of(cls):
        chance = random.Random(f"{cls.__name__} {version}")
        data = encode(
            Randomizer(f"mutate {cls.__name__} {version}", largest=2).message(cls, version), version
        )
        places = range(len(data))
        for place in places if len(data) < 60 else chance.sample(places, 60):
            bad = chance.choice(BAD_LENGTHS)
            is_survived(cls, version, data[:place] + bad + data[place + len(bad) :])


def array_counts(plan: StructPlan) -> Iterator[bytes]:
    """Messages that are well-formed up to the first array, which then announces far too much."""
    head = bytearray()
    for field in plan.fields:
        if field.spec.is_array:
            yield bytes(head) + (uvarint(0x7FFFFFFF) if field.is_compact else struct.pack(">i", 0x7FFFFFFF))
            yield bytes(head) + (uvarint(0x10_0000) if field.is_compact else struct.pack(">i", 0x10_0000))
            return
        head += bytes(field.min_bytes) if not field.is_compact or field.spec.wire.code else b"\1"


@EVERY
def test_an_announced_array_takes_no_memory(cls: type[Any]) -> None:
    version = versions_of(cls)[-1]
    for head in array_counts(plan_message(cls, version)):
        is_survived(cls, version, head)  # compiles outside of what is measured
        for data in (head, head + bytes(1000)):
            tracemalloc.start()
            try:
                is_survived(cls, version, data)
                assert tracemalloc.get_traced_memory()[1] < 1_000_000
            finally:
                tracemalloc.stop()


@pytest.mark.parametrize("version", [0, 8, 9, 13])
def test_a_large_frame_of_tiny_elements_is_refused_before_it_takes_memory(version: int) -> None:
    size = 32 * 1024 * 1024
    count = size // plan_message(MetadataRequest, version).fields[0].element_min_bytes
    head = uvarint(count + 1) if version >= 9 else struct.pack(">i", count)
    frame = head + bytes(size)
    tracemalloc.start()
    try:
        with pytest.raises(InvalidBytesError, match="topics"):
            decode(MetadataRequest, version, frame)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


def test_nested_arrays_share_one_memory_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each inner array alone would be small enough: the sum of them counts."""
    monkeypatch.setattr(primitives, "MESSAGE_MEMORY_MAX", 1_000_000)
    partitions = [Partition(partition_index=index) for index in range(100)]
    message = MetadataResponse(topics=[MetadataResponseTopic(name="t", partitions=partitions)] * 30)
    data = encode(message, 7)
    with pytest.raises(InvalidBytesError, match=r"MetadataResponseTopic\.partitions"):
        compile_reader(plan_message(MetadataResponse, 7), "MetadataResponse v7")(data, 0)
    assert decode(MetadataResponse, 7, data) == message


@EVERY
def test_memory_is_what_the_budget_counts(cls: type[Any]) -> None:
    """The estimate that bounds a message must not lie: what is really taken stays below it."""
    version = versions_of(cls)[-1]
    plan = plan_message(cls, version)
    arrays = [field for field in plan.fields if field.spec.is_array and field.struct is not None]
    for field in arrays:
        randomizer = Randomizer(f"memory {cls.__name__}", largest=0)
        assert field.struct is not None
        elements = [randomizer.struct(field.struct) for _ in range(300)]
        message = cls()
        setattr(message, field.spec.name, elements)
        data = encode(message, version)
        read = reader(cls, version)
        read(data, 0)
        tracemalloc.start()
        try:
            read(data, 0)
            taken = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        # Content of strings is bounded by the frame, at up to four bytes in memory for one on the wire.
        assert taken < 300 * field.element_memory + 4 * len(data) + 20_000


class TestTags:
    """Heartbeat v4 knows no tags at its end; Fetch v13 knows tag 0."""

    plain = encode(HeartbeatRequest("g", 1, "m"), 4)[:-1]

    def test_unknown_tags_are_skipped(self) -> None:
        tags = b"\x02" + b"\x05\x03abc" + uvarint(1000) + uvarint(200) + bytes(200)
        assert reader(HeartbeatRequest, 4)(self.plain + tags, 0) == (
            HeartbeatRequest("g", 1, "m"),
            len(self.plain + tags),
        )

    @pytest.mark.parametrize(
        "tags",
        [
            pytest.param(b"\x02\x05\x01a\x05\x01a", id="twice"),
            pytest.param(b"\x02\x05\x01a\x04\x01a", id="falling"),
            pytest.param(b"\x01\x05\x02a", id="past the end"),
            pytest.param(b"\x01\x05" + uvarint(0x7FFFFFFF), id="huge"),
            pytest.param(b"\x01", id="missing"),
            pytest.param(uvarint(0x7FFFFFFF) + b"\0\0", id="too many"),
        ],
    )
    def test_malformed_tags_are_refused(self, tags: bytes) -> None:
        with pytest.raises(InvalidBytesError):
            decode(HeartbeatRequest, 4, self.plain + tags)

    @pytest.mark.parametrize(
        "tags", [b"\x01\x00\x05\x03ab\0\0", b"\x01\x00\x02\x03ab", b"\x02\x00\x01\0\x00\x01\0"]
    )
    def test_a_known_tag_fills_its_size_and_comes_once(self, tags: bytes) -> None:
        plain = encode(FetchRequest(), 13)[:-1]
        assert decode(FetchRequest, 13, plain + b"\x01\x00\x03\x03ab").cluster_id == "ab"
        with pytest.raises(InvalidBytesError):
            decode(FetchRequest, 13, plain + tags)


class TestNulls:
    def test_null_only_where_it_is_allowed(self) -> None:
        assert decode(MetadataRequest, 1, struct.pack(">i", -1)).topics is None
        with pytest.raises(InvalidBytesError, match=r"MetadataRequest\.topics"):
            decode(MetadataRequest, 0, struct.pack(">i", -1))
        with pytest.raises(InvalidBytesError, match=r"MetadataRequest\.topics"):
            decode(MetadataRequest, 1, struct.pack(">i", -2))
        with pytest.raises(InvalidBytesError, match=r"HeartbeatRequest\.group_id"):
            decode(HeartbeatRequest, 4, b"\0" + bytes(20))

    def test_nullable_versions_of_a_field(self) -> None:
        assert decode(OffsetFetchRequest, 2, b"\0\1g\xff\xff\xff\xff").topics is None
        with pytest.raises(InvalidBytesError, match=r"OffsetFetchRequest\.topics"):
            decode(OffsetFetchRequest, 1, b"\0\1g\xff\xff\xff\xff")


class TestStrings:
    def test_bad_utf8_is_refused(self) -> None:
        with pytest.raises(InvalidBytesError, match="HeartbeatRequest v0"):
            decode(HeartbeatRequest, 0, b"\0\2\xff\xfe" + bytes(20))

    def test_a_string_is_no_longer_than_its_old_prefix_could_say(self) -> None:
        longest = HeartbeatRequest("x" * 0x7FFF)
        assert decode(HeartbeatRequest, 4, encode(longest, 4)) == longest
        with pytest.raises(InvalidBytesError, match="group_id"):
            decode(HeartbeatRequest, 4, uvarint(0x8001) + b"x" * 0x8000 + bytes(20))
        with pytest.raises(InvalidBytesError, match="group_id"):
            encode(HeartbeatRequest("x" * 0x8000), 4)
        with pytest.raises(InvalidBytesError, match="group_id"):
            encode(HeartbeatRequest("x" * 0x8000), 0)


def test_a_request_that_would_take_long_is_not_read_at_once() -> None:
    names = struct.pack(">i", 50_000) + b"\0\1t" * 50_000
    with pytest.raises(LongMessageError):
        short_reader(MetadataRequest, 1)(names, 0)
    slices = sliced_reader(MetadataRequest, 1)(names, 0)
    assert sum(1 for _ in slices) > 100


@pytest.mark.parametrize("version", [1, 12])
def test_no_array_of_a_request_has_more_than_a_million_elements(version: int) -> None:
    """CVE-2026-111108."""
    count = ELEMENTS_MAX + 1
    if version == 1:
        data = struct.pack(">i", count) + bytes(2 * count)
    else:
        data = uvarint(count + 1) + bytes(20) * count
    with pytest.raises(InvalidBytesError, match="at most 1000000"):
        short_reader(MetadataRequest, version)(data, 0)
    with pytest.raises(InvalidBytesError, match="at most 1000000"):
        list(sliced_reader(MetadataRequest, version)(data, 0))


def test_no_struct_has_more_than_ten_thousand_tagged_fields() -> None:
    """CVE-2026-111115."""
    request = b"\0\1\0"  # all topics, automatic creation, no operations
    fine = (
        request
        + uvarint(TAGGED_FIELDS_MAX)
        + b"".join(uvarint(100 + number) + b"\0" for number in range(TAGGED_FIELDS_MAX))
    )
    assert short_reader(MetadataRequest, 12)(fine, 0)[0].topics is None
    many = (
        request
        + uvarint(TAGGED_FIELDS_MAX + 1)
        + b"".join(uvarint(100 + number) + b"\0" for number in range(TAGGED_FIELDS_MAX + 1))
    )
    with pytest.raises(InvalidBytesError, match="at most 10000"):
        short_reader(MetadataRequest, 12)(many, 0)
