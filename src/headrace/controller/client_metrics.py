"""The settings of a client metrics subscription (KIP-714): which clients push which metrics, how often."""

from typing import Final

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
