// The console's page: asks the API every two seconds and redraws the sections whose data changed.
import { graph, naturalWidth } from "./graph.js";
import { history } from "./history.js";
import { timeline } from "./timeline.js";
import { unlike } from "./unlike.js";
import { whatIf, whatIfServers } from "./what_if.js";
import { bytes, clock, counted, place, rate, seconds } from "./format.js";

const kPoll = 2000, kRowsShown = 12;
const by = (id) => document.getElementById(id);
const last = new Map();   // the data of each section when it was drawn
const opened = new Set(); // keys of what the reader has unfolded
let minutes = 60;
let overview = null;      // the last one: repairs and stripes are told together
let alarms = { standing: [], history: [], now_unix_s: Date.now() / 1000 };

function element(name, className, ...children) {
  const made = document.createElement(name);
  if (className) made.className = className;
  made.append(...children.filter((child) => child !== null && child !== undefined && child !== ""));
  return made;
}

const empty = (text, good) => element("div", `card empty${good ? " good" : ""}`, text);

// What the reader has unfolded stays so when the section is redrawn.
function unfolding(key, title, ...children) {
  const summary = element("summary", "", title);
  summary.dataset.focus = `summary ${key}`;
  const details = element("details", "", summary, ...children);
  details.open = opened.has(key);
  details.addEventListener("toggle", () => (details.open ? opened.add(key) : opened.delete(key)));
  return details;
}

function table(columns, rows, key) {
  const head = element("tr");
  for (const column of columns) {
    const th = element("th", column.number ? "number" : "", column.name);
    th.scope = "col";
    head.append(th);
  }
  const body = element("tbody");
  const all = opened.has(key);
  for (const row of all ? rows : rows.slice(0, kRowsShown)) {
    const tr = element("tr", row.className ?? "");
    row.cells.forEach((cell, i) => tr.append(element("td", columns[i].number ? "number" : "", cell)));
    body.append(tr);
  }
  const made = [element("table", "", element("thead", "", head), body)];
  if (rows.length > kRowsShown) {
    const button = element("button", "", all ? "Show fewer" : `Show all ${rows.length}`);
    button.type = "button";
    button.dataset.focus = `more ${key}`;
    button.addEventListener("click", () => {
      all ? opened.delete(key) : opened.add(key);
      redraw(key);
    });
    made.push(element("div", "more", button));
  }
  return made;
}

// ---- alarms

function chainOf(alarm, width) {
  if (alarm.chain.length === 0) return null;
  const nodes = alarm.chain.map((link, i) => ({
    id: i,
    title: link.server || "a process",
    // A device has no age of its own.
    lines: [link.region || link.role, [link.age_s > 0 ? seconds(link.age_s) : "", link.file ? place(link.file, link.line) : ""].filter(Boolean).join(" · ")],
    kind: i + 1 === alarm.chain.length ? "sink" : "",
  }));
  const edges = alarm.chain.slice(1).map((link, i) => ({ from: i, to: i + 1, label: alarm.chain[i].wait }));
  const words = alarm.chain.map((link) => `${link.server} in ${link.region || link.role}`).join(", which waits for ");
  const drawn = graph(nodes, edges, `Wait chain: ${words}`, width, "wide");
  drawn.dataset.focus = `chain ${alarm.id}`;
  return drawn;
}

function list(items) {
  return element("ul", "", ...items.map((item) => element("li", "", item)));
}

