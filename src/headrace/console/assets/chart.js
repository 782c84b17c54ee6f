// Draws figures over time: a chart with axes, and a line as small as a word.

import { h, replace, svg } from "./dom.js";
import { clock } from "./format.js";

const HEIGHT = 160;
const LEFT = 56;
const BOTTOM = 22;

function ticks(most) {
  if (most <= 0) return [0];
  const step = 10 ** Math.floor(Math.log10(most));
  const chosen = most / step >= 5 ? step * 2 : most / step >= 2 ? step : step / 2;
  const found = [];
  for (let at = 0; at <= most * 1.0001; at += chosen) found.push(at);
  return found;
}

/** One line over time. `values` may have nulls, where nothing is known. */
export class Chart {
  constructor({ label, format, waiting = "The line begins with the second sample, in a few seconds." }) {
    this.label = label;
    this.waiting = waiting;
    this.format = format;
    this.times = [];
    this.values = [];
    this.drawing = svg("svg", { class: "chart", role: "img", height: HEIGHT });
    this.tip = h("div", { class: "tip", hidden: true });
    this.element = h("figure", { class: "chartbox" }, this.drawing, this.tip);
    this.observer = new ResizeObserver(() => this.draw());
    this.drawing.addEventListener("pointermove", (event) => this.point(event));
    this.drawing.addEventListener("pointerleave", () => { this.tip.hidden = true; });
  }

  start() { this.observer.observe(this.element); }
  stop() { this.observer.disconnect(); }

  set(times, values) {
    const length = Math.min(times.length, values.length);
    this.times = times.slice(times.length - length);
    this.values = values.slice(values.length - length);
    this.draw();
  }

  draw() {
    const width = this.element.clientWidth;
    const known = this.values.filter((each) => each !== null);
    if (!width) return;
    this.drawing.setAttribute("width", width);
    this.drawing.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
    if (known.length < 2) {
      this.drawing.setAttribute("aria-label", `${this.label}: not enough samples yet`);
      replace(this.drawing, svg("text", { x: width / 2, y: HEIGHT / 2, class: "axis middle" }, this.waiting));
      return;
    }
    const most = Math.max(1, ...known);
    const [from, to] = [this.times[0], this.times[this.times.length - 1]];
    this.x = (at) => LEFT + ((width - LEFT - 8) * (at - from)) / Math.max(1, to - from);
    const y = (value) => 10 + (HEIGHT - BOTTOM - 10) * (1 - value / most);
    this.y = y;
    const last = known[known.length - 1];
    this.drawing.setAttribute("aria-label", `${this.label}: now ${this.format(last)}, between ${this.format(Math.min(...known))} and ${this.format(most)}`);
    const grid = ticks(most).map((value) => [
      svg("line", { x1: LEFT, x2: width - 8, y1: y(value), y2: y(value), class: "grid" }),
      svg("text", { x: LEFT - 8, y: y(value) + 4, class: "axis end" }, this.format(value)),
    ]);
    const moments = [0, 0.5, 1].map((share) => {
      const at = from + (to - from) * share;
      const anchor = share === 0 ? "start" : share === 1 ? "end" : "middle";
      return svg("text", { x: this.x(at), y: HEIGHT - 4, class: `axis ${anchor}` }, clock(new Date(at)));
    });
    const lines = this.runs().map((run) => {
      const points = run.map((at) => `${this.x(this.times[at]).toFixed(1)},${y(this.values[at]).toFixed(1)}`);
      const [first, end] = [this.x(this.times[run[0]]), this.x(this.times[run[run.length - 1]])];
      return [
        svg("path", { class: "area", d: `M${first.toFixed(1)},${y(0)} L${points.join(" L")} L${end.toFixed(1)},${y(0)} Z` }),
        svg("path", { class: "line", d: `M${points.join(" L")}` }),
      ];
    });
    this.mark = svg("circle", { r: 4, class: "mark", cx: -10, cy: -10 });
    replace(this.drawing, grid, moments, lines, this.mark);
  }

  runs() {
    const found = [];
    let run = [];
    this.values.forEach((value, at) => {
      if (value !== null) run.push(at);
      else if (run.length) { found.push(run); run = []; }
    });
    if (run.length) found.push(run);
    return found;
  }

  point(event) {
    if (!this.x || this.values.length < 2) return;
    const at = event.clientX - this.drawing.getBoundingClientRect().left;
    let nearest = -1;
    this.times.forEach((time, index) => {
      if (this.values[index] === null) return;
      if (nearest < 0 || Math.abs(this.x(time) - at) < Math.abs(this.x(this.times[nearest]) - at)) nearest = index;
    });
    if (nearest < 0) return;
    const [x, y] = [this.x(this.times[nearest]), this.y(this.values[nearest])];
    this.mark.setAttribute("cx", x);
    this.mark.setAttribute("cy", y);
    this.tip.hidden = false;
    this.tip.textContent = `${clock(new Date(this.times[nearest]))}  ${this.format(this.values[nearest])}`;
    this.tip.style.left = `${Math.min(x, this.element.clientWidth - 150)}px`;
    this.tip.style.top = `${Math.max(0, y - 36)}px`;
  }
}

/** A course as small as a word; what it means stands beside it. */
export function sparkline(values) {
  const known = values.filter((each) => each !== null);
  if (known.length < 2) return h("span", { class: "quiet" }, "");
  const most = Math.max(1, ...known);
  const points = values.map((value, at) => value === null ? null : `${((at * 100) / (values.length - 1)).toFixed(1)},${(22 - (value * 20) / most).toFixed(1)}`).filter(Boolean);
  return svg("svg", { class: "spark", viewBox: "0 0 100 24", preserveAspectRatio: "none", "aria-hidden": "true" },
    svg("path", { d: `M${points.join(" L")}` }));
}
