// The first page: is all well, what is wrong now, and what goes on.

import { Chart, sparkline } from "../chart.js";
import { h, redraw, visible } from "../dom.js";
import { bytes, compact, count, plural, rate } from "../format.js";

export async function overview({ api, link, title }) {
  title("Overview");
  const health = h("section", { class: "health", "aria-label": "Health" });
  const figures = h("dl", { class: "figures" });
  const chart = new Chart({ label: "Records written a second", format: rate });
  const busy = h("div");
  const behind = h("div");
  const queries = h("div");
  const gaps = h("div");

  async function refresh() {
    const found = await api.get("overview");
    redraw(health, healthOf(found, link));
    redraw(gaps, gapsOf(found.gaps));
    redraw(figures, [
      ["Brokers", found.brokers_up === found.brokers ? count(found.brokers) : `${found.brokers_up} of ${found.brokers}`, link("brokers")],
      ["Topics", count(found.topics), link("topics")],
      ["Partitions", count(found.partitions), link("topics")],
      ["Groups", count(found.groups), link("groups")],
      ["On disk", bytes(found.bytes), link("brokers")],
      ["Written", rate(found.rate), link("topics")],
    ].map(([name, value, to]) => h("div", {}, h("dt", {}, name), h("dd", {}, h("a", { href: to }, value)))));
    chart.set(found.times.slice(1), found.rates);
    redraw(busy, listOf(found.busiest, "Nothing was written in the last seconds.", (each) =>
      [h("a", { href: link("topics", each.topic) }, visible(each.topic)), h("span", { class: "value" }, rate(each.rate))]));
    redraw(behind, listOf(found.behind, "There are no groups with committed offsets.", (each) =>
      [h("a", { href: link("groups", each.group) }, visible(each.group)), sparkline(each.course), h("span", { class: `value ${each.lag ? "late" : "well"}` }, compact(each.lag))]));
    queriesCard.hidden = !found.queries.length;
    groupsCard.hidden = !found.behind.length && found.queries.length > 0;
    redraw(queries, listOf(found.queries, "", (each) =>
      [h("a", { href: link("pipelines") }, visible(each.query)), sparkline(each.course), h("span", { class: "value" }, rate(each.rate)),
        each.lag !== null && h("span", { class: `value ${each.lag ? "late" : "well"}`, title: "Records behind" }, compact(each.lag))]));
  }

  const groupsCard = h("section", { class: "card" }, h("h2", {}, "Groups by lag"), behind);
  const queriesCard = h("section", { class: "card" }, h("h2", {}, "Pipelines: rows read, and lag"), queries);
  await refresh();
  return {
    element: h("div", {}, h("h1", {}, "Overview"), health, gaps, figures,
      h("section", { class: "card" }, h("h2", {}, "Records written a second"), chart.element),
      h("div", { class: "two" },
        h("section", { class: "card" }, h("h2", {}, "Busiest topics"), busy),
        groupsCard, queriesCard)),
    refresh,
    start: () => chart.start(),
    stop: () => chart.stop(),
  };
}

function healthOf(found, link) {
  if (!found.troubles.length) {
    return h("div", { class: "well" }, h("span", { class: "dot good", "aria-hidden": "true" }), h("div", {},
      h("strong", {}, "All is well."), " ",
      h("span", { class: "quiet" }, `${plural(found.brokers, "broker")}, ${plural(found.partitions, "partition")}, all in sync; controller ${found.controller}.`,
        found.reassignments ? ` ${plural(found.reassignments, "partition")} being moved.` : "")));
  }
  const errors = found.troubles.filter((each) => each.level === "error").length;
  return [
    h("p", { class: "headline" }, errors ? `${plural(errors, "thing")} broken` : "", errors && errors < found.troubles.length ? ", " : "",
      errors < found.troubles.length ? plural(found.troubles.length - errors, "warning") : ""),
    h("ul", { class: "troubles" }, found.troubles.slice(0, 20).map((each) => h("li", { class: each.level },
      h("span", { class: `dot ${each.level === "error" ? "bad" : "warn"}`, "aria-hidden": "true" }),
      h("div", {}, h("strong", {}, each.link ? h("a", { href: `${link()}${each.link}` }, visible(each.where)) : visible(each.where)),
        h("p", {}, h("span", { class: "level" }, each.level === "error" ? "Error: " : "Warning: "), visible(each.what)),
        h("p", { class: "quiet" }, "→ ", each.advice))))),
  ];
}

export function gapsOf(gaps) {
  return gaps.length ? h("div", { class: "gaps" }, gaps.map((each) => h("p", {}, "Not shown: ", visible(each)))) : [];
}

function listOf(rows, empty, parts) {
  return rows.length ? h("ul", { class: "list" }, rows.map((each) => h("li", {}, parts(each)))) : h("p", { class: "quiet" }, empty);
}
