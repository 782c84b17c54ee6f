// Logging in with the cluster's own credentials.

import { call } from "../api.js";
import { h } from "../dom.js";
import { field } from "../dialogs.js";

export function login(cluster, done) {
  document.title = "Log in · headrace console";
  if (cluster.issuer) return byProvider(cluster);
  const user = h("input", { name: "user", autocomplete: "username", required: true });
  const password = h("input", { name: "password", type: "password", autocomplete: "current-password", required: true });
  const problem = h("p", { class: "problem", role: "alert" });
  const button = h("button", { type: "submit", class: "primary" }, "Log in");
  const form = h("form", { class: "card login", onsubmit: send }, h("h1", {}, "Log in to ", cluster.name),
    h("p", { class: "quiet" }, `With your own ${cluster.mechanism} credentials of the cluster. What you see and change is what its ACLs allow you.`),
    field("User", user), field("Password", password), problem, h("div", { class: "actions" }, button));

  async function send(event) {
    event.preventDefault();
    button.disabled = true;
    problem.textContent = "";
    try {
      const reply = await call("POST", "/api/login", { cluster: cluster.name, user: user.value, password: password.value });
      await done(cluster, reply);
    } catch (error) {
      problem.textContent = error.message;
      password.value = "";
      password.focus();
    } finally {
      button.disabled = false;
    }
  }

  return { element: form, start: () => user.focus() };
}

/** The provider's own page asks who it is, and leads back to where one was. */
function byProvider(cluster) {
  const problem = h("p", { class: "problem", role: "alert" });
  const button = h("button", { type: "button", class: "primary", onclick: begin }, "Log in");

  async function begin() {
    button.disabled = true;
    problem.textContent = "";
    try {
      location.assign((await call("POST", "/api/oidc", { cluster: cluster.name, to: location.pathname + location.search })).url);
    } catch (error) {
      problem.textContent = error.message;
      button.disabled = false;
    }
  }

  return { element: h("div", { class: "card login" }, h("h1", {}, "Log in to ", cluster.name),
    h("p", { class: "quiet" }, `By ${new URL(cluster.issuer).host}. What you see and change is what the cluster's ACLs allow you.`), problem, h("div", { class: "actions" }, button)),
  start: () => button.focus() };
}
