// Transactional ids, what they have open, and ending what hangs.

import { h, visible } from "../dom.js";
import { ask, note } from "../dialogs.js";
import { duration, plural } from "../format.js";
import { Table } from "../table.js";

export async function transactions({ api, title, readOnly }) {
  title("Transactions");
  const table = new Table({
    label: "Transactions",
    search: { placeholder: "Search transactional ids", text: (row) => row.id },
    empty: "Nobody has used a transactional id yet.",
    sort: { id: "open", down: true },
    columns: [
      { id: "id", title: "Transactional id", class: "name", sort: (row) => row.id, cell: (row) => h("span", { class: "mono" }, visible(row.id)) },
      { id: "state", title: "State", sort: (row) => row.state, cell: (row) => [h("span", { class: `state ${row.open_ms === undefined ? "idle" : "warn"}` }, row.state), row.hangs && h("span", { class: "badge bad" }, "hangs")] },
      { id: "open", title: "Open for", number: true, sort: (row) => row.open_ms ?? -1, cell: (row) => (row.open_ms === undefined ? "–" : duration(row.open_ms)) },
      { id: "where", title: "In", wide: true, cell: (row) => (row.partitions ? h("span", { title: row.partitions.map((each) => each.join(" ")).join("\n") }, plural(row.partitions.length, "partition")) : "–") },
      { id: "producer", title: "Producer", number: true, wide: true, sort: (row) => row.producer, cell: (row) => row.producer },
      { id: "coordinator", title: "Coordinator", number: true, wide: true, sort: (row) => row.coordinator, cell: (row) => row.coordinator },
      ...(readOnly ? [] : [{ id: "act", title: "", cell: (row) => (row.open_ms === undefined ? "" : h("button", { type: "button", class: "linklike", onclick: () => abort(row) }, "abort")) }]),
    ],
  });

  function abort(row) {
    ask({ title: "Abort transaction", action: "Abort", danger: true,
      body: h("p", {}, "Whoever writes under ", h("code", {}, visible(row.id)), " is shut out, and what it has open is aborted."),
      act: async () => { await api.post("transactions/abort", { id: row.id }); note("It is aborted."); await refresh(); } });
  }

  async function refresh() {
    table.setRows((await api.get("transactions")).transactions);
  }

  await refresh();
  return { element: h("div", {}, h("h1", {}, "Transactions"), table.element), refresh, start: () => { table.start(); table.arrange(); }, stop: () => table.stop() };
}
