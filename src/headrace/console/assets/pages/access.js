// Who may do what: access rules, users, tokens and quotas.

import { h, redraw, visible } from "../dom.js";
import { ask, field, note } from "../dialogs.js";
import { bytes, count } from "../format.js";
import { plainTable, Table } from "../table.js";
import { tokens } from "./tokens.js";

const TABS = [["acls", "ACLs"], ["users", "Users"], ["tokens", "Tokens"], ["quotas", "Quotas"]];
const OPERATIONS = ["all", "read", "write", "create", "delete", "alter", "describe", "cluster_action", "describe_configs", "alter_configs", "idempotent_write"];
const RESOURCES = ["topic", "group", "cluster", "transactional_id", "delegation_token"];

export async function access(context) {
  const [tab = "acls"] = context.args;
  context.title("Access");
  let panel;
  try {
    panel = await { acls, users, tokens, quotas }[tab](context);
  } catch (error) {
    if (error.status === 401) throw error;
    panel = { element: h("p", { class: "gaps" }, visible(error.message)) };
  }
  return {
    element: h("div", {}, h("h1", {}, "Access"),
      h("div", { class: "tabs", role: "tablist", "aria-label": "Access" }, TABS.map(([id, text]) => h("a", { role: "tab", href: context.link("access", id), "aria-selected": String(id === tab) }, text))),
      panel.element),
    refresh: panel.refresh, start: panel.start, stop: panel.stop,
  };
}

const options = (values) => values.map((each) => h("option", { value: each }, each.replaceAll("_", " ")));

async function acls({ api, query, keep, readOnly }) {
  const table = new Table({
    label: "ACLs",
    search: { placeholder: "Search principals and resources", text: (row) => Object.values(row).join(" ") },
    address: { query, keep },
    empty: "There are no rules.",
    tools: [!readOnly && h("button", { type: "button", class: "primary", onclick: add }, "New rule")],
    sort: { id: "principal", down: false },
    columns: [
      { id: "principal", title: "Principal", class: "name", sort: (row) => row.principal, cell: (row) => h("span", { class: "mono" }, visible(row.principal)) },
      { id: "permission", title: "Rule", sort: (row) => row.permission, cell: (row) => h("span", { class: `badge ${row.permission === "deny" ? "bad" : "good"}` }, row.permission) },
      { id: "operation", title: "Operation", sort: (row) => row.operation, cell: (row) => row.operation.replaceAll("_", " ") },
      { id: "resource", title: "On", sort: (row) => row.resource_type + row.resource_name, cell: (row) => [row.resource_type.replaceAll("_", " "), " ", h("span", { class: "mono" }, visible(row.resource_name)), row.pattern === "prefixed" && h("span", { class: "quiet" }, "…")] },
      { id: "host", title: "From", wide: true, sort: (row) => row.host, cell: (row) => (row.host === "*" ? "anywhere" : visible(row.host)) },
      ...(readOnly ? [] : [{ id: "act", title: "", cell: (row) => h("button", { type: "button", class: "linklike", onclick: () => remove(row) }, "delete") }]),
    ],
  });

  function add() {
    const principal = h("input", { required: true, placeholder: "User:alice", autocomplete: "off" });
    const permission = h("select", {}, options(["allow", "deny"]));
    const operation = h("select", {}, options(OPERATIONS));
    const kind = h("select", {}, options(RESOURCES));
    const name = h("input", { required: true, value: "*", autocomplete: "off" });
    const pattern = h("select", {}, options(["literal", "prefixed"]));
    const host = h("input", { required: true, value: "*" });
    ask({ title: "New rule", action: "Create",
      body: [field("Principal", principal), field("Permission", permission), field("Operation", operation), field("Resource", kind), field("Name", name, "* for all; of the cluster it is kafka-cluster"), field("Pattern", pattern), field("From host", host, "* for anywhere")],
      act: async () => {
        const found = await api.post("acls", { principal: principal.value, permission: permission.value, operation: operation.value, resource_type: kind.value, resource_name: kind.value === "cluster" ? "kafka-cluster" : name.value, pattern: pattern.value, host: host.value });
        table.setRows(found.acls);
        note("The rule is made.");
      } });
  }

  function remove(row) {
    ask({ title: "Delete rule", action: "Delete", danger: true, body: h("p", {}, `${row.permission} ${visible(row.principal)} to ${row.operation} ${row.resource_type} ${visible(row.resource_name)}`),
      act: async () => { table.setRows((await api.post("acls/delete", row)).acls); note("The rule is deleted."); } });
  }

  const first = await api.get("acls");
  if (first.is_open) return { element: h("p", { class: "gaps" }, "The brokers have no authorizer: everybody who reaches them may do everything.") };
  const refresh = async () => table.setRows((await api.get("acls")).acls);
  table.setRows(first.acls);
  return { element: table.element, refresh, start: () => { table.start(); table.arrange(); }, stop: () => table.stop() };
}

