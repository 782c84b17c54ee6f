"""The feeds and the table of the demonstration: their names, and how wide they are.

Imported by the Spark program and by the command, so it needs neither Spark nor clients.
"""

from typing import Final

LOGS: Final = "service-logs"
SESSIONS: Final = "sessions"
USERS: Final = "users"
ERRORS: Final = "errors-per-minute"
JOINED: Final = "sessions-with-users"
# The folder of the Parquet table, and the name of the query that fills it.
TABLE: Final = "service-logs-table"

INPUTS: Final = (LOGS, SESSIONS, USERS)
DERIVED: Final = (ERRORS, JOINED)
PARTITIONS: Final = {LOGS: 4, SESSIONS: 2, USERS: 1, ERRORS: 1, JOINED: 2}

# Which feeds each query of the Spark program reads.
QUERIES: Final = {ERRORS: (LOGS,), JOINED: (SESSIONS, USERS), TABLE: (LOGS,)}

MINUTE_MS: Final = 60_000
# A log line reaches its feed up to three seconds after it happened. A minute is closed when the feed has
# moved ten seconds past it, so none is too late.
LATE_MS_MAX: Final = 3_000
WATERMARK_MS: Final = 10_000
