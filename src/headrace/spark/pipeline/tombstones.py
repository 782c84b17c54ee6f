"""Tombstones of a query that does not name them: carried on where it is plain what that means.

A feed that is derived from another one, record by record and under the same key, must lose a key when the
other one does. So where the output is a feed with a `key`, and the query is one SELECT over one feed, a
tombstone goes on as a tombstone of its key, whatever the query selects and filters: its fields are null, and
a WHERE would drop it. The text is changed for that, within its lines, so that Spark's errors name the file's:

    SELECT id, state            ─►   SELECT id, state, (record.tombstone) AS tombstone
    FROM orders                      FROM orders
    WHERE state = 'paid'             WHERE (record.tombstone OR (state = 'paid'))

Of an aggregation, a join or a function nobody can say in general what a deleted key means: there tombstones
are left out unless the query names `tombstone` and says it.
"""

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from headrace.spark.loads.upserts import TOMBSTONE

# Comments, texts and quoted names; words; brackets; anything else, one at a time.
_TOKEN: Final = re.compile(
    r"""--[^\n]*|/\*.*?\*/|'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.)*"|`[^`]*`|\w+|[()]|\S""", re.DOTALL
)
_MARK: Final = f", (record.{TOMBSTONE}) AS {TOMBSTONE}"
# What makes more than one row of one, or one of several, or takes rows from elsewhere.
_NOT_PLAIN: Final = frozenset(
    (
        *("JOIN", "GROUP", "HAVING", "UNION", "INTERSECT", "EXCEPT", "MINUS", "DISTINCT", "LATERAL", "LIMIT"),
        *("OFFSET", "ORDER", "SORT", "CLUSTER", "DISTRIBUTE", "WINDOW", "QUALIFY", "OVER", "WITH", "PIVOT"),
        *("UNPIVOT", "TABLESAMPLE", "VALUES", "EXPLODE", "EXPLODE_OUTER", "POSEXPLODE", "INLINE", "STACK"),
    )
)
_NAME: Final = re.compile(r"\w+|`[^`]*`")


class _Word(NamedTuple):
    text: str
    start: int
    end: int
    depth: int


def carrying(text: str, views: frozenset[str]) -> str | None:
    """The query as it carries tombstones on; None where it is not a plain SELECT over one of these views.

    Spark has the last word: an aggregation without GROUP BY looks plain, and it refuses the changed one.
    """
    own = [each for each in words(text) if each.text != ";"]
    if not own or own[0].text != "SELECT" or any(each.text in _NOT_PLAIN for each in own):
        return None
    top = [each for each in own if each.depth == 0]
    froms, wheres = ([each for each in top if each.text == name] for name in ("FROM", "WHERE"))
    if sum(each.text == "SELECT" for each in own) != 1 or len(froms) != 1 or len(wheres) > 1:
        return None
    ends = [wheres[0].start] if wheres else [len(text)]
    source = [each for each in top if froms[0].end <= each.start < ends[0]]  # a view, [AS] another name
    if not source or text[source[0].start : source[0].end] not in views or not _is_aliased(source[1:]):
        return None
    parts = {froms[0].start: f"{_MARK} "}
    if wheres:
        parts |= {wheres[0].end: f" (record.{TOMBSTONE} OR (", own[-1].end: "))"}
    return _inserted(text, parts)


def _is_aliased(rest: "list[_Word]") -> bool:
    return len(rest) <= 2 and all(_NAME.fullmatch(each.text) for each in rest)


def words(text: str) -> Iterator[_Word]:
    """Words in capitals, brackets and signs, each with how many brackets are open around it."""
    depth = 0
    for found in _TOKEN.finditer(text):
        token = found[0]
        if token.startswith(("--", "/*")):
            continue
        if token == ")":
            depth -= 1
        yield _Word(token if token[:1] in "'\"`" else token.upper(), found.start(), found.end(), depth)
        if token == "(":
            depth += 1


def _inserted(text: str, parts: dict[int, str]) -> str:
    for at in sorted(parts, reverse=True):
        text = text[:at] + parts[at] + text[at:]
    return text
