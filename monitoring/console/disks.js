// All disks of all servers: those that are not well first.
import { badge, by, element, empty, table } from "./dom.js";
import { byName, counted, grouped, seconds } from "./format.js";
import { diskLevel, diskState, kOrder, serverLink, used } from "./servers.js";

const kLongPending = 5; // seconds

function row({ server, disk, speed, level }) {
  const known = speed && speed.latency_s > 0;
  return { className: level, cells: [serverLink(server.name), element("code", "path", disk.path), badge(diskState(disk), level || "good"), used(disk), grouped(disk.chunks),
    known ? seconds(speed.latency_s) : "–", known && speed.factor > 0 ? `${speed.factor.toFixed(1)} ×` : "–", speed ? speed.requests_per_s.toFixed(1) : "–",
    disk.reason || (speed?.oldest_pending_s > kLongPending ? `a request has waited for ${seconds(speed.oldest_pending_s)}` : "")] };
}

export function drawDisks({ servers: { servers }, devices: { devices } }) {
  const speeds = new Map(devices.filter((device) => device.kind === "disk").map((device) => [`${device.name} ${device.device}`, device]));
  const alive = servers.filter((server) => server.liveness !== "dead");
  const disks = alive.flatMap((server) => server.disk_states.map((disk) => {
    const speed = speeds.get(`${server.name} ${disk.path}`);
    return { server, disk, speed, level: diskLevel(disk) || (speed?.oldest_pending_s > kLongPending ? "warn" : "") };
  })).sort((a, b) => kOrder[a.level] - kOrder[b.level] || byName(a.server.name, b.server.name) || byName(a.disk.path, b.disk.path));
  const sick = disks.filter((one) => one.level !== "").length, dead = servers.length - alive.length;
  by("disks-note").textContent = `${counted(disks.length, "disk")} of ${counted(alive.length, "server")}, ${sick ? `${sick} not well` : "all well"}` + (dead ? `; those of ${counted(dead, "dead server")} are not shown` : "");
  const columns = [{ name: "Server" }, { name: "Disk" }, { name: "State" }, { name: "Used" }, { name: "Chunks", number: true }, { name: "Latency", number: true }, { name: "Against others", number: true },
    { name: "Requests/s", number: true }, { name: "Why" }];
  by("disk-list").replaceChildren(...(disks.length ? table(columns, disks.map(row), "disks") : [empty("No disk is known yet.")]));
}
