// One topic: messages, partitions, groups that read it, and its settings.

import { Chart } from "../chart.js";
import { h, redraw, replace, visible } from "../dom.js";
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
    redraw(figures, [["Partitions", count(found.partitions.length)], ["Replicas", count(Math.max(0, ...found.partitions.map((each) => each.replicas.length)))],
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
      h("button", { type: "button", onclick: () => elect(api, path) }, "Elect preferred leaders"),
      h("button", { type: "button", class: "danger", onclick: () => deleteBefore(api, path, name, found) }, "Delete old records"),
      h("button", { type: "button", class: "danger", onclick: () => askByName({ title: "Delete all records", what: "All records that the topic has now are gone for good. The topic stays.", name, action: "Delete records",
        act: async () => { await api.post(`${path}/delete-records`, { confirm: name }); note("The records are deleted."); } }) }, "Delete all records"),
      h("button", { type: "button", class: "danger", onclick: () => askByName({ title: "Delete topic", what: "The topic and all its records are gone for good.", name, action: "Delete topic",
        act: async () => { await api.remove(path, { confirm: name }); note(`Topic ${name} is deleted.`); go(link("topics")); } }) }, "Delete topic"))),
  ];

  return {
    element: h("div", {},
      h("p", { class: "crumbs" }, h("a", { href: link("topics") }, "Topics")),
      h("div", { class: "title" }, h("h1", { class: "mono-title" }, visible(name)), found.internal && h("span", { class: "badge" }, "internal"), h("span", { class: "grow" }), h("div", { class: "title-actions" }, actions)),
      figures,
      h("div", { class: "tabs", role: "tablist", "aria-label": "About the topic" }, TABS.map(([id, text]) =>
        h("a", { role: "tab", href: link("topics", name, id), "aria-selected": id === tab ? "true" : "false" }, text))),
      content),
    start: () => panel.start?.(),
    stop: () => panel.stop?.(),
    async refresh() {
      found = await api.get(path);
      draw();
      await panel.refresh?.();
    },
  };
}

async function panelOf(tab, context) {
  if (tab === "messages") return messagesPanel(context);
  if (tab === "keys") return (await import("./keys.js")).keysPanel(context);
  if (tab === "settings") {
    return settingsPanel({ load: () => context.api.get(`${context.path}/configs`), save: (body) => context.api.patch(`${context.path}/configs`, body), readOnly: context.readOnly, address: context });
  }
  return tab === "groups" ? groupsPanel(context) : partitionsPanel(context);
}

const TIERS_MS = 30000;

function partitionsPanel({ api, path, found }) {
  const table = h("div");
  const tiers = h("div");
  let looked = null;

  // They change slowly, and what the store holds is read from a topic: not asked each time.
  async function drawTiers() {
    if (looked !== null && performance.now() - looked < TIERS_MS) return;
    looked = performance.now();
    try {
      const told = await api.get(`${path}/tiers`);
      redraw(tiers, told.is_tiered ? tiersOf(told.partitions) : []);
    } catch (error) {
      redraw(tiers, h("p", { class: "gaps" }, "Tiers are not shown: ", visible(error.message)));
    }
  }

  const chart = new Chart({ label: "Records written a second", format: rate });
  const nodes = (list, missing) => list.map((each, at) => [at ? ", " : "", h("span", { class: missing?.includes(each) ? "late" : "" }, each)]);
  return {
    element: h("div", {}, h("section", { class: "card" }, h("h2", {}, "Records written a second"), chart.element), table, tiers),
    start: () => chart.start(),
    stop: () => chart.stop(),
    async refresh() {
      const topic = found();
      chart.set(topic.times.slice(1), topic.rates);
      redraw(table, plainTable("Partitions", [
        { title: "Partition", cell: (row) => row.number },
        { title: "Leader", cell: (row) => (row.leader < 0 ? h("span", { class: "badge bad" }, "none") : row.leader) },
        { title: "Replicas", cell: (row) => [nodes(row.replicas, row.replicas.filter((each) => !row.isr.includes(each))), row.moving && h("span", { class: "badge" }, "moving")] },
        { title: "In sync", wide: true, cell: (row) => [`${row.isr.length} of ${row.replicas.length}`, row.isr.length < row.replicas.length && h("span", { class: "badge bad" }, "not all")] },
        { title: "First offset", number: true, wide: true, cell: (row) => count(row.start) },
        { title: "End offset", number: true, cell: (row) => count(row.end) },
        { title: "Records", number: true, wide: true, cell: (row) => (row.end === null || row.start === null ? "–" : count(row.end - row.start)) },
        { title: "Size", number: true, wide: true, cell: (row) => bytes(row.bytes) },
      ], topic.partitions));
      await drawTiers();
    },
  };
}

