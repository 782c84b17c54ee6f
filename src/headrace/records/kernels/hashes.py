"""Keys are hashed in two ways: murmur2, by which every Kafka producer chooses a partition, and keyed SipHash
in 128 bits, by which compaction may tell keys apart without keeping them and without trusting who wrote them.

Words only: every operand is one, constants included, and what could grow past 64 bits is masked.
"""

from headrace.records.kernels.notation import (
    Bytes,
    Ints,
    Numbers,
    Word,
    Words,
    bytes_at,
    kernel,
    number,
    part,
    word,
    word_at,
)

_MASK: Word = 0xFFFFFFFFFFFFFFFF
_LOW: Word = 0xFFFFFFFF
_M: Word = 0x5BD1E995
_SEED: Word = 0x9747B28C
_0: Word = 0
_13: Word = 13
_15: Word = 15
_16: Word = 16
_17: Word = 17
_21: Word = 21
_24: Word = 24
_32: Word = 32
_43: Word = 43
_47: Word = 47
_48: Word = 48
_51: Word = 51
_56: Word = 56
_A: Word = 0x736F6D6570736575
_B: Word = 0x646F72616E646F6D ^ 0xEE
_C: Word = 0x6C7967656E657261
_D: Word = 0x7465646279746573
_EE: Word = 0xEE
_DD: Word = 0xDD


@kernel
def murmur2_of(data: Bytes, start: int, size: int) -> int:
    """`murmur2` of a part of a buffer."""
    mixed = _SEED ^ word(size)
    whole = size & ~3
    for at in range(start, start + whole, 4):
        part = bytes_at(data, at, 4) * _M & _LOW
        part = (part ^ (part >> _24)) * _M & _LOW
        mixed = (mixed * _M & _LOW) ^ part
    if size & 3:
        mixed = (mixed ^ bytes_at(data, start + whole, size & 3)) * _M & _LOW
    mixed = (mixed ^ (mixed >> _13)) * _M & _LOW
    found = number(mixed ^ (mixed >> _15))
    return found - ((found >> 31) << 32)


@kernel
def murmur2(data: Bytes) -> int:
    """The hash by which Kafka's producers choose a key's partition: MurmurHash2 with their seed, signed."""
    return murmur2_of(data, 0, len(data))


@kernel
def murmur2_spans(data: Bytes, at: Numbers, size: Numbers, hashes: Ints) -> None:
    """`murmur2` of many keys of one buffer into a column of int32; 0 for a null."""
    for index in range(len(hashes)):
        hashes[index] = murmur2_of(data, at[index], size[index]) if size[index] >= 0 else 0


@part
def sip_rounds(a: Word, b: Word, c: Word, d: Word, count: int) -> tuple[Word, Word, Word, Word]:
    for _ in range(count):
        a = (a + b) & _MASK
        b = (((b << _13) | (b >> _51)) & _MASK) ^ a
        a = ((a << _32) | (a >> _32)) & _MASK
        c = (c + d) & _MASK
        d = (((d << _16) | (d >> _48)) & _MASK) ^ c
        a = (a + d) & _MASK
        d = (((d << _21) | (d >> _43)) & _MASK) ^ a
        c = (c + b) & _MASK
        b = (((b << _17) | (b >> _47)) & _MASK) ^ c
        c = ((c << _32) | (c >> _32)) & _MASK
    return a, b, c, d


@part
def siphash(data: Bytes, at: int, size: int, secret_0: Word, secret_1: Word) -> tuple[Word, Word]:
    """SipHash-2-4-128 of one key."""
    a, b, c, d = _A ^ secret_0, _B ^ secret_1, _C ^ secret_0, _D ^ secret_1
    for step in range(size >> 3):
        some = word_at(data, at + 8 * step)
        a, b, c, d = sip_rounds(a, b, c, d ^ some, 2)
        a ^= some
    some = (word(size & 0xFF) << _56) | bytes_at(data, at + (size & ~7), size & 7)
    a, b, c, d = sip_rounds(a, b, c, d ^ some, 2)
    a ^= some
    a, b, c, d = sip_rounds(a, b, c ^ _EE, d, 4)
    low = a ^ b ^ c ^ d
    a, b, c, d = sip_rounds(a, b ^ _DD, c, d, 4)
    return low, a ^ b ^ c ^ d


@kernel
def siphash_spans(
    data: Bytes, at: Numbers, size: Numbers, secret_0: Word, secret_1: Word, hashes: Words
) -> None:
    """SipHash-2-4-128 of many keys of one buffer into pairs of uint64; zeros for a null."""
    for index in range(len(hashes) // 2):
        low, high = _0, _0
        if size[index] >= 0:
            low, high = siphash(data, at[index], size[index], secret_0, secret_1)
        hashes[2 * index] = low
        hashes[2 * index + 1] = high
