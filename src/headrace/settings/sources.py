"""Where a setting's value comes from, by the numbers of DescribeConfigs."""

from enum import IntEnum


class Source(IntEnum):
    """In DescribeConfigs; a smaller number among the broker's goes before a larger one."""

    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT = 3
    STATIC = 4
    DEFAULT = 5
    BROKER_LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8
