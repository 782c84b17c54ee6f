"""How pipelines are drawn, and what of a file is found for it."""

from pathlib import Path
from xml.etree import ElementTree

import pytest

from headrace.spark.pipeline.errors import PipelineError
from headrace.spark.pipeline.graph import as_svg, as_text, graph_of
from headrace.spark.pipeline.queries import read_by, statements
from headrace.spark.pipeline.spec import PipelineSpec
from headrace.spark.pipeline.spec_reader import read_spec

SHOP = """\
-- in logs: feed service-logs
--   json: service STRING, level STRING
--   dead letters: service-dead
-- in users: parquet users
-- out errors: feed errors
-- out by_user: delta by-user
CREATE TEMPORARY VIEW errors AS SELECT * FROM logs WHERE level = 'ERROR; not'; -- a; b
/* ; */
create or replace temp view by_user AS
SELECT * FROM errors JOIN users USING (service)
"""
PAGES = """\
# in errors: feed errors
# in dead: feed service-dead
# out: feed pages
# out counts: feed <counts>
def counts(query):
    return query.groupBy("service").count()

def query(errors, dead):
    return errors.union(dead)
"""


def spec(text: str = SHOP, path: str = "shop.sql") -> PipelineSpec:
    return read_spec(path, text, {})


def test_statements_keep_their_lines() -> None:
    first, second = statements(spec().header)
    assert (first.line, first.view, second.line, second.view) == (7, "errors", 9, "by_user")
    assert first.text.splitlines()[6] == SHOP.splitlines()[6].partition("; --")[0]
    assert second.text.count("\n") == SHOP.count("\n")
    assert second.text.split() == SHOP[SHOP.index("create") :].split()


def test_views_are_temporary() -> None:
    text = SHOP.replace("CREATE TEMPORARY VIEW errors", "CREATE VIEW errors")
    with pytest.raises(PipelineError, match=r"shop\.sql:7: write it as CREATE TEMPORARY VIEW errors"):
        statements(spec(text).header)


def test_what_functions_read() -> None:
    assert read_by(spec(PAGES, "pages.py")) == {"counts": {"query"}, "query": {"errors", "dead"}}
    with pytest.raises(PipelineError, match=r"pages\.py:6"):
        read_by(spec(PAGES.replace("count()", "count("), "pages.py"))


def test_a_graph_of_two_files() -> None:
    found = graph_of([spec(), spec(PAGES, "pages.py")])
    assert as_text(found) == [
        "feed service-logs ─► feed service-dead",
        "feed service-logs ─► [ shop/errors ] ─► feed errors",
        "                                     └► shop/by_user",
        "shop/errors ─► [ shop/by_user ] ─► table by-user",
        "files users ─┘",
        "feed service-dead ─► [ pages ] ─► feed pages",
        "feed errors       ─┘           └► pages/counts",
        "pages ─► [ pages/counts ] ─► feed <counts>",
    ]
    depths = [[node.name for node in column] for column in found.columns()]
    assert depths[0] == ["service-logs", "users"]
    assert depths[-1] == ["<counts>"]


def test_the_picture_is_svg() -> None:
    found = graph_of([spec(), spec(PAGES, "pages.py")])
    root = ElementTree.fromstring(as_svg(found))
    space = {"svg": "http://www.w3.org/2000/svg"}
    titles = [each.text for each in root.findall(".//svg:title", space)]
    assert sorted(titles) == sorted(node.label for node in found.nodes)
    assert "feed <counts>" in titles
    assert len(root.findall("./svg:path", space)) == len(found.edges)


def test_a_feed_that_feeds_itself_has_a_picture_too(tmp_path: Path) -> None:
    text = "-- in a: feed t\n-- out: feed t\nSELECT * FROM a\n"
    found = graph_of([spec(text)])
    assert as_text(found) == ["feed t ─► [ shop ] ─► feed t"]
    ElementTree.fromstring(as_svg(found))