function alarmCard(alarm, width) {
  const kind = alarm.masked ? "masked" : ["slow", "host", "runs out"].includes(alarm.kind) ? "slow" : "";
  const sureness = { certain: "bad", likely: "warn", unsure: "" }[alarm.confidence] ?? "";
  const who = [alarm.server || "an unknown process", alarm.peer].filter(Boolean).join(" and ");
  const title = element("h3", "", who, element("span", `badge ${kind ? "warn" : "bad"}`, alarm.kind),
    element("span", `badge ${sureness}`, alarm.confidence), alarm.measured_of > 0 ? ` (${alarm.measured_right} of ${alarm.measured_of} right in campaigns) ` : "", alarm.masked ? element("span", "badge good", alarm.kind === "client" ? "nobody else waits" : "masked: operations went on") : "");
  const where = alarm.kind === "silent" ? element("p", "", "does not report and answers nobody") :
    alarm.kind === "full" || alarm.kind === "runs out" ? element("p", "", alarm.line_of_text) :
    element("p", "", element("code", "", alarm.region || alarm.device || "no region"), alarm.device && alarm.region ? ` (${alarm.device})` : "");
  if (alarm.file) where.append(" at ", element("code", "", place(alarm.file, alarm.line)), alarm.function ? ` in ${alarm.function}` : "");
  const facts = [
    alarm.since_s > 0 ? `for ${seconds(alarm.since_s)}` : "",
    alarm.factor > 1 ? `${alarm.factor.toFixed(1)} times slower` : "",
    alarm.waiters > 0 ? `${counted(alarm.waiters, "task")} wait${alarm.waiters === 1 ? "s" : ""} for it` +
      (alarm.servers_waiting.length ? ` on ${alarm.servers_waiting.join(", ")}` : "") : "",
    alarm.operations.length ? alarm.operations.slice(0, 3).join(", ") : "",
    `alarm ${alarm.id}, raised ${clock(alarm.raised_unix_s)}`,
  ].filter(Boolean).join(" · ");
  return element("article", `card alarm ${kind}`, title, where, element("p", "quiet", facts), chainOf(alarm, width),
    alarm.why.length ? unfolding(`why-${alarm.id}`, "Why the monitor thinks so", list(alarm.why)) : "",
    alarm.stack.length ? unfolding(`stack-${alarm.id}`, "Stack of the event loop", list(alarm.stack.map((line) => element("code", "", line)))) : "");
}

function drawAlarms(data) {
  alarms = data;
  const width = by("alarm-list").clientWidth - 54;
  const cards = data.standing.map((alarm) => alarmCard(alarm, width));
  const cleared = data.history.slice(0, 20).map((alarm) => `${clock(alarm.raised_unix_s)}, ${seconds(alarm.cleared_unix_s - alarm.raised_unix_s)}: ${alarm.line_of_text}`);
  if (cards.length === 0) cards.push(empty("No alarm stands.", true));
  if (cleared.length) cards.push(unfolding("cleared", `${counted(data.history.length, "alarm")} cleared lately`, list(cleared)));
  by("alarm-list").replaceChildren(...cards);
  drawTimeline();
}

function drawTimeline() {
  const body = by("timeline-body");
  const all = [...alarms.standing, ...alarms.history];
  body.replaceChildren(element("div", "card", timeline(all, alarms.now_unix_s, minutes, Math.max(body.clientWidth - 38, 240))));
}

// ---- cluster

function healthOf(server, known) {
  // What the metaserver said last may be old: only who reports is there for sure.
  if (!known) return server.silent_s !== null && server.silent_s <= 3 ? ["", "✓ reports"] : ["warn", "? not known"];
  if (server.liveness === "dead") return ["bad", "✕ dead"];
  if (server.alarms.length) return ["bad", server.slow_factor > 0 ? "! alarm, avoided" : "! alarm"];
  if (server.liveness === "suspect") return ["warn", "? suspect"];
  const states = server.disk_states.map(diskState);
  const worst = ["hung", "failed", "read-only", "full", "slow"].find((state) => states.includes(state));
  if (worst) return ["warn", `! ${counted(states.filter((state) => state === worst).length, "disk")} ${worst}`];
  if (server.draining) return ["warn", "→ draining"];
  if (server.slow_factor > 0) return ["warn", `↷ avoided, ${server.slow_factor.toFixed(1)} times slower`];
  return ["", "✓ alive"];
}

function diskState(disk) {
  return disk.health === "well" && disk.full ? "full" : disk.health;
}

