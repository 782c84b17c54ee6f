"""Every version of every message survives being written and read, from any kind of buffer."""

from typing import Any

import pytest

from headrace.wire.codec import (
    decode,
    encode,
    encode_chunks,
    join_chunks,
    reader,
    short_reader,
    sliced_reader,
    sliced_writer,
)
from headrace.wire.plan import plan_message

from .messages import MESSAGES, Randomizer, versions_of

EVERY = [pytest.param(cls, id=cls.__name__) for cls in MESSAGES]


@pytest.mark.parametrize("cls", EVERY)
def test_random_values_come_back_equal(cls: type[Any]) -> None:
    for version in versions_of(cls):
        randomizer = Randomizer(f"{cls.__name__} {version}")
        for _ in range(5):
            message = randomizer.message(cls, version)
            data = encode(message, version)
            assert join_chunks(encode_chunks(message, version)) == data
            assert decode(cls, version, data) == message
            shifted = memoryview(bytearray(b"xyz" + data + b"rest"))
            assert reader(cls, version)(shifted, 3) == (message, 3 + len(data))


@pytest.mark.parametrize("cls", EVERY)
def test_default_values_come_back_equal(cls: type[Any]) -> None:
    for version in versions_of(cls):
        message = cls()
        assert decode(cls, version, encode(message, version)) == message
        assert len(encode(message, version)) >= plan_message(cls, version).min_bytes


def finished(slices: Any) -> Any:
    """What a generator ends with."""
    while True:
        try:
            next(slices)
        except StopIteration as end:
            return end.value


@pytest.mark.parametrize("cls", EVERY)
def test_slices_are_the_same_bytes_and_the_same_message(cls: type[Any]) -> None:
    version = versions_of(cls)[-1]
    message = Randomizer(f"slices of {cls.__name__}", largest=5).message(cls, version)
    data = encode(message, version)
    assert finished(sliced_reader(cls, version)(data, 0)) == (message, len(data))
    assert short_reader(cls, version)(data, 0) == (message, len(data))
    assert join_chunks(finished(sliced_writer(cls, version)(message))) == data
