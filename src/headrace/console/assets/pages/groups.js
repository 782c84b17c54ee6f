// All groups, with their lag and how it went.

import { changingRows } from "../api.js";
import { sparkline } from "../chart.js";
import { h, visible } from "../dom.js";
import { compact, count } from "../format.js";
import { Table } from "../table.js";

export const stateBadge = (state) => h("span", { class: `state ${{ Stable: "good", Empty: "idle", Dead: "bad" }[state] ?? "warn"}` }, state || "unknown");

export async function groups({ api, link, query, keep, title }) {
  title("Groups");
  const rows = changingRows(api, "groups", "group");
  const table = new Table({
    label: "Groups",
    search: { placeholder: "Search groups", text: (row) => row.group },
    address: { query, keep },
    empty: "There are no groups yet.",
    columns: [
      { id: "group", title: "Group", class: "name", sort: (row) => row.group, cell: (row) => h("a", { href: link("groups", row.group) }, visible(row.group)) },
      { id: "state", title: "State", sort: (row) => row.state, cell: (row) => stateBadge(row.state) },
      { id: "type", title: "Type", wide: true, sort: (row) => row.type, cell: (row) => row.type.toLowerCase() },
      { id: "topics", title: "Topics", number: true, wide: true, sort: (row) => row.topics, cell: (row) => count(row.topics) },
      { id: "coordinator", title: "Coordinator", number: true, wide: true, sort: (row) => row.coordinator, cell: (row) => row.coordinator },
      { id: "course", title: "Lately", wide: true, cell: (row) => sparkline(row.course) },
      { id: "lag", title: "Lag", number: true, sort: (row) => row.lag, cell: (row) => (row.lag === null ? h("span", { class: "quiet" }, "–") : h("span", { class: row.lag ? "late" : "well" }, compact(row.lag))) },
    ],
  });

  async function refresh() {
    table.setRows(await rows());
  }

  await refresh();
  return { element: h("div", {}, h("h1", {}, "Groups"), table.element), refresh, start: () => { table.start(); table.arrange(); }, stop: () => table.stop() };
}
