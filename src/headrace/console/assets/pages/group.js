// One group: lag over time, offsets by partition, members; moving offsets by a plan that is seen first.

import { Chart } from "../chart.js";
import { h, redraw, replace, visible } from "../dom.js";
import { ask, askByName, field, note } from "../dialogs.js";
import { compact, count, plural } from "../format.js";
import { plainTable } from "../table.js";
import { stateBadge } from "./groups.js";
import { settingsPanel } from "./settings.js";

export async function group({ api, args, link, title, readOnly, go, query, keep }) {
  const [name] = args;
  const path = `groups/${encodeURIComponent(name)}`;
  title(name);
  const chart = new Chart({ label: "Lag", format: compact });
  const figures = h("dl", { class: "figures" });
  const state = h("span");
  const offsets = h("div");
  const members = h("div");
  let found = null;

  async function refresh() {
    found = await api.get(path);
    const lag = found.offsets.reduce((sum, each) => sum + (each.lag ?? 0), 0);
    redraw(state, stateBadge(found.state));
    redraw(figures, [["Lag", h("span", { class: lag ? "late" : "well" }, count(lag))], ["Members", count(found.members.length)],
      ["Topics", count(new Set(found.offsets.map((each) => each.topic)).size)], ["Type", found.type.toLowerCase()], ["Assignor", found.protocol || "–"], ["Coordinator", found.coordinator]]
      .map(([label, value]) => h("div", {}, h("dt", {}, label), h("dd", {}, value))));
    chart.set(found.times, found.course);
    redraw(offsets, byTopic(found, link, readOnly ? null : forget));
    redraw(members, plainTable("Members", [
      { title: "Member", class: "name", cell: (row) => [h("span", { class: "mono" }, visible(row.client || "–")), h("small", { class: "quiet block" }, visible(row.instance ?? row.id))] },
      { title: "Host", cell: (row) => visible(row.host) },
      { title: "Partitions", class: "parts", cell: (row) => partsOf(row.partitions) },
    ], found.members, "Nobody is in the group now."));
  }

  // A group without members goes with the last that it has committed.
  function gone(error) {
    if (error.status !== 404) throw error;
    return go(link("groups"));
  }

  function forget(topic) {
    askByName({ title: "Delete offsets", what: "What the group has committed of this topic is forgotten for good. None of its members may read the topic now.", name: topic, action: "Delete offsets",
      act: async () => { await api.remove(`${path}/offsets/${encodeURIComponent(topic)}`, { confirm: topic }); note(`Group ${name} has forgotten ${topic}.`); await refresh().catch(gone); } });
  }

  const panel = settingsPanel({ load: () => api.get(`${path}/configs`), save: (body) => api.patch(`${path}/configs`, body), readOnly, address: { query, keep } });
  const settings = h("details", { class: "settings-of-group" }, h("summary", {}, h("h2", {}, "Settings")), panel.element);
  settings.addEventListener("toggle", () => { if (settings.open) panel.refresh().catch((error) => note(error.message, "bad")); });

  await refresh();
  const actions = readOnly ? [] : [
    h("button", { type: "button", class: "primary", onclick: () => resetDialog(api, path, name, found) }, "Reset offsets"),
    h("button", { type: "button", class: "danger", onclick: () => askByName({ title: "Delete group", what: "What the group has committed is forgotten for good. It must have no members.", name, action: "Delete group",
      act: async () => { await api.remove(path, { confirm: name }); note(`Group ${name} is deleted.`); go(link("groups")); } }) }, "Delete"),
  ];
  return {
    element: h("div", {},
      h("p", { class: "crumbs" }, h("a", { href: link("groups") }, "Groups")),
      h("div", { class: "title" }, h("h1", { class: "mono-title" }, visible(name)), state, h("span", { class: "grow" }), h("div", { class: "title-actions" }, actions)),
      figures,
      h("section", { class: "card" }, h("h2", {}, "Lag over time"), chart.element),
      h("section", {}, h("h2", {}, "Offsets"), offsets),
      h("section", {}, h("h2", {}, "Members"), members),
      settings),
    refresh, start: () => chart.start(), stop: () => chart.stop(),
  };
}

function partsOf(partitions) {
  const topics = new Map();
  for (const [topic, number] of partitions) topics.set(topic, [...(topics.get(topic) ?? []), number]);
  return [...topics].map(([topic, numbers]) => h("div", {}, visible(topic), h("span", { class: "quiet" }, ` ${numbers.join(", ")}`)));
}

