// Messages of a topic: from anywhere, filtered, live; each can be opened, saved, and produced again.

import { h, replace, visible } from "../dom.js";
import { ask, field, note } from "../dialogs.js";
import { bytes, count, time } from "../format.js";
import { bytesOf, preview, textOf, view } from "./payload.js";

const LIVE_MAX = 300;
const PAGE = 50;
const LOOK_MS = 60000; // so long a search goes on by itself

export function messagesPanel(context) {
  const { api, path, name, query, keep, found, readOnly } = context;
  const input = (label, id, more = {}) => h("input", { "aria-label": label, placeholder: label, value: query.get(id) ?? "", onchange: () => load(), ...more });
  const from = h("select", { "aria-label": "Begin at", onchange: () => { shapes(); load(); } },
    [["newest", "Newest first"], ["oldest", "From the oldest"], ["offset", "From an offset"], ["time", "From a time"], ["live", "Live"]].map(([value, text]) => h("option", { value, selected: value === (query.get("from") ?? "newest") }, text)));
  const offset = input("Offset", "offset", { type: "number" });
  const moment = h("input", { type: "datetime-local", step: "1", "aria-label": "Time", value: query.get("time") ? local(Number(query.get("time"))) : "", onchange: () => load() });
  const partition = h("select", { "aria-label": "Partition", onchange: () => load() }, h("option", { value: "" }, "All partitions"),
    found().partitions.map((each) => h("option", { value: each.number, selected: query.get("partition") === String(each.number) }, `Partition ${each.number}`)));
  const words = input("Search in key, value and headers", "q", { type: "search", class: "search" });
  const more = ["key", "value", "header", "json"].map((id) => input({ key: "Key contains", value: "Value contains", header: "Header, as name=word", json: "JSON, as user.age > 30" }[id], id));
  const committed = h("input", { type: "checkbox", onchange: () => load() });
  committed.checked = query.get("isolation") === "read_committed";
  const isFiltered = committed.checked || more.some((each) => each.value);
  const details = h("details", { class: "filters", open: isFiltered }, h("summary", {}, "Filters"),
    h("div", { class: "filter-grid" }, more, h("label", { class: "check" }, committed, "committed only")));
  const list = h("ol", { class: "messages", "aria-label": "Messages" });
  const status = h("p", { class: "quiet", role: "status" });
  const next = h("button", { type: "button", hidden: true, onclick: () => (looking ? stop() : load(true)) }, "Load more");
  const save = h("button", { type: "button", class: "plain", onclick: () => download(name, shown) }, "Download");
  let shown = [];
  let at = "";
  let events = null;
  let scanned = 0;
  let turn = 0;
  let looking = false;

  function shapes() {
    offset.hidden = from.value !== "offset";
    moment.hidden = from.value !== "time";
  }

  function chosen() {
    const made = new URLSearchParams();
    made.set("from", from.value);
    if (from.value === "offset" && offset.value !== "") made.set("offset", offset.value);
    if (from.value === "time" && moment.value) made.set("time", String(new Date(moment.value).getTime()));
    if (partition.value) made.set("partition", partition.value);
    if (words.value) made.set("q", words.value);
    ["key", "value", "header", "json"].forEach((id, index) => { if (more[index].value) made.set(id, more[index].value); });
    if (committed.checked) made.set("isolation", "read_committed");
    if (query.get("limit")) made.set("limit", query.get("limit"));
    return made;
  }

  async function load(isNext = false) {
    const asked = (turn += 1);
    const wanted = chosen();
    if (!isNext) {
      keep(wanted);
      replace(list);
      shown = [];
      at = "";
      scanned = 0;
    }
    events?.close();
    events = null;
    looking = false;
    if (from.value === "live") return follow(wanted);
    if (isNext) wanted.set("at", at);
    status.textContent = "Looking…";
    next.hidden = true;
    looking = true;
    try {
      const page = await search(wanted, asked);
      if (asked !== turn) return;
      next.hidden = page.is_done;
      next.textContent = shown.length ? "Load more" : "Search on";
      status.textContent = told(page);
    } catch (error) {
      if (asked === turn) status.textContent = error.message;
    }
    looking = false;
  }

  /** Piece by piece, until there is a page of what fits: what was found is shown at once. The last piece. */
  async function search(wanted, asked) {
    const until = performance.now() + LOOK_MS;
    const enough = shown.length + (Number(query.get("limit")) || PAGE);
    for (;;) {
      const page = await api.get(`${path}/messages?${wanted}`);
      if (asked !== turn) return page;
      at = page.at;
      scanned += page.scanned;
      add(page.records);
      if (page.is_done || shown.length >= enough || performance.now() > until) return page;
      wanted.set("at", at);
      status.textContent = `Looking… ${count(shown.length)} found among ${count(scanned)}.`;
      next.textContent = "Stop";
      next.hidden = false;
    }
  }

  function stop() {
    turn += 1;
    looking = false;
    next.textContent = "Search on";
    status.textContent = told({ is_done: false });
  }

  function told(page) {
    const searched = scanned > shown.length ? ` of ${count(scanned)} looked at` : "";
    if (!shown.length) return page.is_done ? (scanned ? `Nothing fits among ${count(scanned)} messages.` : "There are no messages here.") : `Nothing fits yet; ${count(scanned)} looked at.`;
    return `${count(shown.length)} shown${searched}${page.is_done ? "; that is all" : ""}.`;
  }

  function add(records, isLive = false) {
    const open = new Set();
    for (const each of records) {
      shown.push(each);
      const row = messageRow(each, { ...context, again: (record) => produceDialog(context, name, found(), record) }, open);
      if (isLive) list.prepend(row); else list.append(row);
    }
    if (isLive) {
      while (list.children.length > LIVE_MAX) list.lastChild.remove();
      shown = shown.slice(-LIVE_MAX);
    }
  }

  function follow(wanted) {
    let seen = 0;
    next.hidden = true;
    status.textContent = "Finding the end…";
    const source = (events = new EventSource(api.url(`${path}/tail?${wanted}`)));
    source.onmessage = (event) => {
      const page = JSON.parse(event.data);
      if (page.started) {
        status.textContent = "Waiting for messages…";
        return;
      }
      seen += page.scanned;
      add(page.records, true);
      status.textContent = `Live: ${count(seen)} came, the last ${count(shown.length)} that fit are shown.`;
    };
    source.onerror = () => { status.textContent = "The stream broke off; it is tried again."; };
  }

  shapes();
  return {
    element: h("div", {},
      h("form", { class: "bar messages-bar", onsubmit: (event) => { event.preventDefault(); load(); } }, from, offset, moment, partition, words, h("button", { type: "submit" }, "Search"), save),
      details, status, list, h("p", { class: "more" }, next)),
    start: () => load(),
    stop: () => { turn += 1; events?.close(); },
    readOnly,
  };
}