// A mark for each disk of several, and some words on each that is not well: its state, where it is, and why.
function disksOf(server) {
  const level = (disk) => ({ well: "", hung: "bad", failed: "bad" })[diskState(disk)] ?? "warn";
  const marks = server.disk_states.map((disk) => {
    const one = element("i", level(disk));
    one.title = `${disk.path}: ${diskState(disk)}, ${counted(disk.chunks, "chunk")}, ${bytes(disk.free_bytes)} of ${bytes(disk.total_bytes)} free`;
    return one;
  });
  const count = element("span", "facts", counted(marks.length, "disk"));
  const sick = server.disk_states.filter((disk) => level(disk) !== "").map((disk) =>
    element("div", `disk ${level(disk)}`, element("b", "", diskState(disk)), ` ${disk.path}`,
      element("div", "facts", [counted(disk.chunks, "chunk"), disk.reason].filter(Boolean).join(" · "))));
  return [...(marks.length > 1 ? [element("div", "disks", ...marks, count)] : []), ...sick];
}

function tile(server, known) {
  const [level, state] = healthOf(server, known);
  const used = server.total_bytes > 0 ? 1 - server.free_bytes / server.total_bytes : 0;
  const fill = element("i");
  fill.style.width = `${(used * 100).toFixed(0)}%`;
  const meter = element("div", "meter", fill);
  meter.title = `${(used * 100).toFixed(0)} % of ${bytes(server.total_bytes)} used`;
  const reports = server.silent_s === null ? "does not report" : server.silent_s > 3 ? `last report ${seconds(server.silent_s)} ago` : "";
  const alive = server.liveness === "alive";
  const facts = [counted(server.chunks, "chunk"), `${bytes(server.free_bytes)} free`, alive ? `${(server.busy * 100).toFixed(0)} % busy` : "",
    alive && server.repairs > 0 ? counted(server.repairs, "repair") : "", alive && server.user_rate > 0 ? rate(server.user_rate) : "",
    !alive ? `heartbeat ${seconds(server.heartbeat_s_ago)} ago` : "", reports].filter(Boolean).map((fact) => fact.replaceAll(" ", "\u00a0")).join(" · ");
  const made = element("div", `tile ${level}`, element("div", "top", element("span", "", server.name), element("span", "state", state)),
    meter, element("div", "facts", facts), ...(alive ? disksOf(server) : []),
    ...(server.held_back ? [element("div", "facts", server.held_back)] : []));
  made.title = server.address;
  return made;
}

function partTile(part) {
  const isMonitor = part.kind === "monitor";
  const [level, state] = isMonitor ? (part.replaced ? ["warn", "→ replaced"] : ["", "✓ alive"])
    : !part.answers ? ["bad", "✕ does not answer"] : part.alarms.length ? ["bad", "! alarm"] : ["", "✓ alive"];
  const facts = isMonitor ? `up for ${seconds(part.uptime_s)}`
    : [part.answers ? "" : part.answered_s_ago === null ? "has never answered this monitor" : `answered ${seconds(part.answered_s_ago)} ago`,
      part.answers ? "" : "nothing can be stored or found without it",
      part.silent_s === null ? "does not report" : part.silent_s > 3 ? `last report ${seconds(part.silent_s)} ago` : ""].filter(Boolean).join(" · ");
  const made = element("div", `tile ${level}`, element("div", "top", element("span", "", part.name), element("span", "state", state)),
    element("div", "facts", facts || part.address));
  made.title = part.address;
  return made;
}

function drawServers({ parts, servers }) {
  whatIfServers({ servers });
  const racks = new Map();
  for (const server of servers) {
    const rack = server.rack || "";
    racks.set(rack, [...(racks.get(rack) ?? []), server]);
  }
  by("map-note").textContent = counted(servers.length, "chunkserver") + (racks.size > 1 ? ` in ${counted(racks.size, "rack")}` : "");
  const first = element("div", "card rack", element("div", "tiles", ...parts.map(partTile)));
  if (servers.length === 0) return by("map-body").replaceChildren(first, empty("No chunkserver is known yet."));
  const cards = [...racks].map(([rack, members]) => element("div", "card rack", rack ? element("h3", "", rack) : "", element("div", "tiles", ...members.map((server) => tile(server, parts.every((part) => part.answers !== false))))));
  by("map-body").replaceChildren(first, element("div", `racks${racks.size === 1 ? " one" : ""}`, ...cards));
}

// ---- repairs

