// Keys and values as they are seen: JSON, text or bytes. All of it is text in the page, and never more.

import { h, visible } from "../dom.js";
import { bytes } from "../format.js";

const PREVIEW = 220;
const NODES_MAX = 4000;

/** One line of a key or a value. */
export function preview(payload) {
  if (!payload) return h("span", { class: "quiet" }, "null");
  if (payload.kind === "bytes") return [h("span", { class: "badge" }, payload.schema === undefined ? "bytes" : `schema ${payload.schema}`), h("span", { class: "mono" }, hexLine(payload.data, 24))];
  if (payload.masked && payload.kind === "text") return h("span", { class: "badge" }, "hidden");
  if (!payload.data) return h("span", { class: "quiet" }, "empty");
  return h("span", { class: "mono" }, visible(payload.data.slice(0, PREVIEW).replace(/\s+/g, " ")), payload.data.length > PREVIEW ? "…" : "");
}

/** The whole of it, with a choice of how it is read. */
export function view(payload, label, context) {
  if (!payload) return h("p", { class: "quiet" }, "null");
  const content = h("div");
  const kinds = payload.kind === "json" ? ["json", "text", "hex"] : payload.kind === "text" ? ["text", "hex"] : ["hex", "text"];
  if (payload.masked) kinds.pop(); // there are no bytes to see
  const buttons = kinds.map((kind) => h("button", { type: "button", onclick: () => draw(kind) }, kind.toUpperCase()));
  function draw(kind) {
    buttons.forEach((each, at) => each.setAttribute("aria-pressed", String(kinds[at] === kind)));
    content.replaceChildren(kind === "json" ? jsonView(payload.data) : kind === "hex" ? hexView(bytesOf(payload)) : h("pre", { tabindex: "0", "aria-label": label }, visible(textOf(payload))));
  }
  draw(kinds[0]);
  return h("div", { class: "payload" },
    h("div", { class: "payload-bar" }, h("div", { class: "choice", role: "group", "aria-label": `How the ${label} is shown` }, buttons), h("span", { class: "quiet" }, bytes(payload.size), payload.cut ? ", cut short here" : ""),
      payload.schema !== undefined && schemaName(payload.schema, context), payload.masked && h("span", { class: "badge" }, "partly hidden"),
      h("button", { type: "button", class: "linklike", onclick: (event) => copy(textOf(payload), event.target) }, "copy")),
    payload.error && h("p", { class: "late" }, `It is not read by its schema: ${visible(payload.error)}`),
    content);
}

const schemaName = (schema, context) => {
  const name = `schema ${visible(schema)}`;
  return context && typeof schema === "number" ? h("a", { class: "badge", href: context.link("schemas", "id", String(schema)) }, name) : h("span", { class: "badge" }, name);
};

async function copy(text, button) {
  await navigator.clipboard.writeText(text);
  button.textContent = "copied";
}

export const textOf = (payload) => (payload.kind === "bytes" ? new TextDecoder().decode(bytesOf(payload)) : payload.data);
export const bytesOf = (payload) => (payload.raw !== undefined ? fromBase64(payload.raw) : payload.kind === "bytes" ? fromBase64(payload.data) : new TextEncoder().encode(payload.data));
const fromBase64 = (text) => Uint8Array.from(atob(text), (each) => each.charCodeAt(0));
const hex = (byte) => byte.toString(16).padStart(2, "0");
const hexLine = (base64, most) => { const found = fromBase64(base64.slice(0, Math.ceil(most / 3) * 4)); return `${[...found].map(hex).join(" ")}${base64.length > most * 1.4 ? "…" : ""}`; };

function hexView(data) {
  const lines = [];
  for (let at = 0; at < Math.min(data.length, 8192); at += 16) {
    const row = [...data.slice(at, at + 16)];
    const text = row.map((byte) => (byte >= 32 && byte < 127 ? String.fromCharCode(byte) : "·")).join("");
    lines.push(`${at.toString(16).padStart(6, "0")}  ${row.map(hex).join(" ").padEnd(47)}  ${text}`);
  }
  if (data.length > 8192) lines.push(`… ${data.length - 8192} bytes more`);
  return h("pre", { class: "hex", tabindex: "0", "aria-label": "bytes" }, lines.join("\n"));
}

function jsonView(text) {
  let value;
  try {
    value = JSON.parse(text, exactly);
  } catch {
    return h("pre", { tabindex: "0", "aria-label": "text" }, visible(text));
  }
  const made = h("pre", { class: "json", tabindex: "0", "aria-label": "JSON" });
  const left = { nodes: NODES_MAX };
  write(made, value, "", left);
  return left.nodes > 0 ? made : h("pre", { tabindex: "0", "aria-label": "JSON" }, visible(JSON.stringify(JSON.parse(text), null, 2)));
}

// A number that JavaScript would round is kept as it was written.
const exactly = (name, value, given) => (typeof value === "number" && given?.source !== undefined && given.source !== JSON.stringify(value) ? Symbol(given.source) : value);

function write(to, value, indent, left) {
  left.nodes -= 1;
  if (left.nodes <= 0) return;
  if (Array.isArray(value) || (value && typeof value === "object")) {
    const entries = Array.isArray(value) ? value.map((each) => [null, each]) : Object.entries(value);
    const [open, close] = Array.isArray(value) ? "[]" : "{}";
    if (!entries.length) { to.append(open + close); return; }
    to.append(`${open}\n`);
    entries.forEach(([name, each], at) => {
      to.append(`${indent}  `);
      if (name !== null) to.append(h("span", { class: "j-key" }, visible(JSON.stringify(name))), ": ");
      write(to, each, `${indent}  `, left);
      to.append(at < entries.length - 1 ? ",\n" : "\n");
    });
    to.append(indent + close);
  } else {
    const kind = value === null ? "null" : typeof value === "symbol" ? "number" : typeof value;
    to.append(h("span", { class: `j-${kind}` }, visible(typeof value === "symbol" ? value.description : JSON.stringify(value))));
  }
}