function tiersOf(partitions) {
  const sum = (name) => partitions.reduce((total, each) => total + (each[name] ?? 0), 0);
  return [h("h2", {}, "Local and remote"),
    h("p", { class: "quiet" }, `${bytes(sum("local_bytes"))} on leaders' disks, ${bytes(sum("remote_bytes"))} in the remote store, ${bytes(sum("copy_lag_bytes"))} waiting to be copied at least.`),
    plainTable("Local and remote", [
      { title: "Partition", cell: (row) => row.partition },
      { title: "Local from", number: true, wide: true, cell: (row) => count(row.local_start) },
      { title: "Remote to", number: true, wide: true, cell: (row) => count(row.tiered_to) },
      { title: "Local", number: true, cell: (row) => bytes(row.local_bytes) },
      { title: "Remote", number: true, cell: (row) => bytes(row.remote_bytes) },
      { title: "Segments", number: true, wide: true, cell: (row) => count(row.remote_segments) },
      { title: "Only local", number: true, wide: true, cell: (row) => bytes(row.only_local_bytes) },
      { title: "Copy lag", number: true, cell: (row) => h("span", { class: row.copy_lag_bytes ? "late" : "well" }, bytes(row.copy_lag_bytes)) },
    ], partitions, "No partition has a leader.")];
}

function groupsPanel({ found, link }) {
  const table = h("div");
  return {
    element: table,
    refresh() {
      redraw(table, plainTable("Groups that read this topic", [
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

async function elect(api, path) {
  let plan;
  try {
    plan = (await api.get(`${path}/election`)).changes;
  } catch (error) {
    note(error.message, "bad");
    return;
  }
  const able = plan.filter((each) => each.in_sync);
  ask({
    title: "Elect preferred leaders", action: able.length ? "Elect" : undefined,
    body: [h("p", { class: "quiet" }, plan.length ? "Nothing has been changed yet. A first replica leads again where it is in sync." : "First replicas lead everywhere: there is nothing to do."),
      plan.length > 0 && plainTable("Plan", [
        { title: "Partition", cell: (row) => row.partition },
        { title: "Leads now", number: true, cell: (row) => (row.from < 0 ? "none" : row.from) },
        { title: "Leads then", number: true, cell: (row) => (row.in_sync ? row.to : h("span", { class: "quiet" }, `${row.to} is not in sync: left as it is`)) },
      ], plan)],
    act: async () => { await api.post(`${path}/elect`, { partitions: able.map((each) => each.partition) }); note("First replicas lead again."); },
  });
}

function deleteBefore(api, path, name, found) {
  const partition = h("select", {}, found.partitions.map((each) => h("option", { value: each.number }, `${each.number}: ${count(each.start)} to ${count(each.end)}`)));
  const offset = h("input", { type: "number", min: 0, required: true });
  const typed = h("input", { name: "confirm", autocomplete: "off", spellcheck: "false", required: true });
  ask({
    title: "Delete old records", action: "Delete records", danger: true,
    body: [h("p", {}, "The records before an offset of a partition are gone for good; those from it on stay."),
      field("Partition", partition, "With its first offset and its end."), field("Before offset", offset), h("label", {}, "Type ", h("code", {}, name), " to confirm", typed)],
    act: async () => {
      if (typed.value !== name) throw new Error("That is not the name.");
      const starts = (await api.post(`${path}/delete-records`, { confirm: name, before: { [partition.value]: Number(offset.value) } })).starts;
      note(`Partition ${partition.value} begins at ${count(starts[partition.value])} now.`);
    },
  });
}
