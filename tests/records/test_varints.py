"""Varints both ways, at their limits and past them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.base.errors import InvalidBytesError
from headrace.records.varints import encode_varint, read_varint


@given(value=st.integers(-(2**31), 2**31 - 1))
def test_varint_round_trip(value: int) -> None:
    encoded = encode_varint(value)
    assert read_varint(b"\xff" + encoded, 1) == (value, 1 + len(encoded))


@pytest.mark.parametrize(
    ("value", "encoded"),
    [
        (0, "00"),
        (-1, "01"),
        (1, "02"),
        (63, "7e"),
        (-64, "7f"),
        (64, "8001"),
        (2**31 - 1, "feffffff0f"),
        (-(2**31), "ffffffff0f"),
        (-(2**63), "ffffffffffffffffff01"),
    ],
)
def test_known_bytes(value: int, encoded: str) -> None:
    assert encode_varint(value).hex() == encoded


def test_too_long_or_cut_off() -> None:
    for bad in (b"", b"\x80", b"\x80" * 4, b"\x80" * 5 + b"\0"):
        with pytest.raises(InvalidBytesError):
            read_varint(bad, 0)
