// The shell: who the visitor is, which cluster is shown, which page belongs to the address, and the keys.
//
// Addresses are paths, /CLUSTER/topics/NAME/messages?from=newest, so that they can be sent to a colleague. A page is a
// function that gets {api, args, query, ...} and gives {element, refresh, stop}; refresh is called every few seconds.

import { call, clusterApi, setToken } from "./api.js";
import { h, icon, replace, visible } from "./dom.js";
import { ask, note, placeNotes } from "./dialogs.js";
import { overview } from "./pages/overview.js";

const REFRESH_MS = 5000;

const ROUTES = [
  [/^$/, async () => overview],
  [/^topics$/, async () => (await import("./pages/topics.js")).topics],
  [/^topics\/([^/]+)(?:\/(\w+))?$/, async () => (await import("./pages/topic.js")).topic],
  [/^groups$/, async () => (await import("./pages/groups.js")).groups],
  [/^groups\/([^/]+)$/, async () => (await import("./pages/group.js")).group],
  [/^brokers$/, async () => (await import("./pages/brokers.js")).brokers],
  [/^brokers\/([^/]+)$/, async () => (await import("./pages/brokers.js")).broker],
  [/^pipelines$/, async () => (await import("./pages/pipelines.js")).pipelines],
  [/^moves$/, async () => (await import("./pages/moves.js")).moves],
  [/^transactions$/, async () => (await import("./pages/transactions.js")).transactions],
  [/^schemas(?:\/(id)\/([^/]+))?$/, async () => (await import("./pages/schemas.js")).schemas],
  [/^schemas\/subject\/([^/]+)$/, async () => (await import("./pages/schemas.js")).subject],
  [/^access(?:\/(\w+))?$/, async () => (await import("./pages/access.js")).access],
];
const NAV = [
  ["", "Overview", "overview", "o"],
  ["topics", "Topics", "topics", "t"],
  ["groups", "Groups", "groups", "g"],
  ["pipelines", "Pipelines", "pipelines", "p"],
  ["brokers", "Brokers", "brokers", "b"],
  ["moves", "Reassignments", "moves", "r"],
  ["transactions", "Transactions", "transactions", "x"],
  ["schemas", "Schemas", "schemas", "s"],
  ["access", "Access", "access", "a"],
];

const app = document.getElementById("app");
const main = h("main", { id: "main", tabindex: "-1" });
const nav = h("nav", { "aria-label": "Pages" });
const who = h("div", { class: "who" });
const problem = h("div", { class: "offline", role: "alert", hidden: true });
let session = null;
let page = null;
let shown = 0;

async function begin() {
  theme(localStorage.getItem("theme"));
  placeNotes();
  pageOf(location.pathname.split("/").slice(2).join("/").replace(/\/$/, ""))?.load().catch(() => {}); // it comes while the session is asked for
  session = await call("GET", "/api/session");
  setToken(session.token);
  replace(app,
    h("a", { class: "skip", href: "#main" }, "Skip to the content"),
    h("header", {}, h("a", { class: "brand", href: "/" }, mark(), h("span", {}, "headrace")), who, nav,
      h("div", { class: "foot" },
        h("button", { type: "button", class: "plain", onclick: jump }, icon("search"), h("span", {}, "Jump to…"), h("kbd", {}, "Ctrl K")),
        h("button", { type: "button", class: "plain", onclick: nextTheme }, icon("theme"), h("span", {}, "Light or dark")))),
    h("div", { class: "content" }, problem, main));
  history.scrollRestoration = "manual";
  addEventListener("popstate", (event) => {
    document.querySelector("dialog[open]")?.close();
    show(event.state?.y);
  });
  document.addEventListener("click", follow);
  document.addEventListener("click", closeMenus);
  document.addEventListener("keydown", keys);
  setInterval(refresh, REFRESH_MS);
  document.addEventListener("visibilitychange", refresh);
  await show();
}

function mark() {
  const made = h("img", { src: "/assets/icon.svg", alt: "", width: 28, height: 28 });
  return made;
}

/** The cluster, the rest of the path, and the query of where we are. */
function place() {
  const [name, ...rest] = location.pathname.slice(1).split("/");
  const cluster = session.clusters.find((each) => encodeURIComponent(each.name) === name || each.name === name);
  const strange = cluster ? "" : name;
  return { cluster: cluster ?? session.clusters[0], strange, path: rest.join("/").replace(/\/$/, ""), query: new URLSearchParams(location.search) };
}

const base = (cluster) => `/${encodeURIComponent(cluster.name)}`;

