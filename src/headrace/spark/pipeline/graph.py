"""What a folder's pipelines are together: feeds and files, views, and where their rows go.

A node is a feed, files, a view or query of a file, or an output; feeds that one file writes and another reads
are one node, so that a folder's graph shows its chains. It is drawn from what the files say; nothing is run.
Nodes stand in columns by the longest way that leads to them.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final, NamedTuple

from headrace.spark.pipeline.queries import QUERY, read_by
from headrace.spark.pipeline.spec import InputSpec, OutputSpec, PipelineSpec

_WIDTH: Final = 190
_HEIGHT: Final = 40
_GAP_X: Final = 60
_GAP_Y: Final = 22
_MARGIN: Final = 20
_CHARS_MAX: Final = 25
_COLOURS: Final = {
    "feed": "#dbeafe",
    "files": "#e5e7eb",
    "query": "#fef3c7",
    "table": "#dcfce7",
    "dead": "#fee2e2",
}

_TIP: Final = (
    '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" '
    'orient="auto"><path d="M0 0L8 4L0 8z" fill="#6b7280"/></marker></defs>'
)


@dataclass(frozen=True, slots=True)
class GraphNode:
    """`kind` is feed, files, query, table or dead (a feed of dead letters)."""

    kind: str
    name: str

    @property
    def label(self) -> str:
        return (
            self.name
            if self.kind == "query"
            else f"{self.kind if self.kind != 'dead' else 'feed'} {self.name}"
        )


@dataclass(frozen=True, slots=True)
class Graph:
    """Nodes in order of columns, and edges from where rows come to where they go."""

    nodes: tuple[GraphNode, ...]
    edges: tuple[tuple[GraphNode, GraphNode], ...]

    def columns(self) -> list[list[GraphNode]]:
        """By the longest way; a circle, which a feed that feeds itself makes, counts once."""
        before: dict[GraphNode, list[GraphNode]] = {}
        for source, target in self.edges:
            before.setdefault(target, []).append(source)
        found: list[list[GraphNode]] = []
        depths: dict[GraphNode, int] = {}

        def depth(node: GraphNode, seen: tuple[GraphNode, ...]) -> int:
            if node not in depths:
                own = [each for each in before.get(node, ()) if each not in seen]
                depths[node] = 1 + max((depth(each, (*seen, node)) for each in own), default=-1)
            return depths[node]

        for node in self.nodes:
            at = depth(node, (node,))
            found += [[] for _ in range(at + 1 - len(found))]
            found[at].append(node)
        return found


def graph_of(specs: Sequence[PipelineSpec]) -> Graph:
    """Of one or several files."""
    edges: dict[tuple[GraphNode, GraphNode], None] = {}
    for spec in specs:
        edges |= dict.fromkeys(_edges(spec))
    nodes = dict.fromkeys(each for edge in edges for each in edge)
    # A feed of dead letters that somebody reads is a feed like others.
    dead = {each.name for each in nodes if each.kind == "dead"}
    both = {each.name for each in nodes if each.kind == "feed"} & dead
    plain = {
        each: GraphNode("feed", each.name) if each.name in both and each.kind == "dead" else each
        for each in nodes
    }
    return Graph(
        tuple(dict.fromkeys(plain.values())),
        tuple((plain[source], plain[target]) for source, target in edges),
    )


def _edges(spec: PipelineSpec) -> Iterable[tuple[GraphNode, GraphNode]]:
    reads = read_by(spec)
    inputs = {each.name: each for each in spec.inputs}
    wanted: list[str] = []

    def visit(name: str) -> Iterable[tuple[GraphNode, GraphNode]]:
        """Edges into a view or query, and into all that it reads."""
        if name in wanted:
            return
        wanted.append(name)
        own = _query(spec, name)
        for each in sorted(reads.get(name, ())):
            if each in inputs:
                yield from ((source, own) for source in _sources(inputs[each]))
            elif each in reads and each:
                yield _query(spec, each), own
                yield from visit(each)

    for output in spec.outputs:
        start = _start(spec, output, reads, inputs)
        if start in inputs:
            yield from ((source, _target(output)) for source in _sources(inputs[start]))
            continue
        yield from visit(start)
        yield _query(spec, start), _target(output)
    for each in spec.inputs:
        if each.dead_letters is not None:
            yield from ((source, GraphNode("dead", each.dead_letters)) for source in _sources(each))


class QueryEdge(NamedTuple):
    """What a running query reads (`in`) or writes (`out`), by the names that its reports have."""

    pipeline: str
    query: str
    direction: str
    kind: str
    name: str


def query_edges(spec: PipelineSpec) -> list[QueryEdge]:
    """Of each query that a file makes, views on the way left out; those of dead letters with them."""
    reads, inputs = read_by(spec), {each.name: each for each in spec.inputs}
    found: list[QueryEdge] = []

    def add(query: str, read: Iterable[InputSpec], target: GraphNode) -> None:
        sources = dict.fromkeys(source for each in read for source in _sources(each))
        found.extend(QueryEdge(spec.name, query, "in", each.kind, each.name) for each in sources)
        found.append(QueryEdge(spec.name, query, "out", target.kind, target.name))

    for output in spec.outputs:
        names = _reached(_start(spec, output, reads, inputs), reads)
        query = f"{spec.name}/{output.name}" if output.name else spec.name
        add(query, [each for name, each in inputs.items() if name in names], _target(output))
    for given in spec.inputs:
        if given.dead_letters is not None:
            add(dead_letters_query(given.name), [given], GraphNode("dead", given.dead_letters))
    return found


def dead_letters_query(name: str) -> str:
    """What the query is called that writes an input's dead letters."""
    return f"dead letters of {name}"


