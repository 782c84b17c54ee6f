// Dead letters of a pipeline: what could not be read, why, and sending it to its feed again.

import { h, replace, visible } from "../dom.js";
import { ask, note } from "../dialogs.js";
import { count, plural, time } from "../format.js";
import { preview, textOf, view } from "./payload.js";

const MARK = "headrace.dead-letter.";
const SHOWN = 50;

const header = (record, name) => { const found = record.headers.find((each) => each.name === MARK + name); return found?.value ? textOf(found.value) : ""; };
const isCut = (record) => ["bytes", "key-bytes", "headers-bytes"].some((name) => header(record, name));

export function deadLetters({ api, link, readOnly }, topic) {
  const path = `topics/${encodeURIComponent(topic)}`;
  const list = h("ol", { class: "messages", "aria-label": `Dead letters in ${visible(topic)}` });
  const status = h("p", { class: "quiet", role: "status" });
  const next = h("button", { type: "button", hidden: true, onclick: () => load() }, "Load more");
  const chosen = new Map();
  const send = !readOnly && h("button", { type: "button", disabled: true, onclick: () => confirm([...chosen.values()]) }, "Send again");
  let at = "";
  let shown = 0;

  async function load() {
    try {
      const page = await api.get(`${path}/messages?from=newest&limit=${SHOWN}${at ? `&at=${encodeURIComponent(at)}` : ""}`);
      at = page.at;
      shown += page.records.length;
      list.append(...page.records.map(row));
      next.hidden = page.is_done;
      status.textContent = shown ? `${count(shown)} shown, newest first.` : "There are none.";
    } catch (error) {
      status.textContent = error.message;
    }
  }

  function choose(record, isChosen) {
    const key = `${record.partition}:${record.offset}`;
    if (isChosen) chosen.set(key, record); else chosen.delete(key);
    send.disabled = !chosen.size;
    send.textContent = chosen.size ? `Send ${count(chosen.size)} again` : "Send again";
  }

  function confirm(records) {
    const feeds = [...new Set(records.map((each) => header(each, "topic")))];
    ask({
      title: "Send dead letters again", action: "Send",
      body: [h("p", {}, `${plural(records.length, "record")} will be written to `, h("strong", {}, visible(feeds.join(", "))), ", as they were read from there. The pipeline reads them again: mend what was wrong first."),
        h("p", { class: "quiet" }, "The letters stay in their topic.")],
      act: async () => {
        const done = await api.post(`${path}/send-again`, { letters: records.map(({ partition, offset }) => ({ partition, offset })) });
        note(`${plural(done.sent.length, "record")} written to ${feeds.join(", ")}.`);
      },
    });
  }

  function row(record) {
    const body = h("div", { class: "message-body" });
    const made = h("details", { class: "message" },
      h("summary", {}, h("span", { class: "when" }, time(record.timestamp)), h("span", { class: "where" }, `${visible(header(record, "topic"))} ${visible(header(record, "partition"))}:${visible(header(record, "offset"))}`),
        h("span", { class: "why" }, visible(header(record, "error") || "no reason is given")), h("span", { class: "val" }, preview(record.value))), body);
    made.addEventListener("toggle", () => {
      if (!made.open || body.children.length) return;
      replace(body,
        h("div", { class: "message-actions" },
          h("a", { href: `${link("topics", topic, "messages")}?from=offset&partition=${record.partition}&offset=${record.offset}&limit=1` }, "The letter in its topic"),
          h("a", { href: `${link("topics", header(record, "topic"), "messages")}?from=offset&partition=${encodeURIComponent(header(record, "partition"))}&offset=${encodeURIComponent(header(record, "offset"))}&limit=1` }, "The record in its feed")),
        h("h3", {}, "Reason"), h("p", { class: "reason" }, visible(header(record, "error") || "–")),
        isCut(record) && h("p", { class: "late" }, "It was too large for a letter and is cut short: it cannot be sent again."),
        h("h3", {}, "Key"), view(record.key, "key"), h("h3", {}, "Value"), view(record.value, "value"));
    });
    const tick = h("input", { type: "checkbox", disabled: isCut(record) || !header(record, "topic"), "aria-label": `Choose the letter at ${record.partition}:${record.offset}`, onchange: (event) => choose(record, event.target.checked) });
    return h("li", { class: "letter" }, !readOnly && tick, made);
  }

  load();
  return h("section", { class: "letters" },
    h("div", { class: "title" }, h("h2", {}, "Dead letters in ", h("a", { href: link("topics", topic) }, visible(topic))), h("span", { class: "grow" }), send),
    status, list, h("p", { class: "more" }, next));
}
