// Pipelines that run: a graph of feeds, queries and tables with what goes through them, figures, and dead letters.

import { Chart, sparkline } from "../chart.js";
import { h, redraw, replace, svg, visible } from "../dom.js";
import { bytes, compact, count, duration, rate } from "../format.js";
import { plainTable } from "../table.js";
import { deadLetters } from "./letters.js";

const [WIDTH, HEIGHT, GAP_X, GAP_Y, MARGIN] = [212, 62, 64, 18, 8];
const CHARS = 25;
const QUIET_MS = 60000;
const FLOW_MS = 1200; // as in console.css

export async function pipelines(context) {
  const { api, title, link } = context;
  title("Pipelines");
  const content = h("div");
  const graph = h("div", { class: "scroller graph-box", tabindex: "0", role: "region", "aria-label": "Graph of feeds and queries" });
  const chart = new Chart({ label: "Rows read a second", format: rate, waiting: "The line begins when batches have ended." });
  const letters = h("div");
  const intro = h("div");
  let shownLetters = "";

  async function refresh() {
    const found = await api.get("pipelines");
    redraw(intro, introOf(found));
    graph.hidden = chart.element.parentNode.hidden = !found.queries.length;
    if (found.queries.length) {
      const made = layout(found);
      redraw(graph, draw(made, found, link));
      const [times, values] = together(found.queries);
      chart.set(times, values);
    }
    redraw(content, found.queries.length ? [h("h2", {}, "Queries"), figures(found), rules(found)] : []);
    if (shownLetters !== found.dead.join()) {
      shownLetters = found.dead.join();
      replace(letters, found.dead.map((topic) => deadLetters(context, topic)));
    }
  }

  const card = h("section", { class: "card" }, h("h2", {}, "Rows read a second"), chart.element);
  await refresh();
  return {
    element: h("div", {}, h("h1", {}, "Pipelines"), intro, graph, card, content, letters),
    refresh, start: () => chart.start(), stop: () => chart.stop(),
  };
}

function introOf(found) {
  const lost = found.runs.filter((each) => each.error);
  const standing = found.alerts.filter((each) => each.stands);
  return [
    lost.map((each) => h("p", { class: "gaps" }, `The run at ${visible(each.url)} does not answer: ${visible(each.error)}. What is shown of it is old.`)),
    standing.length ? h("ul", { class: "troubles card" }, standing.map((each) => h("li", { class: "error" }, h("span", { class: "dot bad", "aria-hidden": "true" }),
      h("div", {}, h("strong", {}, visible(each.pipeline)), h("p", {}, h("span", { class: "level" }, "Alert: "), visible(each.alert)))))) : [],
    found.hidden ? h("p", { class: "gaps" }, `Not shown: ${count(found.hidden)} whose feeds you have no right to see.`) : [],
    found.queries.length ? [] : h("div", { class: "empty" },
      h("p", {}, found.is_configured ? "No pipeline is running at the addresses that the console reads." : "The console reads no /metrics."),
      h("p", { class: "quiet" }, "A run tells of itself, and the console shows it:"),
      h("pre", { tabindex: "0" }, "headrace pipeline run errors.sql --metrics 127.0.0.1:9500\nheadrace console --metrics http://127.0.0.1:9500/metrics")),
  ];
}

/** Nodes in columns, by the longest way that leads to each. */
function layout(found) {
  const nodes = new Map();
  const node = (kind, name, more) => {
    const id = `${kind === "query" ? "query" : kind === "table" || kind === "files" ? kind : "feed"}:${name}`;
    if (!nodes.has(id)) nodes.set(id, { id, kind, name, into: [], ...more });
    return nodes.get(id);
  };
  const edges = [];
  for (const each of found.queries) node("query", each.query, { state: each });
  for (const each of found.edges) {
    const query = nodes.get(`query:${each.query}`);
    if (!query) continue;
    const other = node(each.kind, each.name);
    if (each.kind === "dead") other.kind = "dead";
    const [from, to] = each.direction === "in" ? [other, query] : [query, other];
    to.into.push(from);
    edges.push({ from, to, state: query.state });
  }
  const depth = (each, seen) => {
    if (each.depth !== undefined) return each.depth;
    const before = each.into.filter((one) => !seen.has(one)).map((one) => depth(one, new Set([...seen, one])));
    each.depth = before.length ? Math.max(...before) + 1 : 0;
    return each.depth;
  };
  const columns = [];
  for (const each of nodes.values()) (columns[depth(each, new Set([each]))] ??= []).push(each);
  const rows = Math.max(...columns.map((each) => each?.length ?? 0));
  columns.forEach((column, x) => {
    // Beside what leads to it, so that lines cross as little as can be.
    const middle = (each) => (each.into.length ? each.into.reduce((sum, one) => sum + (one.y ?? 0), 0) / each.into.length : 0);
    if (x) column.sort((one, other) => middle(one) - middle(other));
    const top = ((rows - column.length) * (HEIGHT + GAP_Y)) / 2;
    column.forEach((each, y) => { each.x = MARGIN + x * (WIDTH + GAP_X); each.y = MARGIN + top + y * (HEIGHT + GAP_Y); });
  });
  return { nodes: [...nodes.values()], edges, width: 2 * MARGIN + columns.length * (WIDTH + GAP_X) - GAP_X, height: 2 * MARGIN + rows * (HEIGHT + GAP_Y) - GAP_Y };
}

