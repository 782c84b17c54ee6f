// Transactional ids, what they have open, and ending what hangs: also what no coordinator knows.

import { h, redraw, visible } from "../dom.js";
import { ask, note } from "../dialogs.js";
import { count, duration, plural, time } from "../format.js";
import { plainTable, Table } from "../table.js";

export async function transactions({ api, link, query, keep, title, readOnly }) {
  title("Transactions");
  const table = new Table({
    label: "Transactions",
    search: { placeholder: "Search transactional ids", text: (row) => row.id },
    address: { query, keep },
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

  const hanging = h("div");

  function drawHanging(found) {
    redraw(hanging, plainTable("Transactions that hang", [
      { title: "Partition", class: "name", cell: (row) => h("a", { href: link("topics", row.topic, "partitions") }, `${visible(row.topic)} ${row.partition}`) },
      { title: "Producer", number: true, cell: (row) => row.producer },
      { title: "Since offset", number: true, cell: (row) => count(row.start) },
      { title: "Last written", wide: true, cell: (row) => time(row.written) },
      !readOnly && { title: "", cell: (row) => h("button", { type: "button", class: "linklike", onclick: () => abortHanging(row) }, "abort") },
    ].filter(Boolean), found.hanging, found.looked === null ? "Nobody has looked for them yet." : `None was found at ${time(found.looked)}.`));
  }

  function abortHanging(row) {
    ask({ title: "Abort hanging transaction", action: "Abort", danger: true,
      body: h("p", {}, `What producer ${row.producer} has written to ${visible(row.topic)} ${row.partition} since offset ${row.start} is aborted, and readers of committed records go on behind it. No coordinator knows of it now.`),
      act: async () => {
        drawHanging(await api.post("transactions/abort-hanging", { topic: row.topic, partition: row.partition, producer: row.producer, start: row.start }));
        note("It is aborted.");
      } });
  }

  async function look() {
    try {
      drawHanging(await api.get("transactions/hanging"));
    } catch (error) {
      note(error.message, "bad");
    }
  }

  async function refresh() {
    const found = await api.get("transactions");
    table.setRows(found.transactions);
    drawHanging(found);
  }

  await refresh();
  return { element: h("div", {}, h("h1", {}, "Transactions"), table.element,
    h("section", {}, h("div", { class: "title" }, h("h2", {}, "Hanging"), h("span", { class: "grow" }), h("button", { type: "button", onclick: look }, "Look now")),
      h("p", { class: "quiet" }, "Open in a partition, and unknown to every coordinator: only a marker written by hand ends them."), hanging)), refresh, start: () => { table.start(); table.arrange(); }, stop: () => table.stop() };
}
