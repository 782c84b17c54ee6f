"""Zigzag varints, as every number inside a record is written.

A signed number is folded so that small magnitudes of either sign become small unsigned ones (0, -1, 1, -2
... become 0, 1, 2, 3 ...), then written seven bits a byte, least significant first, the top bit saying that
more follow. Lengths and offset deltas are 32-bit numbers and take at most 5 bytes; timestamp deltas are
64-bit and take at most 10. Whole records are read by the kernels; what is here serves single numbers.
"""

from typing import Final

from headrace.base.chunks import Buffer
from headrace.base.errors import InvalidBytesError

# Most numbers in a record are lengths below 64 or deltas of a batch's first records: one lookup each.
_SMALL: Final = tuple(bytes((n,)) if n < 128 else bytes((n & 127 | 128, n >> 7)) for n in range(16384))


def encode_varint(value: int) -> bytes:
    """The bytes of a signed number of up to 64 bits."""
    folded = value << 1 if value >= 0 else (-value << 1) - 1
    if folded < 16384:
        return _SMALL[folded]
    out = bytearray()
    while folded > 127:
        out.append(folded & 127 | 128)
        folded >>= 7
    out.append(folded)
    return bytes(out)


def read_varint(buffer: Buffer, at: int) -> tuple[int, int]:
    """A 32-bit number and the position behind it."""
    folded = shift = 0
    try:
        while True:
            byte = buffer[at]
            at += 1
            folded |= (byte & 127) << shift
            if byte < 128:
                break
            shift += 7
            if shift >= 32:
                raise InvalidBytesError(f"the varint that ends at byte {at} has more than 32 bits")
    except IndexError:
        raise InvalidBytesError(f"a varint is cut off at byte {at}") from None
    folded &= 0xFFFFFFFF
    return folded >> 1 ^ -(folded & 1), at
