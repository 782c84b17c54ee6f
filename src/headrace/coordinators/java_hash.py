"""Java's String.hashCode, by which Kafka spreads groups and transactional ids over an internal topic's
partitions.
"""


def java_string_hash(text: str) -> int:
    """The signed 32-bit hash over the string's UTF-16 code units."""
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for high, low in zip(units[::2], units[1::2], strict=True):
        value = (31 * value + (high << 8 | low)) & 0xFFFFFFFF
    return value - (1 << 32) if value & 0x80000000 else value


def partition_for(key: str, partitions: int) -> int:
    """Which partition of an internal topic is home to this key."""
    value = java_string_hash(key)
    return (0 if value == -(1 << 31) else abs(value)) % partitions
