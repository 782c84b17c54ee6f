// A schema registry: subjects, their versions and what is between two of them, compatibility, registering, deleting.

import { h, replace, visible } from "../dom.js";
import { ask, askByName, field, note } from "../dialogs.js";
import { difference } from "../difference.js";
import { Table } from "../table.js";

const KINDS = ["AVRO", "PROTOBUF", "JSON"];

export async function schemas(context) {
  const { api, args, link, title, readOnly, go, query, keep } = context;
  if (args[0] === "id") return schemaOfId(context, args[1]);
  title("Schemas");
  const first = await api.get("schemas");
  if (first.missing) return { element: h("div", {}, h("h1", {}, "Schemas"), h("p", { class: "gaps" }, first.missing)) };
  const able = first.can_change && !readOnly;
  const level = h("p", { class: "quiet" });
  const gaps = h("div");
  const table = new Table({
    label: "Subjects",
    search: { placeholder: "Search subjects", text: (row) => row.name },
    address: { query, keep },
    empty: "The registry has no subjects that you may see.",
    tools: [able && h("button", { type: "button", class: "primary", onclick: () => registerDialog(api, "", null, (name) => go(link("schemas", "subject", name))) }, "Register schema")],
    columns: [
      { id: "name", title: "Subject", class: "name", sort: (row) => row.name, cell: (row) => h("a", { href: link("schemas", "subject", row.name) }, visible(row.name)) },
      { id: "topic", title: "Topic", sort: (row) => row.topic, cell: (row) => (row.topic ? h("a", { href: link("topics", row.topic) }, visible(row.topic)) : "–") },
    ],
  });
  const draw = (found) => {
    table.setRows(found.subjects);
    replace(gaps, found.hidden > 0 && h("p", { class: "gaps" }, `${found.hidden} subjects are not shown: they are not named after topics that you may see.`));
    replace(level, `At ${visible(found.place)}. `, found.level && ["Subjects without a level of their own are ", h("strong", {}, found.level), ". ",
      able && h("button", { type: "button", class: "linklike", onclick: () => levelDialog(api, "schemas/level", "all subjects without a level of their own", found.level, null, refresh) }, "Change")]);
  };
  async function refresh() {
    draw(await api.get("schemas"));
  }
  draw(first);
  return { element: h("div", {}, h("h1", {}, "Schemas"), level, gaps, table.element), refresh, start: () => { table.start(); table.arrange(); }, stop: () => table.stop() };
}

export async function subject(context) {
  const { api, args, link, title, readOnly, go, query, keep } = context;
  const [name] = args;
  const path = `schemas/subjects/${encodeURIComponent(name)}`;
  title(name);
  let found = await api.get(path);
  const able = found.can_change && !readOnly;
  const known = new Map(found.newest ? [[found.newest.version, found.newest]] : []);
  const content = h("div", { role: "region", "aria-label": "Schema", tabindex: "0", class: "scroller" });
  const level = h("p", { class: "quiet" });
  const options = (chosen) => [...found.versions].reverse().map((each) => h("option", { value: each, selected: each === chosen }, `Version ${each}`));
  const asked = (key, other) => (found.versions.includes(Number(query.get(key))) ? Number(query.get(key)) : other);
  const shown = h("select", { "aria-label": "Version", onchange: draw }, options(asked("version", found.versions.at(-1))));
  const other = h("select", { "aria-label": "Compared with", onchange: draw }, h("option", { value: "" }, "not compared"), options(asked("with", null)));

  async function version(number) {
    if (!known.has(number)) known.set(number, await api.get(`${path}/versions/${number}`));
    return known.get(number);
  }

  async function draw() {
    keep(new URLSearchParams({ version: shown.value, ...(other.value ? { with: other.value } : {}) }));
    const own = await version(Number(shown.value));
    const before = other.value ? await version(Number(other.value)) : null;
    replace(content,
      h("p", { class: "quiet" }, `${own.kind}, schema `, h("a", { href: link("schemas", "id", String(own.id)) }, own.id),
        own.references.length > 0 && [", refers to ", own.references.map((each, at) => [at ? ", " : "", h("a", { href: `${link("schemas", "subject", each.subject)}?version=${Number(each.version)}` }, visible(each.name))])],
        before && `; beside version ${before.version}: lines with + came in version ${own.version}, lines with − are gone`),
      before ? difference(pretty(before), pretty(own)) : h("pre", { class: "schema" }, visible(pretty(own))));
  }

  const drawLevel = () => replace(level, "Compatibility: ", h("strong", {}, found.level ?? found.default_level ?? "not known"), found.level ? " " : ", the registry's own ",
    able && h("button", { type: "button", class: "linklike", onclick: () => levelDialog(api, `${path}/level`, name, found.level ?? found.default_level, found.level && found.default_level, again) }, "Change"));
  async function again() {
    found = await api.get(path);
    drawLevel();
  }
  drawLevel();
  if (found.versions.length) await draw();
  const reload = () => go(link("schemas", "subject", name));
  const actions = able ? [
    h("button", { type: "button", class: "primary", onclick: () => registerDialog(api, name, found.newest, reload) }, "New version"),
    h("details", { class: "menu" }, h("summary", {}, "More"), h("div", {},
      h("button", { type: "button", class: "danger", onclick: () => askByName({ title: `Delete version ${shown.value}`, what: "No new record can be written by this version's name. Records that have its id stay readable until the registry forgets it for good.", name, action: "Delete version",
        act: async () => { await api.remove(`${path}/versions/${shown.value}`, { confirm: name }); note("The version is deleted."); reload(); } }) }, "Delete this version"),
      h("button", { type: "button", class: "danger", onclick: () => askByName({ title: "Delete subject", what: "All of its versions are deleted. Records that have their ids stay readable until the registry forgets them for good.", name, action: "Delete subject",
        act: async () => { await api.remove(path, { confirm: name }); note(`Subject ${name} is deleted.`); go(link("schemas")); } }) }, "Delete subject")))] : [];
  return { element: h("div", {},
    h("p", { class: "crumbs" }, h("a", { href: link("schemas") }, "Schemas")),
    h("div", { class: "title" }, h("h1", { class: "mono-title" }, visible(name)), h("span", { class: "grow" }), actions),
    found.topic && h("p", {}, "Of topic ", h("a", { href: link("topics", found.topic) }, visible(found.topic))), level,
    h("div", { class: "bar" }, shown, other), content) };
}

