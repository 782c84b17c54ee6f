"""Which queries carry tombstones on by themselves, and how their text is changed for it."""

import pytest

from headrace.spark.pipeline.tombstones import carrying

MARK = ", (record.tombstone) AS tombstone"


@pytest.mark.parametrize(
    ("query", "carried"),
    [
        ("SELECT id FROM orders", f"SELECT id {MARK} FROM orders"),
        (
            "-- in orders: feed o\n\nselect *\nfrom orders;",
            f"-- in orders: feed o\n\nselect *\n{MARK} from orders;",
        ),
        ("SELECT o.id FROM orders AS o", f"SELECT o.id {MARK} FROM orders AS o"),
        (
            "SELECT id, upper(state) AS s\nFROM orders\nWHERE state = 'a WHERE b' -- (\n  AND id > 3 ;",
            f"""SELECT id, upper(state) AS s\n{MARK} FROM orders
WHERE (record.tombstone OR ( state = 'a WHERE b' -- (\n  AND id > 3)) ;""",
        ),
    ],
)
def test_a_plain_query_carries_them_on(query: str, carried: str) -> None:
    changed = carrying(query, frozenset({"orders"}))
    assert changed == carried
    assert changed.count("\n") == query.count("\n"), "errors are told by line"


@pytest.mark.parametrize(
    "query",
    [
        "SELECT id, count(*) FROM orders GROUP BY id",
        "SELECT id FROM orders JOIN users USING (id)",
        "SELECT id FROM orders, users",
        "SELECT id FROM orders WHERE id IN (SELECT id FROM users)",
        "SELECT id FROM (SELECT id FROM orders)",
        "SELECT DISTINCT id FROM orders",
        "SELECT id FROM orders UNION ALL SELECT id FROM orders",
        "WITH a AS (SELECT 1) SELECT id FROM orders",
        "SELECT id FROM orders LIMIT 5",
        "SELECT id, explode(lines) FROM orders",
        "SELECT id FROM elsewhere",
        "SELECT row_number() OVER (PARTITION BY id) FROM orders",
        "FROM orders SELECT id",
        "",
    ],
)
def test_others_do_not(query: str) -> None:
    assert carrying(query, frozenset({"orders"})) is None
