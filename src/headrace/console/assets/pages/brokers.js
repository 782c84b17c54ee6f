// Brokers, the metadata quorum and log folders; and one broker's settings.

import { h, redraw, visible } from "../dom.js";
import { bytes, count, duration, rate } from "../format.js";
import { plainTable } from "../table.js";
import { gapsOf } from "./overview.js";
import { settingsPanel } from "./settings.js";

export async function brokers({ api, link, title }) {
  title("Brokers");
  const content = h("div");

  async function refresh() {
    const found = await api.get("brokers");
    const metrics = new Map(found.metrics.map((each) => [each.node, each]));
    redraw(content, gapsOf(found.gaps),
      h("p", { class: "quiet" }, "Cluster ", h("code", {}, visible(found.cluster_id))),
      plainTable("Brokers", [
        { title: "Broker", class: "name", cell: (row) => [h("a", { href: link("brokers", row.id) }, `Broker ${row.id}`), row.is_controller && h("span", { class: "badge" }, "controller"),
          row.fenced ? h("span", { class: "badge bad" }, "fenced") : row.trouble ? h("span", { class: "badge bad", title: row.trouble }, "out of reach") : h("span", { class: "badge good" }, "up")] },
        { title: "Address", wide: true, cell: (row) => h("span", { class: "mono" }, `${visible(row.host)}:${row.port}`) },
        { title: "Rack", wide: true, cell: (row) => visible(row.rack ?? "–") },
        { title: "Leads", number: true, cell: (row) => count(row.leads) },
        { title: "Replicas", number: true, wide: true, cell: (row) => count(row.replicas) },
        { title: "On disk", number: true, cell: (row) => bytes(row.bytes) },
        ...(found.metrics.length ? [
          { title: "In", number: true, cell: (row) => perSecond(metrics.get(String(row.id))?.bytes_in) },
          { title: "Out", number: true, cell: (row) => perSecond(metrics.get(String(row.id))?.bytes_out) },
          { title: "Records", number: true, wide: true, cell: (row) => rate(metrics.get(String(row.id))?.records_in) },
          { title: "CPU", number: true, wide: true, cell: (row) => share(metrics.get(String(row.id))?.cpu) },
          { title: "Up for", number: true, wide: true, cell: (row) => upFor(metrics.get(String(row.id))?.started, found.taken) },
          { title: "Memory", number: true, wide: true, cell: (row) => bytes(metrics.get(String(row.id))?.memory) },
        ] : []),
      ], found.brokers),
      found.metrics.filter((each) => each.error).map((each) => h("p", { class: "gaps" }, `No metrics from ${visible(each.url)}: ${visible(each.error)}`)),
      found.quorum && [h("h2", {}, "Metadata quorum"),
        h("p", { class: "quiet" }, `Node ${found.quorum.leader} leads in epoch ${found.quorum.epoch}; ${count(found.quorum.high_watermark)} records are committed.`),
        plainTable("Quorum", [
          { title: "Node", cell: (row) => row.id },
          { title: "Part", cell: (row) => [row.voter ? "voter" : "observer", row.id === found.quorum.leader && h("span", { class: "badge" }, "leader")] },
          { title: "End offset", number: true, wide: true, cell: (row) => count(row.end) },
          { title: "Behind", number: true, cell: (row) => h("span", { class: row.behind > 100 ? "late" : "well" }, count(row.behind)) },
          { title: "Caught up", wide: true, cell: (row) => (row.caught_up > 0 ? `${duration(Math.max(0, found.taken - row.caught_up))} ago` : "–") },
          { title: "Endpoints", wide: true, cell: (row) => h("span", { class: "mono" }, visible(row.endpoints.join(", ") || "–")) },
        ], found.quorum.members)],
      h("h2", {}, "Log folders"),
      plainTable("Log folders", [
        { title: "Broker", cell: (row) => row.broker },
        { title: "Folder", class: "name", cell: (row) => [h("span", { class: "mono" }, visible(row.path)), row.error && h("span", { class: "badge bad" }, row.error)] },
        { title: "Partitions", number: true, wide: true, cell: (row) => count(row.partitions) },
        { title: "Logs", number: true, cell: (row) => bytes(row.bytes) },
        { title: "Disk in use", cell: (row) => (row.total > 0 ? meter(1 - row.usable / row.total, `${bytes(row.usable)} of ${bytes(row.total)} free`) : "–") },
      ], found.folders, "No folder can be seen."));
  }

  await refresh();
  return { element: h("div", {}, h("h1", {}, "Brokers"), content), refresh };
}

const perSecond = (value) => (value === undefined ? "–" : `${bytes(value)}/s`);
const upFor = (started, now) => (started === undefined ? "–" : duration(Math.max(0, now - started * 1000)));
const share = (value) => (value === undefined ? "–" : `${Math.round(value * 100)} %`);

function meter(value, label) {
  const fill = h("span", { class: value > 0.95 ? "full" : "" });
  fill.style.width = `${Math.round(value * 100)}%`;
  return h("div", { class: "meter-box" }, h("span", { class: "meter", role: "img", "aria-label": label }, fill), h("small", { class: "quiet" }, label));
}

export async function broker({ api, args, link, title, query, keep, readOnly }) {
  title(`Broker ${args[0]}`);
  const path = `brokers/${encodeURIComponent(args[0])}/configs`;
  const panel = settingsPanel({ load: () => api.get(path), save: (body) => api.patch(path, body), readOnly, forAll: true, address: { query, keep } });
  await panel.refresh();
  return { element: h("div", {}, h("p", { class: "crumbs" }, h("a", { href: link("brokers") }, "Brokers")), h("h1", {}, `Broker ${visible(args[0])}`), panel.element), refresh: panel.refresh };
}
