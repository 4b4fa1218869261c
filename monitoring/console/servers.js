// Servers: all of them as a table, and one with its disks, alarms and plots.
import { actionsOfServer, drainProgress, maintenanceEnd } from "./actions.js";
import { badge, by, element, empty, facts, link, meter, table } from "./dom.js";
import { byName, bytes, counted, grouped, percent, rate, seconds } from "./format.js";
import { alarmCard } from "./alarms.js";
import { kSilent } from "./health.js";

export const diskState = (disk) => (disk.health === "well" && disk.full ? "full" : disk.health);
export const diskLevel = (disk) => ({ well: "", hung: "bad", failed: "bad" })[diskState(disk)] ?? "warn";
export const serverLink = (name) => link(`#servers/${encodeURIComponent(name)}`, name);

// What the metaserver said last may be old while it is silent: only who reports is there for sure.
export function healthOf(server, known) {
  if (!known) return server.silent_s !== null && server.silent_s <= kSilent ? ["", "✓ reports"] : ["warn", "? not known"];
  if (server.liveness === "dead") return server.maintenance_s > 0 ? ["warn", "⏸ away, in maintenance"] : ["bad", "✕ dead"];
  if (server.alarms.length) return ["bad", server.slow_factor > 0 ? "! alarm, avoided" : "! alarm"];
  if (server.liveness === "suspect") return ["warn", "? suspect"];
  const states = server.disk_states.map(diskState);
  const worst = ["hung", "failed", "read-only", "full", "slow"].find((state) => states.includes(state));
  if (worst) return ["warn", `! ${counted(states.filter((state) => state === worst).length, "disk")} ${worst}`];
  if (server.maintenance_s > 0) return ["warn", "⏸ in maintenance"];
  if (server.draining) return ["warn", server.chunks === 0 ? "→ drained" : "→ draining"];
  if (server.slow_factor > 0) return ["warn", `↷ avoided, ${server.slow_factor.toFixed(1)} times slower`];
  return ["", "✓ alive"];
}

export function used({ total_bytes: total, free_bytes: free }) {
  if (!(total > 0)) return "–";
  const share = 1 - free / total;
  const made = element("div", "used", meter(share, share >= 0.95 ? "bad" : share >= 0.85 ? "warn" : ""), element("span", "", `${percent(share)} of ${bytes(total)}`));
  made.title = `${bytes(free)} free`;
  return made;
}

const repairsOf = ({ repairs, repair_rate: bytesEach }) => (repairs > 0 && bytesEach > 0 ? `${grouped(repairs)}, ${rate(bytesEach)}` : grouped(repairs));
export const kOrder = { bad: 0, warn: 1, "": 2 }; // of levels, in tables

function row(server, known) {
  const [level, state] = healthOf(server, known), alive = server.liveness === "alive";
  return { className: level, cells: [serverLink(server.name), server.rack || "–", badge(state, level || "good"), alive ? used(server) : "–", grouped(server.chunks), grouped(server.disks),
    alive ? rate(server.user_rate) : "–", alive ? percent(server.busy) : "–", alive ? repairsOf(server) : "–",
    server.silent_s === null ? "none" : server.silent_s > kSilent ? `${seconds(server.silent_s)} ago` : "now"] };
}

function ordered(servers, known) {
  return [...servers].sort((a, b) => kOrder[healthOf(a, known)[0]] - kOrder[healthOf(b, known)[0]] || byName(a.name, b.name));
}

export function drawServers({ servers: { servers }, overview }) {
  const known = overview.metaserver.answers;
  const racks = new Set(servers.map((server) => server.rack || "")).size;
  by("servers-note").textContent = counted(servers.length, "chunkserver") + (racks > 1 ? ` in ${counted(racks, "rack")}` : "") + (known ? "" : "; the metaserver is silent, and what it said of them may be old");
  const columns = [{ name: "Server" }, { name: "Rack" }, { name: "State" }, { name: "Used" }, { name: "Chunks", number: true }, { name: "Disks", number: true }, { name: "Users", number: true },
    { name: "Busy", number: true }, { name: "Repairs", number: true }, { name: "Report", number: true }];
  by("server-list").replaceChildren(...(servers.length ? table(columns, ordered(servers, known).map((server) => row(server, known)), "servers") : [empty("No chunkserver is known yet.")]));
}

// One server. Returns its disks' paths for the plots; null: there is no such server.
export function drawServer({ servers: { servers }, alarms, overview }, name) {
  const server = servers.find((one) => one.name === name);
  by("server-one").hidden = name === "";
  by("server-all").hidden = name !== "";
  if (!server) {
    by("server-title").textContent = name;
    by("server-facts").replaceChildren(empty("No server has that name."));
    return null;
  }
  const [level, state] = healthOf(server, overview.metaserver.answers);
  by("server-title").replaceChildren(server.name, badge(state, level || "good"));
  const alive = server.liveness === "alive", now = (value) => (alive ? value : "");
  const own = alarms.standing.filter((alarm) => alarm.server_id === server.server_id);
  const width = by("server-one").clientWidth - 54;
  by("server-facts").replaceChildren(...own.map((alarm) => alarmCard(alarm, width)),
    element("div", "card", facts([["Address", server.address], ["Pages", server.http], ["Rack", server.rack], ["Used", now(used(server))], ["Chunks", grouped(server.chunks)],
      ["Busy", now(percent(server.busy))], ["Users read and write", now(rate(server.user_rate))], ["Repairs", now(repairsOf(server))],
      ["Heartbeat", `${seconds(server.heartbeat_s_ago)} ago`], ["Report", server.silent_s === null ? "none" : `${seconds(server.silent_s)} ago`], ["Moves", server.held_back], ["Maintenance", maintenanceEnd(server)], ["Drain", drainProgress(server)]]),
    element("p", "", link("#disks", `Its ${counted(server.disk_states.length, "disk")}`), " · ", link("#repairs", "What if it died")), actionsOfServer(server)));
  return server.disk_states.map((disk) => disk.path);
}