async function show(y = 0) {
  const turn = (shown += 1);
  const { cluster, strange, path, query } = place();
  drawShell(cluster, path);
  page?.stop?.();
  page = null;
  problem.hidden = true;
  try {
    const made = strange ? nothing("There is no such cluster", `This console knows no cluster ${visible(strange)}.`, cluster) : await make(cluster, path, query);
    if (turn !== shown) {
      made.stop?.();
      return;
    }
    page = made;
    replace(main, page.element);
    main.querySelector(".tabs [aria-selected=true]")?.scrollIntoView({ inline: "nearest", block: "nearest" });
    page.start?.();
    if (!matchMedia("(pointer: coarse)").matches) main.focus({ preventScroll: true });
    scrollTo(0, y);
  } catch (error) {
    if (turn === shown) failed(error, cluster);
  }
}

function pageOf(path) {
  for (const [pattern, load] of ROUTES) {
    const found = pattern.exec(path);
    if (found) return { found, load };
  }
  return null;
}

async function make(cluster, path, query) {
  if (cluster.needs_login && !cluster.user) return (await import("./pages/login.js")).login(cluster, loggedIn);
  const chosen = pageOf(path);
  if (chosen) {
    const args = chosen.found.slice(1).map((each) => (each === undefined ? undefined : decodeURIComponent(each)));
    const context = {
      api: clusterApi(cluster.name), args, query, cluster, readOnly: session.read_only,
      link: (...parts) => `${base(cluster)}/${parts.map(encodeURIComponent).join("/")}`,
      go, keep, title: (text) => { document.title = `${visible(text)} · headrace console`; },
    };
    return (await chosen.load())(context);
  }
  return nothing("There is no such page", "", cluster);
}

const nothing = (what, more, cluster) => ({ element: h("div", { class: "empty" }, h("h1", {}, what), more && h("p", {}, more),
  h("p", {}, h("a", { href: base(cluster) }, "To the overview"), session.clusters.length > 1 ? ` of ${visible(cluster.name)}` : "")) });

function failed(error, cluster) {
  if (error.status === 401 && cluster.needs_login) {
    cluster.user = null;
    show();
    return;
  }
  const text = error.status === undefined ? `The page failed: ${error.message}` : error.message;
  replace(main, h("div", { class: "empty", role: "alert" }, h("h1", {}, "This cannot be shown now"), h("p", {}, visible(text)),
    h("button", { type: "button", onclick: () => show() }, "Try again")));
  if (error.status === undefined) console.error(error);
  else page = { refresh: () => show() }; // it is tried again by itself
}

function drawShell(cluster, path) {
  const here = path.split("/")[0];
  replace(nav, NAV.map(([to, title, name]) =>
    h("a", { href: to ? `${base(cluster)}/${to}` : base(cluster), "aria-current": here === to ? "page" : null }, icon(name), h("span", {}, title))));
  nav.querySelector("[aria-current]")?.scrollIntoView({ inline: "center", block: "nearest" }); // on a phone
  const chooser = session.clusters.length > 1
    ? h("select", { "aria-label": "Cluster", onchange: (event) => go(`/${encodeURIComponent(event.target.value)}`) },
      session.clusters.map((each) => h("option", { value: each.name, selected: each.name === cluster.name }, each.name)))
    : h("strong", {}, cluster.name);
  replace(who, chooser,
    session.read_only && h("span", { class: "badge" }, "read-only"),
    cluster.user && h("span", { class: "user" }, visible(cluster.user), " ", h("button", { type: "button", class: "linklike", onclick: logOut }, "log out")));
}

async function loggedIn(cluster, reply) {
  setToken(reply.token);
  cluster.user = reply.user;
  await show();
}

async function logOut() {
  await call("POST", "/api/logout", {});
  for (const each of session.clusters) each.user = null;
  await show();
}

let refreshing = false;
async function refresh() {
  if (document.hidden || refreshing || !page?.refresh || document.querySelector("dialog[open]")) return;
  refreshing = true;
  const current = page;
  try {
    await current.refresh();
    problem.hidden = true;
  } catch (error) {
    if (error.status === 401) return failed(error, place().cluster);
    problem.hidden = false;
    problem.textContent = `What is shown is old: ${error.message}`;
  } finally {
    refreshing = false;
  }
}

// Addresses

function go(to) {
  history.replaceState({ y: scrollY }, ""); // going back leads to where one was
  history.pushState(null, "", to);
  return show();
}