// The trees of a repair: edges come tree by tree, and a tree begins with an edge to the root.
function treesOf(repair) {
  const root = repair.nodes.find((node) => node.root)?.id;
  const begins = repair.edges.map((edge, i) => (edge.to === root ? i : -1)).filter((i) => i >= 0);
  if (repair.trees < 2 || begins.length !== repair.trees) return [repair.edges];
  return begins.map((from, i) => repair.edges.slice(from, begins[i + 1] ?? repair.edges.length));
}

function repairCard(repair) {
  const width = by("repair-list").clientWidth - 40;
  let long = false;
  const graphs = treesOf(repair).map((tree, i, all) => {
    const members = new Set(tree.flatMap((edge) => [edge.from, edge.to]));
    const nodes = repair.nodes.filter((node) => members.has(node.id)).map((node) => ({ id: node.id, title: node.name,
      lines: [node.root ? (repair.kind === "read" ? "reads it" : "writes it") : "helper"], kind: node.root ? "root" : "" }));
    const edges = tree.map((edge) => ({ from: edge.from, to: edge.to, label: rate(edge.rate), flows: edge.rate === null || edge.rate > 0 }));
    if (nodes.length < 2) return "";
    long = long || naturalWidth(nodes, edges, "narrow") > width / 2 - 30;
    const drawn = graph(nodes, edges, `Tree ${i + 1} of ${all.length}, of ${counted(nodes.length - 1, "helper")}`, width, "narrow");
    drawn.dataset.focus = `tree ${repair.repair_id} ${i}`;
    return drawn;
  });
  const lines = [`${bytes(repair.bytes)} · ${repair.policy}${repair.trees > 1 ? ` · ${repair.trees} trees` : ""}`,
    `running for ${seconds(repair.running_s)}, estimated ${seconds(repair.estimated_s)}`, repair.attempt > 1 ? `attempt ${repair.attempt}` : "", repair.reason].filter(Boolean);
  return element("article", long ? "card long" : "card", element("h3", "", `${repair.kind} of ${repair.stripe_id}:${repair.index}`, element("span", "badge", repair.shape)),
    element("p", "quiet", lines.join(" · ")), ...graphs);
}

function drawRepairs(data) {
  by("repairs-note").textContent = `${data.running.length} running, ${data.queued} queued, ${data.delayed} waiting, ${data.done} done (${bytes(data.bytes_repaired)}), ${data.failed} failed` +
    (data.unrepairable > 0 ? `, ${data.unrepairable} unrepairable` : "");
  const shown = data.running.slice(0, 8).map(repairCard);
  if (data.running.length > shown.length) shown.push(empty(`and ${data.running.length - shown.length} more`));
  const lacks = overview ? missing(overview) : "";
  const waiting = data.queued + data.delayed;
  const words = lacks || waiting > 0 ? `Nothing is being repaired now${waiting > 0 ? `; ${counted(waiting, "repair")} wait${waiting === 1 ? "s" : ""}` : ""}${lacks ? `; ${lacks}` : ""}.`
    : "Nothing is being repaired, and nothing is missing.";
  const isWell = overview && !lacks && waiting === 0 && overview.metaserver.answers;
  by("repair-list").replaceChildren(shown.length ? element("div", "repairs", ...shown) : empty(words, isWell));
}

// ---- tables

function drawRegions({ regions }) {
  const columns = [{ name: "Region" }, { name: "Per second", number: true }, { name: "Typical", number: true }, { name: "99 % within", number: true }, { name: "Processes", number: true }, { name: "Slowest" }];
  const rows = regions.map((region) => ({
    className: region.processes > 2 && region.slowest_factor >= 3 ? "warn" : "",
    cells: [element("code", "", region.region), region.per_second.toFixed(region.per_second < 10 ? 1 : 0), seconds(region.typical_s), seconds(region.p99_s), String(region.processes),
      region.processes > 1 ? `${region.slowest}, ${seconds(region.slowest_s)}` : ""],
  }));
  by("region-list").replaceChildren(...(rows.length ? table(columns, rows, "regions") : [element("div", "empty", "No process has reported times yet.")]));
}

