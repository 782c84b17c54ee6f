// All topics, with the lag of who is furthest behind in each.

import { changingRows } from "../api.js";
import { h, visible } from "../dom.js";
import { ask, field, note } from "../dialogs.js";
import { bytes, compact, count, rate } from "../format.js";
import { named, Table } from "../table.js";

export async function topics({ api, link, query, keep, go, title, readOnly }) {
  title("Topics");
  let all = [];
  const rows = changingRows(api, "topics", "name");
  const internal = h("input", { type: "checkbox", onchange: () => { table.setRows(chosen()); table.remember("internal", internal.checked ? "1" : ""); } });
  internal.checked = query.get("internal") === "1";
  const chosen = () => (internal.checked ? all : all.filter((each) => !each.internal));
  const table = new Table({
    label: "Topics",
    search: { placeholder: "Search topics", text: (row) => row.name },
    address: { query, keep },
    empty: "There are no topics yet.",
    tools: [h("label", { class: "check" }, internal, "internal"),
      !readOnly && h("button", { type: "button", class: "primary", onclick: () => createTopic(api, link, go) }, "New topic")],
    columns: [
      { id: "name", title: "Topic", class: "name", sort: (row) => row.name,
        cell: (row) => named(h("a", { href: link("topics", row.name) }, visible(row.name)), row.internal && h("span", { class: "badge" }, "internal"),
          row.unwell > 0 && h("span", { class: "badge bad" }, `${row.unwell} not in sync`)) },
      { id: "partitions", title: "Partitions", number: true, wide: true, sort: (row) => row.partitions, cell: (row) => count(row.partitions) },
      { id: "replication", title: "Replicas", number: true, wide: true, sort: (row) => row.replication, cell: (row) => count(row.replication) },
      { id: "records", title: "Records", number: true, sort: (row) => row.records, cell: (row) => compact(row.records) },
      { id: "rate", title: "Written", number: true, wide: true, sort: (row) => row.rate, cell: (row) => (row.rate ? rate(row.rate) : h("span", { class: "quiet" }, row.rate === null ? "–" : "0/s")) },
      { id: "bytes", title: "Size", number: true, wide: true, sort: (row) => row.bytes, cell: (row) => bytes(row.bytes) },
      { id: "groups", title: "Groups", number: true, wide: true, sort: (row) => row.groups, cell: (row) => (row.groups ? count(row.groups) : h("span", { class: "quiet" }, "–")) },
      { id: "lag", title: "Lag", number: true, sort: (row) => row.lag,
        cell: (row) => (row.lag === null ? h("span", { class: "quiet" }, "–") : h("span", { class: row.lag ? "late" : "well" }, compact(row.lag))) },
    ],
  });

  async function refresh() {
    all = await rows();
    table.setRows(chosen());
  }

  await refresh();
  return { element: h("div", {}, h("h1", {}, "Topics"), table.element), refresh, start: () => { table.start(); table.arrange(); }, stop: () => table.stop() };
}

function createTopic(api, link, go) {
  const name = h("input", { name: "name", required: true, maxlength: 249, pattern: "[a-zA-Z0-9._\\-]+", autocomplete: "off", spellcheck: "false" });
  const partitions = h("input", { type: "number", min: 1, placeholder: "the cluster's default" });
  const replication = h("input", { type: "number", min: 1, placeholder: "the cluster's default" });
  const policy = h("select", {}, h("option", { value: "" }, "the cluster's default"), ["delete", "compact", "compact,delete"].map((each) => h("option", { value: each }, each)));
  const retention = h("input", { type: "number", min: -1, step: "any", placeholder: "the cluster's default" });
  ask({
    title: "New topic", action: "Create",
    body: [field("Name", name, "Letters, digits, dots, dashes and underscores."), field("Partitions", partitions), field("Replicas", replication),
      field("Clean-up", policy, "compact keeps each key's last record."), field("Retention in hours", retention, "-1 keeps everything.")],
    act: async () => {
      const configs = {};
      if (policy.value) configs["cleanup.policy"] = policy.value;
      if (retention.value) configs["retention.ms"] = String(Number(retention.value) < 0 ? -1 : Math.round(Number(retention.value) * 3600000));
      await api.post("topics", { name: name.value, partitions: Number(partitions.value) || -1, replication: Number(replication.value) || -1, configs });
      note(`Topic ${name.value} is there.`);
      go(link("topics", name.value));
    },
  });
}
