// Processes that use the cluster: commands, mounts, programs with the library.
import { badge, by, element, empty, table } from "./dom.js";
import { byName, counted, grouped, rate, seconds } from "./format.js";
import { isUser, kSilent } from "./health.js";

function row(process, alarms) {
  const own = alarms.filter((alarm) => alarm.process === process.process);
  const silent = process.silent_s > kSilent, level = own.length ? "bad" : silent ? "warn" : "";
  const state = own.length ? "! alarm" : silent ? `? silent for ${seconds(process.silent_s)}` : "✓ reports";
  const did = process.mount, of = (text) => (did ? text(did) : "–");
  const perSecond = (n) => (n > 0 && n < 10 ? n.toFixed(1) : grouped(n));
  return { className: level, cells: [process.name, process.kind, process.host || "–", badge(state, level || "good"),
    of((mount) => perSecond(mount.operations_per_second)), of((mount) => rate(mount.read_rate)), of((mount) => rate(mount.write_rate)),
    of((mount) => (mount.latency_s > 0 ? seconds(mount.latency_s) : "–")), grouped(process.open),
    process.oldest_s > 0 ? seconds(process.oldest_s) : "–", grouped(process.tasks_failed), seconds(process.uptime_s)] };
}

export function drawClients({ processes: { processes }, alarms: { standing } }) {
  const users = processes.filter(isUser).sort((a, b) => b.open - a.open || byName(a.name, b.name));
  by("clients-note").textContent = `${counted(users.filter((one) => one.kind === "mount").length, "mount")}, ${counted(users.filter((one) => one.kind === "client").length, "other")}`;
  const columns = [{ name: "Name" }, { name: "Kind" }, { name: "Machine" }, { name: "State" }, { name: "Operations/s", number: true }, { name: "Read", number: true }, { name: "Written", number: true },
    { name: "Mean time", number: true }, { name: "Open operations", number: true }, { name: "Oldest", number: true }, { name: "Failed", number: true },
    { name: "Up for", number: true }];
  by("client-list").replaceChildren(...(users.length ? table(columns, users.map((one) => row(one, standing)), "clients") : [empty("No mount and no other client reports now. Commands report while they run for longer than a second.")]));
}