function messageRow(record, context) {
  const body = h("div", { class: "message-body" });
  const made = h("details", { class: "message" },
    h("summary", {},
      h("span", { class: "when" }, time(record.timestamp)),
      h("span", { class: "where" }, `${record.partition}:${record.offset}`),
      h("span", { class: "key" }, preview(record.key)),
      h("span", { class: "val" }, preview(record.value))),
    body);
  made.addEventListener("toggle", () => { if (made.open && !body.children.length) replace(body, messageBody(record, context)); });
  return h("li", {}, made);
}

function messageBody(record, context) {
  const { api, path, link, name, again, readOnly } = context;
  const place = `partition=${record.partition}&offset=${record.offset}`;
  return [
    h("div", { class: "message-actions" },
      h("a", { href: `${link("topics", name, "messages")}?from=offset&${place}&limit=1` }, "Link to this message"),
      h("a", { href: api.url(`${path}/value?${place}`), download: `${name}-${record.partition}-${record.offset}` }, "Save the value"),
      !readOnly && again && !isMasked(record) && h("button", { type: "button", class: "linklike", onclick: () => again(record) }, "Produce again")),
    h("h2", {}, "Key"), view(record.key, "key", context),
    h("h2", {}, "Value"), view(record.value, "value", context),
    record.headers.length ? [h("h2", {}, "Headers"), h("dl", { class: "headers" }, record.headers.map((each) => [h("dt", { class: "mono" }, visible(each.name)), h("dd", {}, preview(each.value))]))] : [],
  ];
}

