// Tables that stay quick with ten thousand rows: only rows near the window are in the page.
//
// Rows have one height, so that the place of each is known. Columns: {id, title, cell(row), sort(row), number, wide}:
// `wide` ones are left out on a phone. With an `address`, a page's {query, keep}, what is searched and how rows are sorted
// stand in the address.

import { append, h, redraw, replace } from "./dom.js";

const ALL_UP_TO = 120; // so many are simply there: the browser's own search finds them
const AROUND = 20;

export class Table {
  constructor({ label, columns, rows = [], sort = null, empty = "Nothing here.", search = null, tools = [], address = null }) {
    this.columns = columns;
    this.address = address;
    this.usual = sort ?? { id: columns[0].id, down: false };
    this.sort = this.asked() ?? this.usual;
    this.empty = empty;
    this.search = search;
    this.words = (address?.query.get("q") ?? "").trim().toLowerCase();
    this.first = -1;
    this.last = -1;
    this.body = h("tbody");
    this.headers = columns.map((column) => this.header(column));
    this.table = h("table", { class: "rows", "aria-label": label }, h("thead", {}, h("tr", {}, this.headers)), this.body);
    this.status = h("p", { class: "quiet found", role: "status" });
    this.input = search && h("input", {
      type: "search", class: "search", placeholder: search.placeholder, "aria-label": search.placeholder, value: address?.query.get("q") ?? "",
      oninput: () => { this.words = this.input.value.trim().toLowerCase(); this.arrange(); this.remember("q", this.input.value); },
    });
    const bar = this.input || tools.length ? h("div", { class: "bar" }, this.input, h("span", { class: "grow" }), tools) : null;
    this.element = h("div", { class: "table" }, bar, (this.scroller = h("div", { class: "scroller" }, this.table)), this.status);
    this.onscroll = () => this.draw();
    this.table.addEventListener("keydown", (event) => this.key(event));
    this.setRows(rows);
  }

  header(column) {
    if (!column.sort) return h("th", { scope: "col", class: this.classes(column) }, heading(column));
    return h("th", { scope: "col", class: this.classes(column) },
      h("button", { type: "button", onclick: () => this.sortBy(column) }, column.title));
  }

  classes(column) {
    return [column.number && "number", column.wide && "wide", column.class].filter(Boolean).join(" ");
  }

  start() {
    addEventListener("scroll", this.onscroll, { passive: true });
    addEventListener("resize", this.onscroll, { passive: true });
  }

  stop() {
    removeEventListener("scroll", this.onscroll);
    removeEventListener("resize", this.onscroll);
  }

  sortBy(column) {
    this.sort = { id: column.id, down: this.sort.id === column.id ? !this.sort.down : Boolean(column.number) };
    this.arrange();
    const isUsual = this.sort.id === this.usual.id && this.sort.down === this.usual.down;
    this.remember("sort", isUsual ? "" : `${this.sort.down ? "-" : ""}${this.sort.id}`);
  }

  // How rows are sorted by the address: "lag", or "-lag" for the largest first.
  asked() {
    const given = this.address?.query.get("sort") ?? "";
    const id = given.replace(/^-/, "");
    return this.columns.some((each) => each.id === id && each.sort) ? { id, down: given.startsWith("-") } : null;
  }

  remember(name, value) {
    if (!this.address) return;
    const { query, keep } = this.address;
    if (value) query.set(name, value); else query.delete(name);
    keep(query);
  }

  setRows(rows) {
    this.all = rows;
    this.arrange(redraw);
  }

  arrange(change = replace) {
    const column = this.columns.find((each) => each.id === this.sort.id);
    const found = this.words ? this.all.filter((row) => this.search.text(row).toLowerCase().includes(this.words)) : [...this.all];
    if (column?.sort) {
      const sign = this.sort.down ? -1 : 1;
      found.sort((one, other) => {
        const a = column.sort(one);
        const b = column.sort(other);
        if (a === b) return 0;
        if (a === null || a === undefined) return 1;
        if (b === null || b === undefined) return -1;
        return a < b ? -sign : sign;
      });
    }
    this.columns.forEach((each, at) => {
      if (each.sort) this.headers[at].setAttribute("aria-sort", each.id !== this.sort.id ? "none" : this.sort.down ? "descending" : "ascending");
    });
    this.rows = found;
    this.table.setAttribute("aria-rowcount", String(found.length + 1));
    this.scroller.hidden = !this.all.length;
    this.status.textContent = !this.all.length ? this.empty : this.words ? `${found.length} of ${this.all.length}` : "";
    this.first = this.last = -1;
    this.draw(change);
  }

  draw(change = replace) {
    const total = this.rows.length;
    let first = 0;
    let last = total;
    if (total > ALL_UP_TO) {
      const height = this.height ?? 45;
      const above = -this.table.getBoundingClientRect().top;
      first = Math.max(0, Math.floor(above / height) - AROUND);
      last = Math.min(total, first + Math.ceil(innerHeight / height) + 2 * AROUND);
      first = Math.min(first, Math.max(0, last - 1));
    }
    if (first === this.first && last === this.last) return;
    this.first = first;
    this.last = last;
    const focused = this.table.contains(document.activeElement) ? document.activeElement.closest("tr")?.dataset.at : null;
    const rows = [];
    for (let at = first; at < last; at += 1) rows.push(this.row(this.rows[at], at));
    change(this.body, this.space(first), rows, this.space(total - last));
    if (rows.length && !this.height && rows[0].isConnected) this.height = rows[0].getBoundingClientRect().height || null;
    if (focused && change === replace) this.body.querySelector(`tr[data-at="${focused}"] a`)?.focus({ preventScroll: true });
  }

  space(count) {
    if (!count) return [];
    const cell = h("td", { colspan: this.columns.length, class: "space" });
    cell.style.height = `${count * (this.height ?? 45)}px`;
    return h("tr", { "aria-hidden": "true" }, cell);
  }

  row(row, at) {
    const made = h("tr", { "aria-rowindex": at + 2, "data-at": at });
    for (const column of this.columns) append(made, [h("td", { class: this.classes(column) }, column.cell(row))]);
    return made;
  }

  // Up and down go from row to row; Enter opens, as links do.
  key(event) {
    if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
    const at = Number(event.target.closest("tr")?.dataset.at ?? -1);
    const next = at + (event.key === "ArrowDown" ? 1 : -1);
    if (next < 0 || next >= this.rows.length) return;
    const link = this.body.querySelector(`tr[data-at="${next}"] a`);
    if (!link) return;
    event.preventDefault();
    link.focus();
  }
}

/** A name with badges beside it: where there is little room the name is cut, and what the badges say stays. */
export const named = (name, ...badges) => h("div", { class: "named" }, name, badges);

// A column of buttons has a name for those who cannot see what it is.
const heading = (column) => column.title || h("span", { class: "unseen" }, "Actions");

/** A small table that never changes by itself. */
export function plainTable(label, columns, rows, empty = "Nothing here.") {
  if (!rows.length) return h("p", { class: "quiet" }, empty);
  // It may be wider than a phone: keys must be able to move it.
  return h("div", { class: "scroller", tabindex: "0", role: "region", "aria-label": label }, h("table", { class: "rows plain", "aria-label": label },
    h("thead", {}, h("tr", {}, columns.map((each) => h("th", { scope: "col", class: cls(each) }, heading(each))))),
    h("tbody", {}, rows.map((row) => h("tr", {}, columns.map((each) => h("td", { class: cls(each) }, each.cell(row))))))));
}

const cls = (column) => [column.number && "number", column.wide && "wide", column.class].filter(Boolean).join(" ");