async function users({ api, readOnly }) {
  const content = h("div");
  const draw = (found) => redraw(content, plainTable("Users", [
    { title: "User", class: "name", cell: (row) => h("span", { class: "mono" }, visible(row.user)) },
    { title: "Logs in by", cell: (row) => row.mechanism },
    { title: "Iterations", number: true, wide: true, cell: (row) => count(row.iterations) },
    !readOnly && { title: "", cell: (row) => h("button", { type: "button", class: "linklike", onclick: () => remove(row) }, "delete") },
  ].filter(Boolean), found.users, "There are no SCRAM users."));

  function add() {
    const user = h("input", { required: true, autocomplete: "off" });
    const password = h("input", { type: "password", required: true, autocomplete: "new-password" });
    const mechanism = h("select", {}, ["SCRAM-SHA-512", "SCRAM-SHA-256"].map((each) => h("option", { value: each }, each)));
    ask({ title: "User", action: "Save", body: [h("p", { class: "quiet" }, "A new user, or another password for one that is there. The cluster gets its hash only."), field("Name", user), field("Password", password), field("Logs in by", mechanism)],
      act: async () => { draw(await api.post("users", { user: user.value, password: password.value, mechanism: mechanism.value })); note("The user can log in."); } });
  }

  function remove(row) {
    ask({ title: "Delete user", action: "Delete", danger: true, body: h("p", {}, `${visible(row.user)} logs in by ${row.mechanism} no more. Connections that are open stay.`),
      act: async () => { draw(await api.post("users/delete", { user: row.user, mechanism: row.mechanism })); note("The user is deleted."); } });
  }

  const refresh = async () => draw(await api.get("users"));
  await refresh();
  return { element: h("div", {}, h("div", { class: "bar" }, h("span", { class: "grow" }), !readOnly && h("button", { type: "button", class: "primary", onclick: add }, "New user")), content), refresh };
}

async function quotas({ api, readOnly }) {
  const content = h("div");
  const draw = (found) => redraw(content, plainTable("Quotas", [
    { title: "Whom", class: "name", cell: (row) => Object.entries(row.entity).map(([kind, name]) => h("div", {}, `${kind} `, name === null ? h("em", {}, "default") : h("span", { class: "mono" }, visible(name)))) },
    { title: "Limits", cell: (row) => Object.entries(row.limits).map(([name, value]) => h("div", {}, name.replaceAll("_", " "), ": ", name.includes("byte") ? `${bytes(value)}/s` : count(value))) },
    !readOnly && { title: "", cell: (row) => h("button", { type: "button", class: "linklike", onclick: () => remove(row) }, "delete") },
  ].filter(Boolean), found.quotas, "There are no quotas."));

  function add() {
    const both = "user and client-id";
    const kind = h("select", { onchange: () => { second.hidden = kind.value !== both; } }, ["user", "client-id", both, "ip"].map((each) => h("option", { value: each }, each)));
    const name = h("input", { placeholder: "empty: the default", autocomplete: "off" });
    const client = h("input", { placeholder: "empty: the default", autocomplete: "off" });
    const second = field("Client id", client);
    second.hidden = true;
    const entity = () => (kind.value === both ? { user: name.value || null, "client-id": client.value || null } : { [kind.value]: name.value || null });
    const limit = h("select", {}, ["producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate", "connection_creation_rate"].map((each) => h("option", { value: each }, each.replaceAll("_", " "))));
    const value = h("input", { type: "number", min: 0, step: "any", required: true });
    ask({ title: "New quota", action: "Set", body: [field("For", kind), field("Name", name), second, field("Limit", limit), field("Value", value)],
      act: async () => { draw(await api.post("quotas", { entity: entity(), set: { [limit.value]: Number(value.value) } })); note("The quota is set."); } });
  }

  function remove(row) {
    ask({ title: "Delete quota", action: "Delete", danger: true, body: h("p", {}, "All limits of this entity are removed."),
      act: async () => { draw(await api.post("quotas", { entity: row.entity, set: {}, remove: Object.keys(row.limits) })); note("The quota is deleted."); } });
  }

  const refresh = async () => draw(await api.get("quotas"));
  await refresh();
  return { element: h("div", {}, h("div", { class: "bar" }, h("span", { class: "grow" }), !readOnly && h("button", { type: "button", class: "primary", onclick: add }, "New quota")), content), refresh };
}
