// Partitions that move to other brokers.

import { h, redraw, visible } from "../dom.js";
import { ask, field, note } from "../dialogs.js";
import { bytes } from "../format.js";
import { plainTable } from "../table.js";

export async function moves({ api, link, title, readOnly }) {
  title("Reassignments");
  const content = h("div");

  async function refresh() {
    const found = (await api.get("reassignments")).reassignments;
    redraw(content, plainTable("Reassignments", [
      { title: "Partition", class: "name", cell: (row) => h("a", { href: link("topics", row.topic, "partitions") }, `${visible(row.topic)} ${row.partition}`) },
      { title: "Replicas now", cell: (row) => row.replicas.join(", ") },
      { title: "Coming", cell: (row) => row.adding.join(", ") || "–" },
      { title: "Going", cell: (row) => row.removing.join(", ") || "–" },
      { title: "Copied", cell: (row) => progress(row) },
      !readOnly && { title: "", cell: (row) => h("button", { type: "button", class: "linklike", onclick: () => stop(row) }, "stop") },
    ].filter(Boolean), found, "No partition is being moved."));
  }

  function stop(row) {
    ask({ title: "Stop moving", action: "Stop", body: h("p", {}, `Partition ${row.partition} of ${visible(row.topic)} goes back to the replicas it had.`),
      act: async () => { await api.post("reassignments", { topic: row.topic, partition: row.partition, replicas: null }); note("It is stopped."); await refresh(); } });
  }

  function move() {
    const topic = h("input", { required: true, autocomplete: "off" });
    const partition = h("input", { type: "number", min: 0, value: 0, required: true });
    const replicas = h("input", { required: true, placeholder: "1, 2, 3", pattern: "[0-9, ]+" });
    ask({ title: "Move a partition", action: "Move",
      body: [field("Topic", topic), field("Partition", partition), field("Replicas", replicas, "Brokers by their numbers; the first one leads.")],
      act: async () => {
        await api.post("reassignments", { topic: topic.value, partition: Number(partition.value), replicas: replicas.value.split(",").map(Number) });
        note("It is on its way.");
        await refresh();
      } });
  }

  await refresh();
  return { element: h("div", {}, h("div", { class: "title" }, h("h1", {}, "Reassignments"), h("span", { class: "grow" }), !readOnly && h("button", { type: "button", class: "primary", onclick: move }, "Move a partition")), content), refresh };
}

function progress(row) {
  const parts = Object.entries(row.copied);
  const whole = Math.max(0, ...Object.values(row.bytes));
  if (!parts.length) return "–";
  return parts.map(([node, share]) => h("div", {}, `${node}: ${Math.round(100 * share)} %`, h("small", { class: "quiet" }, ` of ${bytes(whole)}`)));
}