/** Keep what was chosen in the address, without leaving the page. */
function keep(query) {
  const text = query.toString();
  history.replaceState(null, "", location.pathname + (text ? `?${text}` : ""));
}

function follow(event) {
  if (event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  const link = event.target.closest("a[href]");
  if (!link || link.target || link.hasAttribute("download") || link.origin !== location.origin || link.getAttribute("href").startsWith("#")) return;
  event.preventDefault();
  go(link.getAttribute("href"));
}

// A menu closes when something in it is chosen, when one clicks elsewhere, and by Escape.
function closeMenus(event) {
  for (const menu of document.querySelectorAll(".menu[open]")) {
    if (!event || !menu.querySelector("summary").contains(event.target)) menu.open = false;
  }
}

// Keys

let goes = false;
function keys(event) {
  if (event.key === "Escape") {
    const opener = document.querySelector(".menu[open] summary");
    closeMenus();
    opener?.focus();
  }
  if ((event.ctrlKey || event.metaKey) && event.key === "k") {
    event.preventDefault();
    jump();
    return;
  }
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, textarea, select, dialog")) return;
  if (event.key === "/") {
    const search = main.querySelector("input[type=search]");
    if (search) { event.preventDefault(); search.focus(); }
  } else if (event.key === "?") {
    help();
  } else if (event.key === "g") {
    goes = true;
  } else if (goes) {
    const found = NAV.find(([, , , letter]) => letter === event.key);
    goes = false;
    if (found) go(found[0] ? `${base(place().cluster)}/${found[0]}` : base(place().cluster));
  }
}

function help() {
  const rows = [["/", "search on this page"], ["Ctrl K", "jump to a topic or group"], ["↑ ↓", "from row to row"], ["Enter", "open"],
    ...NAV.map(([, title, , letter]) => [`g ${letter}`, title.toLowerCase()]), ["?", "these keys"]];
  ask({ title: "Keys", body: h("dl", { class: "keys" }, rows.map(([key, what]) => [h("dt", {}, h("kbd", {}, key)), h("dd", {}, what)])) });
}

async function jump() {
  if (document.querySelector("dialog[open]")) return;
  const { cluster } = place();
  const api = clusterApi(cluster.name);
  const list = h("ul", { class: "jump", "aria-label": "Found" });
  const input = h("input", { type: "search", placeholder: "A topic or a group", "aria-label": "A topic or a group", autocomplete: "off" });
  const pages = NAV.map(([to, title]) => [title, to ? `${base(cluster)}/${to}` : base(cluster), "page"]);
  let asked = 0;
  let known = [];
  const draw = async () => {
    const turn = (asked += 1);
    const words = input.value.trim();
    const show = () => replace(list, [...pages, ...known].filter(([name]) => name.toLowerCase().includes(words.toLowerCase())).slice(0, 12)
      .map(([name, to, kind]) => h("li", {}, h("a", { href: to, onclick: () => dialog.close() }, h("span", {}, visible(name)), h("small", {}, kind)))));
    show();
    try {
      const found = await api.get(`find?q=${encodeURIComponent(words)}`);
      const named = (names, path, kind) => names.map((name) => [name, `${base(cluster)}/${path}/${encodeURIComponent(name)}`, kind]);
      if (turn !== asked) return;
      known = [...named(found.topics, "topics", "topic"), ...named(found.groups, "groups", "group")];
      show();
    } catch (error) {
      note(error.message, "bad");
    }
  };
  input.addEventListener("input", draw);
  const dialog = ask({ title: "Jump to", body: [input, list] });
  dialog.addEventListener("keydown", (event) => {
    const links = [...list.querySelectorAll("a")];
    const at = links.indexOf(document.activeElement);
    if (event.key === "Enter" && document.activeElement === input) { event.preventDefault(); links[0]?.click(); }
    if (event.key === "ArrowDown") { event.preventDefault(); links[Math.min(at + 1, links.length - 1)]?.focus(); }
    if (event.key === "ArrowUp") { event.preventDefault(); (at <= 0 ? input : links[at - 1]).focus(); }
  });
  input.focus();
  await draw();
}

// Light and dark

function theme(name) {
  if (name) document.documentElement.dataset.theme = name;
  else delete document.documentElement.dataset.theme;
}

function nextTheme() {
  const isDark = document.documentElement.dataset.theme ? document.documentElement.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  const next = isDark ? "light" : "dark";
  localStorage.setItem("theme", next);
  theme(next);
}

begin().catch((error) => replace(app, h("div", { class: "empty", role: "alert" }, h("h1", {}, "The console cannot begin"), h("p", {}, error.message))));