function byTopic(found, link, forget) {
  const topics = new Map();
  for (const each of found.offsets) topics.set(each.topic, [...(topics.get(each.topic) ?? []), each]);
  if (!topics.size) return h("p", { class: "quiet" }, "The group has committed nothing.");
  const names = new Map(found.members.map((each) => [each.id, each.client || each.id]));
  return [...topics].map(([topic, rows]) => {
    const lag = rows.reduce((sum, each) => sum + (each.lag ?? 0), 0);
    return h("details", { class: "card topic-offsets", open: topics.size <= 3, "data-id": topic },
      h("summary", { "data-id": topic }, h("strong", {}, visible(topic)), h("span", { class: "quiet" }, plural(rows.length, "partition")), h("span", { class: "grow" }), h("span", { class: lag ? "late" : "well" }, count(lag))),
      plainTable(`Offsets of ${topic}`, [
        { title: "Partition", cell: (row) => row.partition },
        { title: found.type.toLowerCase() === "share" ? "Starts at" : "Committed", number: true, cell: (row) => count(row.committed) },
        { title: "End", number: true, cell: (row) => count(row.end) },
        { title: "Lag", number: true, cell: (row) => (row.lag === null ? "–" : h("span", { class: row.lag ? "late" : "well" }, count(row.lag))) },
        { title: "Read by", wide: true, cell: (row) => (row.member ? visible(names.get(row.member) ?? row.member) : h("span", { class: "quiet" }, "nobody")) },
      ], rows),
      h("p", { class: "topic-link" }, h("a", { href: link("topics", topic) }, "To the topic"),
        forget && rows.some((each) => each.committed !== null) && [" ", h("button", { type: "button", class: "linklike", "aria-label": `Delete offsets of ${topic}`, onclick: () => forget(topic) }, "delete offsets")]));
  });
}

function resetDialog(api, path, name, found) {
  const topics = [...new Set(found.offsets.map((each) => each.topic))];
  const which = h("select", {}, h("option", { value: "" }, "all that it has committed"), topics.map((each) => h("option", { value: each }, each)));
  const other = h("input", { placeholder: "or another topic", autocomplete: "off" });
  const target = h("select", { onchange: () => shapes() }, [["earliest", "the oldest record"], ["latest", "the end"], ["time", "a time"], ["offset", "an offset"], ["shift", "so many ahead or back"]].map(([value, text]) => h("option", { value }, text)));
  const moment = h("input", { type: "datetime-local", step: "1", "aria-label": "Time" });
  const number = h("input", { type: "number", "aria-label": "Number", value: 0 });
  const plan = h("div", { class: "plan" });
  let inputs = null;
  const shapes = () => { moment.hidden = target.value !== "time"; number.hidden = !["offset", "shift"].includes(target.value); replace(plan); inputs = null; };
  shapes();
  which.addEventListener("change", shapes);

  async function look() {
    const chosen = other.value.trim() || which.value;
    const body = { target: target.value, topics: chosen ? [chosen] : [] };
    if (target.value === "time") body.time = new Date(moment.value).getTime();
    if (target.value === "time" && !Number.isFinite(body.time)) throw new Error("Give a time.");
    if (target.value === "offset") body.offset = Number(number.value);
    if (target.value === "shift") body.by = Number(number.value);
    const made = await api.post(`${path}/plan`, body);
    inputs = made.changes.map((each) => ({ ...each, input: h("input", { type: "number", min: each.start, max: each.end, value: each.to, "aria-label": `New offset of ${each.topic} ${each.partition}` }) }));
    replace(plan, made.notes.map((each) => h("p", { class: "gaps" }, visible(each))),
      h("p", { class: "quiet" }, "Nothing has been changed yet. Each offset can be edited; Reset does what stands here."),
      plainTable("Plan", [
        { title: "Topic", cell: (row) => visible(row.topic) },
        { title: "Partition", number: true, cell: (row) => row.partition },
        { title: "From", number: true, cell: (row) => count(row.from) },
        { title: "To", number: true, cell: (row) => [row.input, row.wanted !== row.to && h("small", { class: "quiet block" }, `${count(row.wanted)} is out of range`)] },
      ], inputs, "There is nothing to move."));
    submit.textContent = inputs.length ? "Reset" : "Show the plan";
  }

  const dialog = ask({
    title: `Reset offsets of ${visible(name)}`, action: "Show the plan", wide: true,
    body: [field("Topics", which), field("", other), field("To", target), moment, number, plan],
    act: async () => {
      if (!inputs?.length) { await look(); return false; }
      await api.post(`${path}/offsets`, { offsets: inputs.map((each) => ({ topic: each.topic, partition: each.partition, to: Number(each.input.value) })) });
      note(`Group ${name} has been moved.`);
    },
  });
  const submit = dialog.querySelector("button[type=submit]");
  for (const each of [which, other, target, moment, number]) each.addEventListener("input", () => { replace(plan); inputs = null; submit.textContent = "Show the plan"; });
}
