"""Which options are secrets, and how Spark is told so.

Spark hides options whose names look like a secret's in what it shows of a query: plans, its web page, the
event log. What it does not know by itself is Kafka's: a whole login in one line (`sasl.jaas.config`), a key
in PEM (`ssl.keystore.key`). Nobody keeps a list of them: they are what the clients' tables call passwords.
"""

import re
from typing import Final

from headrace.clients.config import TABLES
from headrace.settings.definition import ConfigType
from headrace.tiered.remote_storage import HARMLESS

CLIENT_PREFIX: Final = "kafka."
STORE_PREFIX: Final = "store."
"""What a remote store needs besides its URL, as brokers have it behind rsm.config."""

CLIENT_SECRETS: Final = frozenset(
    name
    for table in TABLES.values()
    for name, setting in table.items()
    if setting.sensitive or setting.kind is ConfigType.PASSWORD
)
# Whatever else there may be that is called so; the first four are what Spark hides (spark.redaction.regex).
_BY_NAME: Final = "secret|password|token|access[.]?key|jaas"
_LOOKS_SECRET: Final = re.compile(_BY_NAME, re.IGNORECASE)
_OF_STORE_HARMLESS: Final = frozenset({*HARMLESS, "class_name"})

_ANY_SECRET: Final = "|".join((_BY_NAME, *map(re.escape, sorted(CLIENT_SECRETS))))
REDACTION: Final = {
    # `url` is Spark's own default.
    "spark.sql.redaction.options.regex": f"(?i)url|^{re.escape(STORE_PREFIX)}|{_ANY_SECRET}"
}
"""Settings of a session in which Spark shows none of them."""

STATEMENTS: Final = "spark.sql.redaction.string.regex"
STATEMENT_REDACTION: Final = (
    rf'(?i:key: "(?:{re.escape(STORE_PREFIX)}[^"]*|[^"]*(?:{_ANY_SECRET})[^"]*)"\s+value: "(?:[^"\\]|\\.)*")'
)
"""For STATEMENTS of a session at a Spark Connect server, which notes what it is asked, options and all."""


def is_secret(option: str) -> bool:
    """Whether an option's value must not be told. Of a store everything is, unless it is known not to be."""
    name = option.lower()
    if name.startswith(STORE_PREFIX):
        return name.removeprefix(STORE_PREFIX).replace(".", "_") not in _OF_STORE_HARMLESS
    return name.removeprefix(CLIENT_PREFIX) in CLIENT_SECRETS or _LOOKS_SECRET.search(name) is not None
