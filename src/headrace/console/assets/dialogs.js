// Dialogs that ask, and short notes that say what has happened.

import { h, replace } from "./dom.js";

const notes = h("div", { class: "notes", role: "status", "aria-live": "polite" });

export function placeNotes() {
  document.body.append(notes);
}

export function note(text, kind = "good") {
  const made = h("div", { class: `note ${kind}` }, text);
  notes.append(made);
  setTimeout(() => made.remove(), kind === "bad" ? 12000 : 5000);
}

/** A dialog with a form. `act` is called with the form's data; what it throws is shown, and the dialog stays. */
export function ask({ title, body, action, danger = false, act, wide = false }) {
  const problem = h("p", { class: "problem", role: "alert" });
  const submit = action && h("button", { type: "submit", class: danger ? "danger" : "primary" }, action);
  const form = h("form", { method: "dialog" }, h("h2", { id: "dialog-title" }, title), h("div", { class: "dialog-body" }, body), problem,
    h("div", { class: "actions" }, h("button", { type: "button", onclick: () => dialog.close() }, action ? "Cancel" : "Close"), submit));
  const dialog = h("dialog", { class: wide ? "wide-dialog" : "", "aria-labelledby": "dialog-title" }, form);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (!act) return;
    submit.disabled = true;
    problem.textContent = "";
    try {
      if ((await act(new FormData(form))) !== false) dialog.close();
    } catch (error) {
      problem.textContent = error.message;
    } finally {
      submit.disabled = false;
    }
  });
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
  return dialog;
}

/** Something is gone for good afterwards: its name must be typed. */
export function askByName({ title, what, name, action, act }) {
  const typed = h("input", { name: "confirm", autocomplete: "off", spellcheck: "false", required: true });
  return ask({
    title, action, danger: true,
    body: [h("p", {}, what), h("label", {}, "Type ", h("code", {}, name), " to confirm", typed)],
    act: async () => {
      if (typed.value !== name) throw new Error("That is not the name.");
      return act();
    },
  });
}

export const field = (label, input, hint) =>
  h("label", { class: "field" }, h("span", {}, label), input, hint && h("small", {}, hint));

export { replace };
