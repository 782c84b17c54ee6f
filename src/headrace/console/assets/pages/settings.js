// Settings of a topic or a broker, with what each means; changed ones first.

import { h, redraw, visible } from "../dom.js";
import { ask, field, note } from "../dialogs.js";
import { settingHint } from "../format.js";

/** With `forAll` (of brokers), a setting can be changed for this one or for all. `address` is a page's {query, keep}. */
export function settingsPanel({ load, save, readOnly, forAll = false, address: { query, keep } }) {
  const list = h("div", { class: "settings" });
  const search = h("input", { type: "search", class: "search", placeholder: "Search settings", "aria-label": "Search settings", value: query.get("q") ?? "", oninput: () => { draw(); remember("q", search.value); } });
  const own = h("input", { type: "checkbox", onchange: () => { draw(); remember("changed", own.checked ? "1" : ""); } });
  own.checked = query.get("changed") === "1";
  let all = [];

  function remember(name, value) {
    if (value) query.set(name, value); else query.delete(name);
    keep(query);
  }

  function draw() {
    const words = search.value.trim().toLowerCase();
    const found = all.filter((each) => (!own.checked || each.is_own) && `${each.name} ${each.doc}`.toLowerCase().includes(words))
      .sort((one, other) => Number(other.is_own) - Number(one.is_own) || (one.name < other.name ? -1 : 1));
    redraw(list, found.length ? found.map(row) : h("p", { class: "quiet" }, "No setting fits."));
  }

  function row(each) {
    const hint = settingHint(each.name, each.value);
    return h("div", { class: `setting ${each.is_own ? "own" : ""}` },
      h("div", {}, h("code", {}, each.name), each.is_own && h("span", { class: "badge" }, `set for ${each.source}`), h("p", { class: "quiet" }, visible(each.doc))),
      h("div", { class: "setting-value" }, h("span", { class: "mono" }, each.sensitive ? "••••••" : visible(each.value ?? "")), hint && h("small", { class: "quiet" }, hint),
        save && !readOnly && !each.read_only && h("button", { type: "button", class: "linklike", "aria-label": `Edit ${each.name}`, onclick: () => edit(each) }, "edit")));
  }

  function edit(each) {
    const input = h("input", { value: each.sensitive ? "" : each.value ?? "", spellcheck: "false", autocomplete: "off" });
    const back = h("input", { type: "checkbox" });
    const whom = h("select", {}, [["", "this broker"], ["all", "all brokers"]].map(([value, text]) => h("option", { value, selected: text === each.source }, text)));
    ask({
      title: each.name, action: "Save",
      body: [h("p", { class: "quiet" }, visible(each.doc)), field("Value", input), forAll && field("For", whom, "What is set for one broker counts more than what is set for all."), each.is_own && h("label", { class: "check" }, back, "take it back to its default")],
      act: async () => {
        const change = back.checked ? { set: {}, delete: [each.name] } : { set: { [each.name]: input.value }, delete: [] };
        all = (await save(forAll ? { ...change, for_all: whom.value === "all" } : change)).configs;
        note(`${each.name} has been changed.`);
        draw();
      },
    });
  }

  return {
    element: h("div", {}, h("div", { class: "bar" }, search, h("span", { class: "grow" }), h("label", { class: "check" }, own, "changed only")), list),
    async refresh() {
      all = (await load()).configs;
      draw();
    },
  };
}
