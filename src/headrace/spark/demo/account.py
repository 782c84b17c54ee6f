"""The account: what went in against what came out, record by record, for each feed and the table.

Nothing may be missing, nothing may be wrong, and nothing may have come twice.
"""

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.spark.demo.events import InputLedger
from headrace.spark.demo.feeds import ERRORS, JOINED, LOGS, SESSIONS, TABLE, USERS
from headrace.spark.demo.outcome import Outcome

if TYPE_CHECKING:
    import pyarrow


@dataclass(frozen=True, slots=True)
class Line:
    """One row of the account. `into` is what was put in or has to come out, `out` what was found."""

    name: str
    what: str
    into: int
    out: int
    missing: int = 0
    wrong: int = 0
    again: int = 0

    @property
    def is_right(self) -> bool:
        return not self.missing and not self.wrong and not self.again


def account(
    ledger: InputLedger, *, held: Counter[str], outcome: Outcome, numbers: "pyarrow.ChunkedArray"
) -> list[Line]:
    """`held` is how many records each feed of the cluster has, `numbers` those of the table's log lines."""
    inputs = {LOGS: ledger.logs, SESSIONS: len(ledger.sessions), USERS: len(ledger.users)}
    return [
        *(_input_line(name, count, held[name]) for name, count in inputs.items()),
        _errors_line(ledger, outcome),
        _sessions_line(ledger, outcome),
        _table_line(ledger, numbers),
    ]


def _input_line(name: str, written: int, held: int) -> Line:
    return Line(
        name, "records written, in the feed", written, held, max(0, written - held), max(0, held - written)
    )


def _errors_line(ledger: InputLedger, outcome: Outcome) -> Line:
    """A count is missing as a whole, or wrong; the rows are errors, so that they add up."""
    missing = wrong = again = 0
    for key, errors in ledger.errors.items():
        found = outcome.errors.get(key, [])
        missing += errors if not found else 0
        wrong += sum(1 for count in found if count != errors)
        again += max(0, len(found) - 1)
    wrong += sum(1 for key in outcome.errors if key not in ledger.errors) + outcome.strange[ERRORS]
    out = sum(found[-1] for found in outcome.errors.values())
    return Line(ERRORS, "errors logged, counted", sum(ledger.errors.values()), out, missing, wrong, again)


def _sessions_line(ledger: InputLedger, outcome: Outcome) -> Line:
    missing = sum(1 for number in range(len(ledger.sessions)) if number not in outcome.sessions)
    wrong = sum(1 for number in outcome.sessions if not _is_joined_right(ledger, outcome, number))
    again = outcome.sessions.total() - len(outcome.sessions)
    wrong += outcome.strange[JOINED]
    return Line(
        JOINED, "sessions, joined", len(ledger.sessions), len(outcome.sessions), missing, wrong, again
    )


def _is_joined_right(ledger: InputLedger, outcome: Outcome, number: int) -> bool:
    if not 0 <= number < len(ledger.sessions):
        return False
    user = ledger.users[ledger.sessions[number]]
    got = outcome.joined[number]
    return (got["user"], got["name"], got["plan"], got["country"]) == user


def _table_line(ledger: InputLedger, numbers: "pyarrow.ChunkedArray") -> Line:
    import pyarrow.compute as pc

    unique = pc.unique(numbers)
    known = pc.sum(pc.and_(pc.greater_equal(unique, 0), pc.less(unique, ledger.logs))).as_py() or 0
    missing, wrong = ledger.logs - known, len(unique) - known
    again = len(numbers) - len(unique)
    return Line(TABLE, "log lines, rows in Parquet", ledger.logs, known, missing, wrong, again)
