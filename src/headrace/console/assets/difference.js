// What lies between two texts, line by line: the longest lines that both have stay, the others came or are gone.

import { h, visible } from "./dom.js";

const CELLS_MAX = 4_000_000; // of the table that finds what both have: some 2,000 lines each

export function difference(before, after) {
  const rows = compare(before.split("\n"), after.split("\n"));
  return h("pre", { class: "schema difference", "aria-label": "Difference" }, rows.map(([sign, line]) =>
    h(sign === "+" ? "ins" : sign === "−" ? "del" : "span", { class: "line" }, `${sign} ${visible(line)}\n`)));
}

function compare(a, b) {
  let start = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) start += 1;
  let end = 0;
  while (end < a.length - start && end < b.length - start && a[a.length - 1 - end] === b[b.length - 1 - end]) end += 1;
  const same = (lines) => lines.map((line) => [" ", line]);
  return [...same(a.slice(0, start)), ...middle(a.slice(start, a.length - end), b.slice(start, b.length - end)), ...same(a.slice(a.length - end))];
}

function middle(a, b) {
  const gone = (lines) => lines.map((line) => ["−", line]);
  const came = (lines) => lines.map((line) => ["+", line]);
  if (a.length * b.length > CELLS_MAX) return [...gone(a), ...came(b)];
  const width = b.length + 1;
  const longest = new Uint16Array((a.length + 1) * width);
  for (let i = a.length - 1; i >= 0; i -= 1) {
    for (let j = b.length - 1; j >= 0; j -= 1) {
      longest[i * width + j] = a[i] === b[j] ? longest[(i + 1) * width + j + 1] + 1 : Math.max(longest[(i + 1) * width + j], longest[i * width + j + 1]);
    }
  }
  const rows = [];
  let i = 0;
  let j = 0;
  while (i < a.length && j < b.length) {
    if (a[i] === b[j]) { rows.push([" ", a[i]]); i += 1; j += 1; }
    else if (longest[(i + 1) * width + j] >= longest[i * width + j + 1]) { rows.push(["−", a[i]]); i += 1; }
    else { rows.push(["+", b[j]]); j += 1; }
  }
  return [...rows, ...gone(a.slice(i)), ...came(b.slice(j))];
}