def _reached(name: str, reads: Mapping[str, Collection[str]]) -> set[str]:
    """All that a view reads, and what those read."""
    found: set[str] = set()
    left = [name]
    while left:
        each = left.pop()
        if each not in found:
            found.add(each)
            left += reads.get(each, ())
    return found


def _start(spec: PipelineSpec, output: OutputSpec, reads: Collection[str], inputs: Collection[str]) -> str:
    """The view, query or input whose rows an output gets."""
    return output.source if output.source in {*reads, *inputs} else QUERY if spec.is_python else ""


def _query(spec: PipelineSpec, name: str) -> GraphNode:
    return GraphNode("query", spec.name if name in ("", QUERY) else f"{spec.name}/{name}")


def _sources(given: InputSpec) -> list[GraphNode]:
    if given.files_kind is not None:
        return [GraphNode("files", given.path)]
    return [
        GraphNode("feed", each) for each in ([given.pattern] if given.pattern else given.topics.split(","))
    ]


def _target(output: OutputSpec) -> GraphNode:
    if output.kind == "feed":
        return GraphNode("feed", output.place)
    if output.kind in ("feeds", "console"):
        return GraphNode("table", output.kind if output.kind == "console" else "feeds by topic")
    return GraphNode("table", output.place)


# Drawings


def as_text(graph: Graph) -> list[str]:
    """A line for each way of rows: `feed a, feed b ─► query ─► feed c`, queries in order of columns."""
    into: dict[GraphNode, list[GraphNode]] = {}
    out_of: dict[GraphNode, list[GraphNode]] = {}
    for source, target in graph.edges:
        into.setdefault(target, []).append(source)
        out_of.setdefault(source, []).append(target)
    lines = []
    for column in graph.columns():
        for node in column:
            if node.kind == "query":
                lines += _block(node.label, into.get(node, []), out_of.get(node, []))
            else:
                lines += [
                    f"{node.label} ─► {each.label}" for each in out_of.get(node, ()) if each.kind != "query"
                ]
    return lines


def _block(label: str, sources: Sequence[GraphNode], targets: Sequence[GraphNode]) -> list[str]:
    """Sources on the left, the query in the middle, targets on the right."""
    left, right = [each.label for each in sources], [each.label for each in targets]
    rows = max(len(left), len(right), 1)
    width = max(map(len, left), default=0)
    lines = []
    for at in range(rows):
        source = left[at] if at < len(left) else ""
        arrow = " ─► " if at == 0 and left else (" ─┘  " if at < len(left) else "    ")[:4]
        middle = f"[ {label} ]" if at == 0 else " " * (len(label) + 4)
        target = f" {'─' if at == 0 else '└'}► {right[at]}" if at < len(right) else ""
        lines.append(f"{source:<{width}}{arrow}{middle}{target}".rstrip())
    return lines


def as_svg(graph: Graph) -> str:
    """A picture for a page; long names are cut, and are whole where the mouse is."""
    columns = graph.columns()
    places: dict[GraphNode, tuple[int, int]] = {}
    for x, column in enumerate(columns):
        for y, node in enumerate(column):
            places[node] = _MARGIN + x * (_WIDTH + _GAP_X), _MARGIN + y * (_HEIGHT + _GAP_Y)
    rows = max(map(len, columns), default=1)
    width = 2 * _MARGIN + len(columns) * (_WIDTH + _GAP_X) - _GAP_X
    height = 2 * _MARGIN + rows * (_HEIGHT + _GAP_Y) - _GAP_Y
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">'
    )
    parts = [
        head,
        _TIP,
        *(_edge_svg(places, source, target) for source, target in graph.edges),
        *(_node_svg(node, at) for node, at in places.items()),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _edge_svg(places: Mapping[GraphNode, tuple[int, int]], source: GraphNode, target: GraphNode) -> str:
    (x1, y1), (x2, y2) = places[source], places[target]
    x1, y1, y2 = x1 + _WIDTH, y1 + _HEIGHT // 2, y2 + _HEIGHT // 2
    bend = max(_GAP_X // 2, abs(x2 - x1) // 2)
    return (
        f'<path d="M{x1} {y1}C{x1 + bend} {y1} {x2 - bend} {y2} {x2} {y2}" fill="none" stroke="#6b7280" '
        'marker-end="url(#tip)"/>'
    )


def _node_svg(node: GraphNode, at: tuple[int, int]) -> str:
    x, y = at
    label = node.label if len(node.label) <= _CHARS_MAX else node.label[: _CHARS_MAX - 1] + "…"
    middle = x + _WIDTH // 2
    return (
        f"<g><title>{escape(node.label)}</title>"
        f'<rect x="{x}" y="{y}" width="{_WIDTH}" height="{_HEIGHT}" rx="6" fill="{_COLOURS[node.kind]}" '
        f'stroke="#6b7280"/><text x="{middle}" y="{y + _HEIGHT // 2 + 4}" text-anchor="middle">'
        f"{escape(label)}</text></g>"
    )