async function schemaOfId({ api, link, title }, id) {
  title(`Schema ${id}`);
  const found = await api.get(`schemas/ids/${encodeURIComponent(id)}`);
  return { element: h("div", {},
    h("p", { class: "crumbs" }, h("a", { href: link("schemas") }, "Schemas")),
    h("h1", {}, `Schema ${found.id}`), h("p", { class: "quiet" }, found.kind),
    found.used.length > 0 && h("p", {}, "It is ", found.used.map((each, at) => [at ? ", " : "", h("a", { href: `${link("schemas", "subject", each.subject)}${each.version ? `?version=${each.version}` : ""}` }, `${visible(each.subject)}${each.version ? ` version ${each.version}` : ""}`)])),
    h("pre", { class: "schema", tabindex: "0", "aria-label": "Schema" }, visible(pretty(found))),
    found.references.map((each) => [h("h2", {}, visible(each.name)), h("pre", { class: "schema", tabindex: "0", "aria-label": each.name }, visible(pretty({ kind: found.kind, text: each.text })))])) };
}

/** JSON on many lines, anything else as it is. */
function pretty(schema) {
  if (schema.kind === "PROTOBUF") return schema.text;
  try {
    return JSON.stringify(JSON.parse(schema.text), null, 2);
  } catch {
    return schema.text;
  }
}

function levelDialog(api, path, whose, level, fallback, done) {
  const chosen = h("select", {}, ["BACKWARD", "BACKWARD_TRANSITIVE", "FORWARD", "FORWARD_TRANSITIVE", "FULL", "FULL_TRANSITIVE", "NONE"].map((each) => h("option", { value: each, selected: each === level }, each)),
    fallback && h("option", { value: "" }, `the registry's own, ${fallback}`));
  ask({ title: "Compatibility", action: "Change", body: [h("p", {}, "What a next version of ", h("strong", {}, visible(whose)), " must be."), field("Level", chosen)],
    act: async () => { await api.post(path, { level: chosen.value || null }); note("The level is changed."); await done(); } });
}

function registerDialog(api, name, newest, done) {
  const subjectName = h("input", { value: name, required: true, readonly: Boolean(name), autocomplete: "off", spellcheck: "false", placeholder: "orders-value", name: "subject" });
  const kind = h("select", {}, KINDS.map((each) => h("option", { value: each, selected: each === newest?.kind }, each)));
  const text = h("textarea", { rows: 14, required: true, spellcheck: "false", name: "text" });
  text.value = newest ? pretty(newest) : "";
  const verdict = h("p", { role: "status" });
  const given = () => ({ kind: kind.value, text: text.value, references: newest?.references ?? [] });
  const path = () => `schemas/subjects/${encodeURIComponent(subjectName.value.trim())}`;
  const look = async () => {
    try {
      const { misfits } = await api.post(`${path()}/check`, given());
      verdict.className = misfits.length ? "problem" : "well";
      replace(verdict, misfits.length ? misfits.map(visible).join("; ") : "It is compatible.");
    } catch (error) {
      verdict.className = "problem";
      replace(verdict, visible(error.message));
    }
  };
  ask({ title: name ? `New version of ${visible(name)}` : "Register schema", action: "Register", wide: true,
    body: [field("Subject", subjectName, "TOPIC-value or TOPIC-key for what a topic has"), field("Kind", kind), field("Schema", text),
      h("p", {}, h("button", { type: "button", onclick: look }, "Is it compatible?")), verdict],
    act: async () => {
      const made = await api.post(path(), given());
      note(`Schema ${made.id} is registered.`);
      done(subjectName.value.trim());
    } });
}
