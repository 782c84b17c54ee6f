// Time travel: what the keys of a topic were at a moment.

import { events } from "../api.js";
import { h, replace } from "../dom.js";
import { count } from "../format.js";
import { messageRow } from "./messages.js";

export function keysPanel(context) {
  const { api, path, query, keep } = context;
  const now = new Date(Date.now() - new Date().getTimezoneOffset() * 60000).toISOString().slice(0, 19);
  const given = query.get("time");
  const moment = h("input", { type: "datetime-local", step: "1", "aria-label": "Moment", value: given ? new Date(Number(given) - new Date(Number(given)).getTimezoneOffset() * 60000).toISOString().slice(0, 19) : now });
  const words = h("input", { type: "search", class: "search", placeholder: "Key contains", "aria-label": "Key contains", value: query.get("key") ?? "" });
  const list = h("ol", { class: "messages", "aria-label": "Keys at the moment" });
  const status = h("p", { class: "quiet", role: "status" });
  const look = h("button", { type: "submit", class: "primary" }, "Look");
  let reading = null;

  function stop() {
    reading?.abort();
    reading = null;
    look.textContent = "Look";
  }

  async function load() {
    if (reading) {
      stop();
      status.textContent = "Stopped.";
      return;
    }
    const wanted = new URLSearchParams({ time: String(new Date(moment.value).getTime() + 999) });
    if (words.value) wanted.set("key", words.value);
    keep(wanted);
    replace(list);
    status.textContent = "Reading from the oldest record on…";
    look.textContent = "Stop";
    const own = (reading = new AbortController());
    try {
      let last = {};
      await events(api.url(`${path}/keys?${wanted}`), (found) => tell((last = found)), own.signal);
      if (!last.records && !last.error && !own.signal.aborted) status.textContent = "The stream broke off.";
    } catch (error) {
      status.textContent = error.message;
    } finally {
      if (own === reading) stop();
    }
  }

  function tell(found) {
    if (found.error) status.textContent = found.error;
    else if (!found.records) status.textContent = `${Math.floor((100 * found.scanned) / Math.max(1, found.total))} % read: ${count(found.scanned)} of ${count(found.total)} records, ${count(found.found)} keys.`;
    else {
      replace(list, found.records.map((each) => messageRow(each, context)));
      status.textContent = `${count(found.keys)} keys${found.records.length < found.keys ? `, the last ${count(found.records.length)} shown` : ""}; ${count(found.deleted)} were deleted by then; ${count(found.scanned)} records read.${found.is_full ? " There are more keys than a page keeps: narrow it by key." : ""}`;
    }
  }

  return {
    element: h("div", {}, h("p", { class: "quiet" }, "The last value of each key at a moment: what a compacted topic's table held then, as far as compaction has left it."),
      h("form", { class: "bar", onsubmit: (event) => { event.preventDefault(); load(); } }, moment, words, look), status, list),
    start: () => { if (given) load(); },
    stop,
  };
}