// Only a monitor with the setting `behaviour` has any.
function drawModels({ models }) {
  by("models").hidden = models.length === 0;
  const columns = [{ name: "Process" }, { name: "Region" }, { name: "Of it" }, { name: "R²", number: true }, { name: "Executions", number: true }, { name: "Explained by" }, { name: "" }];
  const rows = models.map((model) => ({
    className: "",
    cells: [model.kind, element("code", "", model.region), model.observation, model.r2.toFixed(2), String(model.executions), model.inputs.join(", ") || "–",
      model.usable ? "executions are judged by it" : "not used"],
  }));
  by("model-list").replaceChildren(...table(columns, rows, "models"));
}

function drawDevices({ devices }) {
  const columns = [{ name: "Process" }, { name: "" }, { name: "Disk or peer" }, { name: "Latency", number: true }, { name: "Against others", number: true }, { name: "Requests/s", number: true },
    { name: "In", number: true }, { name: "Out", number: true }, { name: "Oldest", number: true }];
  // What does not answer has no latency, and comes first all the same.
  const waits = (device) => device.oldest_pending_s > 5;
  const ordered = [...devices.filter(waits), ...devices.filter((device) => !waits(device))];
  const rows = ordered.map((device) => ({
    className: device.factor >= 3 || device.oldest_pending_s > 5 ? "warn" : "",
    cells: [device.name, device.kind, element("code", "", device.device), device.latency_s > 0 ? seconds(device.latency_s) : "–", device.factor > 0 ? `${device.factor.toFixed(1)} ×` : "–",
      device.requests_per_s.toFixed(1), rate(device.rate_in), rate(device.rate_out), device.oldest_pending_s > 0 ? seconds(device.oldest_pending_s) : "–"],
  }));
  by("device-list").replaceChildren(...(rows.length ? table(columns, rows, "devices") : [element("div", "empty", "No process has reported disks or links yet.")]));
}

function drawProcesses({ processes }) {
  by("processes-note").textContent = counted(processes.length, "process", "processes");
  const columns = [{ name: "Process" }, { name: "Kind" }, { name: "Address" }, { name: "Last report", number: true }, { name: "Up for", number: true }, { name: "Open", number: true },
    { name: "Oldest task", number: true }, { name: "Loop lag", number: true }, { name: "Lost records", number: true }];
  const rows = processes.map((process) => ({
    className: process.stalled_s > 1 ? "bad" : process.silent_s > 3 && !process.ended ? "warn" : "",
    cells: [process.name, process.kind, element("code", "", process.address), process.ended ? "ended" : seconds(process.silent_s), seconds(process.uptime_s), String(process.open),
      process.oldest_s > 0 ? seconds(process.oldest_s) : "–", process.stalled_s > 1 ? `stuck ${seconds(process.stalled_s)}` : seconds(process.loop_lag_s), String(process.dropped)],
  }));
  by("process-list").replaceChildren(...(rows.length ? table(columns, rows, "processes") : [element("div", "empty", "No process reports yet.")]));
}

// ---- the whole

// What is missing, in words; empty: nothing is.
function missing({ stripes, repairs }) {
  return [stripes.unreadable > 0 ? `${counted(stripes.unreadable, "stripe")} cannot be read` : "",
    stripes.without_spare > 0 ? `${counted(stripes.without_spare, "stripe")} cannot lose another chunk` : "",
    stripes.degraded > 0 ? `${counted(stripes.degraded, "stripe")} of ${stripes.all} lack${stripes.degraded === 1 ? "s" : ""} chunks` : "",
    repairs.unrepairable > 0 ? `${counted(repairs.unrepairable, "chunk")} cannot be repaired` : "",
    stripes.servers_not_reported > 0 ? `${counted(stripes.servers_not_reported, "server")} ha${stripes.servers_not_reported === 1 ? "s" : "ve"} not said yet which chunks they have` : "",
  ].filter(Boolean).join(", ");
}

