// Delegation tokens: made, renewed and ended. The secret of one is in the dialog that made it, and nowhere else.

import { h, visible } from "../dom.js";
import { ask, askByName, field, note } from "../dialogs.js";
import { time } from "../format.js";
import { Table } from "../table.js";

const HOUR_MS = 3600000;

export async function tokens({ api, query, keep, readOnly }) {
  const table = new Table({
    label: "Tokens",
    search: { placeholder: "Search tokens", text: (row) => [row.id, row.owner, row.requester, ...row.renewers].join(" ") },
    address: { query, keep },
    empty: "There are no tokens that you may see.",
    tools: [!readOnly && h("button", { type: "button", class: "primary", onclick: create }, "New token")],
    sort: { id: "owner", down: false },
    columns: [
      { id: "id", title: "Token", class: "name", sort: (row) => row.id, cell: (row) => h("span", { class: "mono" }, visible(row.id)) },
      { id: "owner", title: "Owner", sort: (row) => row.owner, cell: (row) => visible(row.owner) },
      { id: "renewers", title: "Renewers", wide: true, cell: (row) => visible(row.renewers.join(", ") || "–") },
      { id: "expires", title: "Good until", sort: (row) => row.expires, cell: (row) => time(row.expires) },
      { id: "most", title: "At most until", wide: true, sort: (row) => row.at_most, cell: (row) => time(row.at_most) },
      ...(readOnly ? [] : [{ id: "act", title: "", cell: (row) => [
        h("button", { type: "button", class: "linklike", "aria-label": `Renew ${row.id}`, onclick: () => renew(row) }, "renew"), " ",
        h("button", { type: "button", class: "linklike", "aria-label": `End ${row.id}`, onclick: () => end(row) }, "end")] }]),
    ],
  });

  function create() {
    const owner = h("input", { placeholder: "you", autocomplete: "off", spellcheck: "false" });
    const renewers = h("input", { placeholder: "User:scheduler, User:other", autocomplete: "off", spellcheck: "false" });
    const hours = h("input", { type: "number", min: 1, placeholder: "the cluster's default" });
    ask({ title: "New token", action: "Create",
      body: [h("p", { class: "quiet" }, "Whoever has it logs in in its owner's name, with all that the owner may do."),
        field("Owner", owner, "A principal as User:loader."), field("Renewers", renewers), field("Longest life in hours", hours)],
      act: async () => {
        const made = await api.post("tokens", { owner: owner.value.trim(), renewers: renewers.value.split(",").map((each) => each.trim()).filter(Boolean),
          lifetime_ms: hours.value ? Number(hours.value) * HOUR_MS : -1 });
        await refresh();
        show(made);
      } });
  }

  function show(made) {
    const hmac = h("input", { value: made.hmac, readonly: true, class: "mono", autocomplete: "off", "aria-label": "HMAC" });
    hmac.addEventListener("focus", () => hmac.select());
    ask({ title: "The token's secret", body: [
      h("p", {}, "It is shown now and never again: keep it where only its user can read it."),
      field("Token", h("input", { value: made.token.id, readonly: true, class: "mono" })), field("HMAC", hmac),
      h("p", { class: "quiet" }, "To log in with it: SCRAM-SHA-512, the token as user, the HMAC as password, and tokenauth=\"true\" in sasl.jaas.config.")] });
  }

  function renew(row) {
    const hours = h("input", { type: "number", min: 1, placeholder: "the cluster's default" });
    ask({ title: "Renew token", action: "Renew", body: [h("p", {}, "Token ", h("code", {}, visible(row.id)), ` is good until ${time(row.expires)}, and never beyond ${time(row.at_most)}.`), field("Hours from now", hours)],
      act: async () => {
        const until = (await api.post("tokens/renew", { id: row.id, period_ms: hours.value ? Number(hours.value) * HOUR_MS : -1 })).expires;
        note(`It is good until ${time(until)}.`);
        await refresh();
      } });
  }

  function end(row) {
    askByName({ title: "End token", what: `Nobody can log in with this token of ${visible(row.owner)} any more.`, name: row.id, action: "End token",
      act: async () => { await api.post("tokens/expire", { id: row.id, confirm: row.id }); note("The token is ended."); await refresh(); } });
  }

  const first = await api.get("tokens");
  if (first.missing) return { element: h("p", { class: "gaps" }, first.missing) };
  const refresh = async () => table.setRows((await api.get("tokens")).tokens);
  table.setRows(first.tokens);
  return { element: table.element, refresh, start: () => { table.start(); table.arrange(); }, stop: () => table.stop() };
}