const isMasked = (record) => [record.key, record.value, ...record.headers.map((each) => each.value)].some((each) => each?.masked);

export { messageRow };

function local(ms) {
  const at = new Date(ms - new Date(ms).getTimezoneOffset() * 60000);
  return at.toISOString().slice(0, 19);
}

/** What is shown, as lines of JSON. */
function download(name, records) {
  const lines = records.map((each) => JSON.stringify({
    partition: each.partition, offset: each.offset, timestamp: each.timestamp, key: plain(each.key), value: plain(each.value),
    headers: each.headers.map((header) => ({ key: header.name, value: plain(header.value) })),
  }));
  const made = URL.createObjectURL(new Blob([lines.join("\n"), "\n"], { type: "application/x-ndjson" }));
  const link = h("a", { href: made, download: `${name}.ndjson` });
  link.click();
  URL.revokeObjectURL(made);
}

const plain = (payload) => (!payload ? null : payload.kind === "bytes" ? { base64: payload.data } : payload.data);

export function produceDialog({ api, path = null, readOnly }, name, found, record) {
  if (readOnly) return;
  const at = path ?? `topics/${encodeURIComponent(name)}`;
  const hasBytes = (payload) => payload?.kind === "bytes";
  const base64 = (payload) => payload.raw ?? payload.data;
  const key = h("input", { value: record.key && !hasBytes(record.key) ? record.key.data : "", spellcheck: "false", autocomplete: "off" });
  const noKey = h("input", { type: "checkbox" });
  noKey.checked = !record.key;
  const value = h("textarea", { rows: 8, spellcheck: "false" });
  value.value = record.value ? textOf(record.value) : "";
  const noValue = h("input", { type: "checkbox" });
  noValue.checked = record.value === null;
  const headers = h("textarea", { rows: 2, spellcheck: "false", placeholder: "name=value, one a line" });
  const lineOf = (each) => (each.value ? `${each.name}=${textOf(each.value)}` : each.name);
  headers.value = (record.headers ?? []).map(lineOf).join("\n");
  const ownHeaders = new Map((record.headers ?? []).map((each) => [lineOf(each), each]));
  const partition = h("select", {}, h("option", { value: "" }, "by key"), found.partitions.map((each) => h("option", { value: each.number }, each.number)));
  const untouched = { key: key.value, value: value.value };
  // Bytes that were not touched are sent as they were, and not as the text that stands for them.
  const part = (payload, text, before, isNull) => {
    if (isNull) return null;
    const isAsItWas = text === before;
    if (payload?.raw !== undefined) return isAsItWas ? { base64: payload.raw } : { json: text, schema: payload.schema, like: payload.raw };
    return hasBytes(payload) && isAsItWas ? { base64: payload.data } : text;
  };
  const headerOf = (line) => {
    const own = ownHeaders.get(line);
    if (own?.value && hasBytes(own.value)) return { name: own.name, value: { base64: base64(own.value) } };
    const at = line.indexOf("=");
    return at < 0 ? { name: line, value: null } : { name: line.slice(0, at), value: line.slice(at + 1) };
  };
  key.addEventListener("input", () => { noKey.checked = false; });
  ask({
    title: `Produce to ${visible(name)}`, action: "Produce", wide: true,
    body: [
      field("Key", key, hasBytes(record.key) ? `${bytes(bytesOf(record.key).length)} that are no text: sent as they are unless you type` : ""), h("label", { class: "check" }, noKey, "no key"),
      field("Value", value, record.value?.raw === undefined ? "" : `Written by schema ${record.value.schema} where you change it`), h("label", { class: "check" }, noValue, "null: a tombstone"), field("Headers", headers), field("Partition", partition)],
    act: async () => {
      const written = await api.post(`${at}/messages`, {
        key: part(record.key, key.value, untouched.key, noKey.checked), value: part(record.value, value.value, untouched.value, noValue.checked),
        partition: partition.value === "" ? null : Number(partition.value),
        headers: headers.value.split("\n").filter((line) => line.trim()).map(headerOf),
      });
      note(`Written to partition ${written.partition} at offset ${written.offset}.`);
    },
  });
}
