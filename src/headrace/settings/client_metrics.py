"""The settings of a client metrics subscription (KIP-714): which clients push which metrics, how often."""

from collections.abc import Callable
from typing import Any, Final

from headrace.settings.definition import Setting
from headrace.settings.table import read_table

CLIENT_METRICS: Final[dict[str, Setting]] = read_table("""
interval.ms  int 300000  100..3600000
    Milliseconds between two pushes of a client.
match  list ""
    Which clients: pairs of a client's property and a regular expression, all of which must match.
metrics  list ""
    Prefixes of the metrics' names; an asterisk stands for all.
""")

CLIENT_SELECTORS: Final = frozenset(
    {
        "client_id",
        "client_instance_id",
        "client_software_name",
        "client_software_version",
        "client_source_address",
        "client_source_port",
    }
)
"""What a client can be matched by."""


def parse_match(text: str) -> dict[str, Callable[[str], object]]:
    """The properties that must match, each with what says so of a value; ValueError, with the pair that is
    wrong, where a text is no such list.
    """
    import re2  # a stranger's expression must not take longer than its text (RE2 does not)

    options = re2.Options()
    options.log_errors = False
    found: dict[str, Callable[[str], object]] = {}
    for pair in filter(None, text.split(",")):
        words = pair.split("=")
        name = words[0].strip()
        if len(words) != 2 or name not in CLIENT_SELECTORS:
            raise ValueError(pair)
        try:
            compiled: Any = re2.compile(words[1].strip(), options=options)  # type: ignore[no-untyped-call]
        except re2.error:
            raise ValueError(pair) from None
        found[name] = compiled.fullmatch
    return found