function drawOverview(data) {
  const ending = data.ending_alarms, stuck = data.alarms - data.masked_alarms - ending, lacks = missing(data);
  overview = data;
  redraw("repairs");
  const reports = `${data.servers.reporting} of ${data.servers.all} servers report`;
  let level = "good", text = `Nothing is stuck; ${reports}.`;
  if (data.servers.reporting < data.servers.all || data.servers.all === 0) [level, text] = ["warn", `Nothing is known to be stuck; ${reports}.`];
  if (data.servers.dead + data.servers.suspect > 0 && stuck === 0)
    [level, text] = ["warn", `${counted(data.servers.dead, "server")} dead, ${data.servers.suspect} suspect; ${reports}.`];
  if (ending > 0 && stuck === 0) [level, text] = ["warn", `Nothing is stuck; ${counted(ending, "resource")} will be used up; ${reports}.`];
  if (data.masked_alarms > 0 && stuck === 0) [level, text] = ["warn", `${counted(data.masked_alarms, "culprit")}, but operations continue without ${data.masked_alarms === 1 ? "it" : "them"}; ${reports}.`];
  if (stuck > 0) [level, text] = ["bad", `${counted(stuck, "culprit")}; no operation waits for ${stuck === 1 ? "it" : "them"} now; ${reports}.`];
  if (data.holding_alarms > 0) [level, text] = ["bad", `Operations wait for ${counted(data.holding_alarms, "culprit")}; ${reports}.`];
  if (lacks) [level, text] = [level === "bad" || data.stripes.unreadable > 0 ? "bad" : "warn", `${lacks[0].toUpperCase()}${lacks.slice(1)}. ${text}`];
  if (!data.metaserver.answers) [level, text] = ["bad", "The metaserver does not answer: nothing can be stored or found until it is back. What is shown of the servers may be old."];
  if (data.monitor.replaced) [level, text] = ["warn", "Another monitor was started later: this one is not asked any more."];
  const verdict = by("verdict");
  verdict.className = `verdict ${level}`;
  if (verdict.textContent !== text) verdict.textContent = text;
  document.title = stuck > 0 ? `(${stuck}) Kintsugi console` : "Kintsugi console";
  by("footer").textContent = `monitor ${data.monitor.address}, up for ${seconds(data.monitor.uptime_s)} · metaserver ${data.metaserver.address} · ` +
    `${data.reports.accepted} reports, ${data.reports.refused + data.reports.too_many} refused · ${bytes(data.monitor.kept_bytes)} kept`;
}

const sections = { overview: drawOverview, alarms: drawAlarms, servers: drawServers, repairs: drawRepairs, regions: drawRegions, models: drawModels, devices: drawDevices, processes: drawProcesses };

// Whoever is inside of a section with the keyboard stays where they are.
function redraw(name) {
  if (!last.has(name)) return;
  const focus = document.activeElement?.dataset.focus;
  sections[name](JSON.parse(last.get(name)));
  if (!focus || document.activeElement?.dataset.focus === focus) return;
  document.querySelector(`[data-focus="${CSS.escape(focus)}"]`)?.focus({ preventScroll: true });
}

async function refresh(name) {
  const answer = await fetch(`api/v1/${name}`, { signal: AbortSignal.timeout(10000) });
  if (!answer.ok) throw new Error(`${name}: ${answer.status}`);
  const text = await answer.text();
  if (last.get(name) === text) return;
  last.set(name, text);
  redraw(name);
}

async function poll() {
  try {
    await Promise.all(Object.keys(sections).map(refresh));
    document.body.dataset.ready = "yes";
  } catch (error) {
    by("verdict").className = "verdict warn";
    by("verdict").textContent = "The monitor does not answer. What is shown may be old.";
  }
  setTimeout(poll, document.hidden ? 5 * kPoll : kPoll);
}

function setTheme(theme) {
  if (theme) document.documentElement.dataset.theme = theme;
}

by("theme").addEventListener("click", () => {
  const dark = document.documentElement.dataset.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
  const next = dark === "dark" ? "light" : "dark";
  localStorage.setItem("theme", next);
  setTheme(next);
});
document.querySelector("#timeline .choices").addEventListener("click", (event) => {
  const chosen = event.target.closest("button");
  if (!chosen) return;
  minutes = Number(chosen.dataset.minutes);
  for (const button of chosen.parentElement.children) button.setAttribute("aria-pressed", String(button === chosen));
  drawTimeline();
});
let resizing;
addEventListener("resize", () => {
  clearTimeout(resizing);
  resizing = setTimeout(() => Object.keys(sections).forEach(redraw), 150);
});
setTheme(new URLSearchParams(location.search).get("theme") ?? localStorage.getItem("theme"));
poll();
history();
unlike();
whatIf();
