// Builds the page out of elements and text. Nothing that comes from a cluster is ever read as markup: children are
// nodes or texts, and the page's policy (Trusted Types) forbids the other ways.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, properties, children) {
  for (const [name, value] of Object.entries(properties ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "value" || name === "checked" || name === "disabled" || name === "selected") element[name] = value;
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  append(element, children);
  return element;
}

export function append(element, children) {
  for (const child of children.flat(Infinity)) {
    if (child === undefined || child === null || child === false) continue;
    element.append(child instanceof Node ? child : String(child));
  }
}

/** An element: h("a", {href: "/", onclick: go}, "Home"). */
export function h(tag, properties, ...children) {
  return fill(document.createElement(tag), properties, children);
}

/** The same for parts of a drawing. */
export function svg(tag, properties, ...children) {
  return fill(document.createElementNS(SVG, tag), properties, children);
}

export function replace(element, ...children) {
  element.replaceChildren();
  append(element, children);
  return element;
}

const STAYS = ["href", "aria-label", "data-id"];
const nameOf = (node) => STAYS.map((each) => node.getAttribute(each)).find(Boolean) ?? node.textContent;

function like(element, node) {
  const name = nameOf(node);
  return [...element.querySelectorAll(node.tagName)].find((each) => nameOf(each) === name);
}

/**
 * New contents of what is drawn every few seconds. What is as it was is not touched, and what somebody is at stays: the
 * focus, what was opened or closed, how far something is scrolled, and a text that is being selected.
 */
export function redraw(element, ...children) {
  const made = element.cloneNode(false);
  append(made, children);
  for (const each of element.querySelectorAll("details[data-id]")) {
    const next = made.querySelector(`details[data-id="${CSS.escape(each.dataset.id)}"]`);
    if (next) next.open = each.open;
  }
  if (made.isEqualNode(element)) return element;
  const selection = getSelection();
  if (!selection.isCollapsed && selection.containsNode(element, true)) return element;
  const focused = element.contains(document.activeElement) && element !== document.activeElement ? document.activeElement : null;
  const scrolled = [...element.querySelectorAll(".scroller")].map((each) => each.scrollLeft);
  element.replaceChildren(...made.childNodes);
  element.querySelectorAll(".scroller").forEach((each, at) => { each.scrollLeft = scrolled[at] ?? 0; });
  if (focused) like(element, focused)?.focus({ preventScroll: true });
  return element;
}

// Characters that are not seen, or turn what is around them, are shown as what they are.
const HIDDEN = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;

const CONTROLS = ("NUL SOH STX ETX EOT ENQ ACK BEL BS HT LF VT FF CR SO SI DLE DC1 DC2 DC3 DC4 NAK SYN ETB CAN EM SUB ESC "
  + "FS GS RS US").split(" ");

/** A text that a cluster has sent, with its invisible characters made visible. */
export function visible(text) {
  return String(text).replace(HIDDEN, (found) => {
    const code = found.charCodeAt(0);
    if (code < 32) return `\u27e8${CONTROLS[code]}\u27e9`;
    return `\u27e8U+${code.toString(16).toUpperCase().padStart(4, "0")}\u27e9`;
  });
}

export function icon(name) {
  const paths = {
    overview: "M3 12l9-8 9 8M6 10v9h12v-9",
    topics: "M4 6h16M4 12h16M4 18h10",
    groups: "M8 11a3 3 0 100-6 3 3 0 000 6zm8 0a3 3 0 100-6 3 3 0 000 6zM2 19c0-3 3-5 6-5s6 2 6 5m2-5c3 0 6 2 6 5",
    brokers: "M4 5h16v6H4zM4 13h16v6H4zM7 8h.01M7 16h.01",
    pipelines: "M4 5h6v4H4zM14 15h6v4h-6zM7 9v3a3 3 0 003 3h4",
    moves: "M4 8h13l-3-3M20 16H7l3 3",
    transactions: "M5 12l4 4L19 6",
    schemas: "M8 4H6a2 2 0 00-2 2v4l-1 2 1 2v4a2 2 0 002 2h2M16 4h2a2 2 0 012 2v4l1 2-1 2v4a2 2 0 01-2 2h-2M9 12h6",
    access: "M7 11V8a5 5 0 0110 0v3M5 11h14v9H5z",
    theme: "M12 3a9 9 0 109 9 7 7 0 01-9-9z",
    search: "M10.5 17a6.5 6.5 0 100-13 6.5 6.5 0 000 13zM15.5 15.5L20 20",
  };
  return svg("svg", { viewBox: "0 0 24 24", class: "icon", "aria-hidden": "true" }, svg("path", { d: paths[name] }));
}
