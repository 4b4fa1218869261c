// Finds servers, disks, clients, alarms and directories by a part of their name.
import { by, element, link } from "./dom.js";
import { isUser } from "./health.js";

const kMostFound = 12;

// All that can be found: {kind, name, to, also}; `also` is what else is looked through.
export function everything({ servers, processes, alarms, names }) {
  if (!servers || !processes || !alarms) return []; // nothing has come yet
  return [
    ...servers.servers.map((server) => ({ kind: "server", name: server.name, to: `#servers/${encodeURIComponent(server.name)}`, also: `${server.address} ${server.rack} ${server.server_id}` })),
    ...servers.servers.flatMap((server) => server.disk_states.map((disk) => ({ kind: "disk", name: `${disk.path} of ${server.name}`, to: `#servers/${encodeURIComponent(server.name)}`, also: disk.health }))),
    ...processes.processes.filter(isUser).map((process) => ({ kind: process.kind, name: process.name, to: "#clients", also: `${process.host} ${process.address}` })),
    ...alarms.standing.map((alarm) => ({ kind: "alarm", name: alarm.advice, to: "#alarms", also: `${alarm.kind} ${alarm.line_of_text}` })),
    ...(names?.quotas ?? []).map((quota) => ({ kind: "quota", name: quota.path, to: "#files", also: "" })),
    ...(names?.snapshots ?? []).map((snapshot) => ({ kind: "snapshot", name: `${snapshot.path} ${snapshot.name}`, to: "#files", also: "" })),
  ];
}

export function found(all, text) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  if (words.length === 0) return [];
  return all.filter(({ kind, name, also }) => words.every((word) => `${kind} ${name} ${also}`.toLowerCase().includes(word)));
}

function draw(hits, text) {
  const items = hits.slice(0, kMostFound).map((hit) => element("li", "", link(hit.to, element("span", "badge", hit.kind), ` ${hit.name}`)));
  if (hits.length > kMostFound) items.push(element("li", "quiet", `and ${hits.length - kMostFound} more`));
  if (hits.length === 0) items.push(element("li", "quiet", "Nothing has that name."));
  by("found").replaceChildren(...items);
  by("found").hidden = text.trim() === "";
}

// "/" goes to the field, the arrows through what was found, Enter to the first, Escape closes it.
export function search(documents) {
  const field = by("search"), close = () => { by("found").hidden = true; };
  const hits = () => found(everything(documents()), field.value);
  field.addEventListener("input", () => draw(hits(), field.value));
  field.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && hits().length) { location.hash = hits()[0].to; close(); }
    if (event.key === "ArrowDown") { by("found").querySelector("a")?.focus(); event.preventDefault(); }
  });
  by("found").addEventListener("keydown", (event) => {
    const item = event.target.closest("li");
    const next = event.key === "ArrowDown" ? item?.nextElementSibling : event.key === "ArrowUp" ? item?.previousElementSibling : null;
    if (event.key === "ArrowUp" && !next) field.focus();
    if (next) { next.querySelector("a")?.focus(); event.preventDefault(); }
  });
  by("found").addEventListener("click", close);
  addEventListener("keydown", (event) => {
    if (event.key === "Escape") close();
    if (event.key !== "/" || event.target.matches("input, select, textarea")) return;
    field.focus();
    event.preventDefault();
  });
}
