// One topic: messages, partitions, groups that read it, and its settings.

import { Chart } from "../chart.js";
import { h, replace, visible } from "../dom.js";
import { ask, askByName, field, note } from "../dialogs.js";
import { bytes, compact, count, rate } from "../format.js";
import { plainTable } from "../table.js";
import { messagesPanel, produceDialog } from "./messages.js";
import { settingsPanel } from "./settings.js";

const TABS = [["messages", "Messages"], ["partitions", "Partitions"], ["groups", "Groups"], ["settings", "Settings"], ["keys", "Time travel"]];

export async function topic(context) {
  const { api, args, link, title, readOnly, go } = context;
  const [name, tab = "messages"] = args;
  title(name);
  const path = `topics/${encodeURIComponent(name)}`;
  const figures = h("dl", { class: "figures" });
  const content = h("div", { role: "tabpanel", "aria-label": tab });
  let found = await api.get(path);
  const panel = await panelOf(tab, { ...context, name, path, found: () => found });

  const draw = () => {
    const records = found.partitions.reduce((sum, each) => sum + Math.max(0, (each.end ?? 0) - (each.start ?? 0)), 0);
    replace(figures, [["Partitions", count(found.partitions.length)], ["Replicas", count(Math.max(0, ...found.partitions.map((each) => each.replicas.length)))],
      ["Records", compact(records)], ["Size", bytes(found.bytes)], ["Written", rate(found.rate)], ["Groups", count(found.groups.length)]]
      .map(([label, value]) => h("div", {}, h("dt", {}, label), h("dd", {}, value))));
  };
  draw();
  replace(content, panel.element);
  await panel.refresh?.();

  const actions = readOnly || found.internal ? [] : [
    h("button", { type: "button", class: "primary", onclick: () => produceDialog(context, name, found, {}) }, "Produce"),
    h("details", { class: "menu" }, h("summary", {}, "More"), h("div", {},
      h("button", { type: "button", onclick: () => morePartitions(api, path, found) }, "Add partitions"),
      h("button", { type: "button", onclick: async () => { try { await api.post(`${path}/elect`, {}); note("First replicas lead again."); } catch (error) { note(error.message, "bad"); } } }, "Elect preferred leaders"),
      h("button", { type: "button", class: "danger", onclick: () => askByName({ title: "Delete all records", what: "All records that the topic has now are gone for good. The topic stays.", name, action: "Delete records",
        act: async () => { await api.post(`${path}/delete-records`, { confirm: name }); note("The records are deleted."); } }) }, "Delete all records"),
      h("button", { type: "button", class: "danger", onclick: () => askByName({ title: "Delete topic", what: "The topic and all its records are gone for good.", name, action: "Delete topic",
        act: async () => { await api.remove(path, { confirm: name }); note(`Topic ${name} is deleted.`); go(link("topics")); } }) }, "Delete topic"))),
  ];

  return {
    element: h("div", {},
      h("p", { class: "crumbs" }, h("a", { href: link("topics") }, "Topics")),
      h("div", { class: "title" }, h("h1", { class: "mono-title" }, visible(name)), found.internal && h("span", { class: "badge" }, "internal"), h("span", { class: "grow" }), actions),
      figures,
      h("div", { class: "tabs", role: "tablist", "aria-label": "About the topic" }, TABS.map(([id, text]) =>
        h("a", { role: "tab", href: link("topics", name, id), "aria-selected": id === tab ? "true" : "false" }, text))),
      content),
    start: () => panel.start?.(),
    stop: () => panel.stop?.(),
    async refresh() {
      found = await api.get(path);
      draw();
      if (tab !== "settings") await panel.refresh?.();
    },
  };
}

async function panelOf(tab, context) {
  if (tab === "messages") return messagesPanel(context);
  if (tab === "keys") return (await import("./keys.js")).keysPanel(context);
  if (tab === "settings") {
    return settingsPanel({ load: () => context.api.get(`${context.path}/configs`), save: (body) => context.api.patch(`${context.path}/configs`, body), readOnly: context.readOnly });
  }
  return tab === "groups" ? groupsPanel(context) : partitionsPanel(context);
}

function partitionsPanel({ found }) {
  const table = h("div");
  const chart = new Chart({ label: "Records written a second", format: rate });
  const nodes = (list, missing) => list.map((each, at) => [at ? ", " : "", h("span", { class: missing?.includes(each) ? "late" : "" }, each)]);
  return {
    element: h("div", {}, h("section", { class: "card" }, h("h2", {}, "Records written a second"), chart.element), table),
    start: () => chart.start(),
    stop: () => chart.stop(),
    refresh() {
      const topic = found();
      chart.set(topic.times.slice(1), topic.rates);
      replace(table, plainTable("Partitions", [
        { title: "Partition", cell: (row) => row.number },
        { title: "Leader", cell: (row) => (row.leader < 0 ? h("span", { class: "badge bad" }, "none") : row.leader) },
        { title: "Replicas", cell: (row) => [nodes(row.replicas, row.replicas.filter((each) => !row.isr.includes(each))), row.moving && h("span", { class: "badge" }, "moving")] },
        { title: "In sync", wide: true, cell: (row) => [`${row.isr.length} of ${row.replicas.length}`, row.isr.length < row.replicas.length && h("span", { class: "badge bad" }, "not all")] },
        { title: "First offset", number: true, wide: true, cell: (row) => count(row.start) },
        { title: "End offset", number: true, cell: (row) => count(row.end) },
        { title: "Records", number: true, wide: true, cell: (row) => (row.end === null || row.start === null ? "–" : count(row.end - row.start)) },
        { title: "Size", number: true, wide: true, cell: (row) => bytes(row.bytes) },
      ], topic.partitions));
    },
  };
}

function groupsPanel({ found, link }) {
  const table = h("div");
  return {
    element: table,
    refresh() {
      replace(table, plainTable("Groups that read this topic", [
        { title: "Group", class: "name", cell: (row) => h("a", { href: link("groups", row.group) }, visible(row.group)) },
        { title: "State", cell: (row) => row.state },
        { title: "Lag", number: true, cell: (row) => h("span", { class: row.lag ? "late" : "well" }, count(row.lag)) },
      ], found().groups, "No group has committed offsets of this topic."));
    },
  };
}

function morePartitions(api, path, found) {
  const many = h("input", { type: "number", min: found.partitions.length + 1, value: found.partitions.length + 1, required: true });
  ask({
    title: "Add partitions", action: "Add",
    body: [h("p", { class: "quiet" }, "Records with a key may go to other partitions than before. A topic cannot get fewer again."), field("Partitions afterwards", many)],
    act: async () => { await api.post(`${path}/partitions`, { count: Number(many.value) }); note("The partitions are there."); },
  });
}