function draw({ nodes, edges, width, height }, found, link) {
  const lines = edges.map(({ from, to, state }) => {
    const [x1, y1, x2, y2] = [from.x + WIDTH, from.y + HEIGHT / 2, to.x, to.y + HEIGHT / 2];
    const bend = Math.max(24, (x2 - x1) / 2);
    const flows = (from.kind === "query" ? state.rate_out ?? state.rate_in : state.rate_in) > 0;
    const line = svg("path", { class: `edge${flows ? " flows" : ""}`, d: `M${x1},${y1} C${x1 + bend},${y1} ${x2 - bend},${y2} ${x2},${y2}` });
    if (flows) line.style.animationDelay = `${-(performance.now() % FLOW_MS)}ms`; // it flows on where it was
    return line;
  });
  const boxes = nodes.map((each) => {
    const feed = found.feeds[each.name];
    const [first, second] = each.kind === "query" ? queryLines(each.state, found.taken) : each.kind === "table" || each.kind === "files" ? [each.kind, ""] : [`${each.kind === "dead" ? "dead letters" : "feed"}`, feed ? `${rate(feed.rate)} · ${compact(feed.records)} records` : "not there yet"];
    const label = `${each.kind === "query" ? "query" : first} ${visible(each.name)}: ${each.kind === "query" ? `${first}, ${second}` : second}`;
    const box = svg("g", { transform: `translate(${each.x} ${each.y})`, class: `node ${each.kind}${each.kind === "query" && isQuiet(each.state, found.taken) ? " quiet-query" : ""}` },
      svg("title", {}, label),
      svg("rect", { width: WIDTH, height: HEIGHT, rx: each.kind === "query" ? 10 : 4 }),
      svg("text", { x: 12, y: 24, class: "node-name" }, cut(visible(each.name))),
      svg("text", { x: 12, y: 46, class: "node-figure" }, each.kind === "query" ? `${first} · ${second}` : [first, second].filter(Boolean).join(" · ")));
    return each.kind === "feed" || each.kind === "dead" ? svg("a", { href: link("topics", each.name), "data-id": each.id }, box) : box;
  });
  return svg("svg", { class: "graph", width, height, viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": "Feeds, queries and tables" }, lines, boxes);
}

function queryLines(state, taken) {
  if (state.batches === undefined) return ["no batch yet", "waiting"];
  return [rate(state.rate_in), isQuiet(state, taken) ? `quiet for ${duration(taken - state.batch_at)}` : state.lag === undefined ? `batch ${seconds(state.batch_seconds)}` : `lag ${compact(state.lag)} · ${seconds(state.batch_seconds)}`];
}

const isQuiet = (state, taken) => state.batches !== undefined && state.batch_at !== null && taken - state.batch_at > QUIET_MS;
const cut = (text) => (text.length > CHARS ? `${text.slice(0, CHARS - 1)}…` : text);
const seconds = (value) => (value === undefined ? "–" : value < 10 ? `${value.toFixed(value < 1 ? 2 : 1)} s` : duration(value * 1000));

const twice = (value, more) => [value, more && h("small", { class: "quiet block" }, more)];

function figures(found) {
  return plainTable("Queries", [
    { title: "Query", class: "name", cell: (row) => [visible(row.query), row.pipeline !== row.query && h("span", { class: "badge" }, visible(row.pipeline))] },
    { title: "Rows in", number: true, cell: (row) => twice(rate(row.rate_in), row.rows_in === undefined ? null : `${compact(row.rows_in)} in all`) },
    { title: "Rows out", number: true, wide: true, cell: (row) => twice(rate(row.rate_out), row.rows_out === undefined ? null : `${compact(row.rows_out)} in all`) },
    { title: "Course", wide: true, cell: (row) => sparkline(row.course.slice(-60)) },
    { title: "Lag", number: true, cell: (row) => (row.lag === undefined ? "–" : h("span", { class: row.lag ? "late" : "well" }, compact(row.lag))) },
    { title: "Batches", number: true, wide: true, cell: (row) => count(row.batches) },
    { title: "Last batch", number: true, cell: (row) => twice(seconds(row.batch_seconds), row.batch_at === null ? null : `${duration(Math.max(0, found.taken - row.batch_at))} ago`) },
    { title: "State", number: true, wide: true, cell: (row) => twice(row.state_rows === undefined ? "–" : `${compact(row.state_rows)} rows`, row.state_bytes > 0 ? bytes(row.state_bytes) : null) },
    { title: "Bad", number: true, cell: (row) => h("span", { class: row.bad_rows ? "late" : "" }, compact(row.bad_rows)) },
    { title: "Late", number: true, wide: true, cell: (row) => compact(row.late_rows) },
  ], found.queries);
}

function rules(found) {
  const rows = found.queries.flatMap((each) => Object.entries(each.violations).map(([condition, rows]) => ({ query: each.query, condition, rows })));
  return rows.length ? [h("h2", {}, "Rows that were not as expected"), plainTable("Rows that were not as expected", [
    { title: "Condition", class: "name", cell: (row) => h("code", {}, visible(row.condition)) },
    { title: "Query", wide: true, cell: (row) => visible(row.query) },
    { title: "Rows", number: true, cell: (row) => count(row.rows) },
  ], rows)] : [];
}

/** All queries' courses as one, at the times of the one that is known longest. */
function together(queries) {
  const longest = queries.reduce((one, other) => (other.times.length > one.times.length ? other : one));
  const values = longest.times.map((_, at) => {
    const back = longest.times.length - at;
    const known = queries.map((each) => each.course[each.course.length - back]).filter((each) => each !== null && each !== undefined);
    return known.length ? known.reduce((sum, each) => sum + each, 0) : null;
  });
  return [longest.times, values];
}
